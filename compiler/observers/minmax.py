"""The smallest and the largest value seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from .observer import Array, Observer, seen


@dataclass
class MinMaxObserver(Observer):
    """Uses the full range: nothing is clipped."""

    low: float = field(default=float("inf"), init=False)
    high: float = field(default=float("-inf"), init=False)

    @property
    def extremes_suffice(self) -> bool:
        return True

    @property
    def batches_matter(self) -> bool:
        return False

    def take(self, array: Array, low: float, high: float) -> None:
        self.low, self.high = min(self.low, low), max(self.high, high)

    def merge(self, other: Self) -> None:
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)

    def check(self) -> None:
        if np.isnan([self.low, self.high]).any():
            raise ValueError("not a number in a range")

    def finish(self) -> tuple[float, float]:
        return seen(self.low, self.high)
