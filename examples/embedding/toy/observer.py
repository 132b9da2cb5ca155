"""An observer: the range is this many standard deviations around zero, and never more than what was seen."""

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from amct_opt import Observer


@dataclass
class SpreadObserver(Observer):
    """Fields of the constructor are options (`spread{deviations=5}`), the others state: bounded, and of two parts of the data
    it merges into one.
    """

    deviations: float = 6.0

    low: float = field(default=np.inf, init=False)
    high: float = field(default=-np.inf, init=False)
    squares: float = field(default=0.0, init=False)
    count: int = field(default=0, init=False)

    @property
    def merging(self):
        return "rounding"

    def take(self, array, low: float, high: float) -> None:
        self.low, self.high = min(self.low, low), max(self.high, high)
        self.squares += float(np.square(array, dtype=np.float64).sum())
        self.count += array.size

    def merge(self, other: Self) -> None:
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.squares += other.squares
        self.count += other.count

    def check(self) -> None:
        if self.count < 0 or not self.squares >= 0:
            raise ValueError("no data gives such sums")

    def finish(self) -> tuple[float, float]:
        if not self.count:
            raise ValueError("no values were seen")
        limit = self.deviations * float(np.sqrt(self.squares / self.count))
        return max(self.low, -limit), min(self.high, limit)
