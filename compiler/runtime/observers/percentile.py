"""Order statistics of batches, averaged (PPQ)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ...diagnostics import CompileError
from .observer import Array, Observer


@dataclass
class PercentileObserver(Observer):
    """The mean over batches of the k-th smallest value, with `k = int(n * p) + 1` for the top and `int(n * (1-p)) + 1` below.

    Of fewer than 1/(1-p) elements nothing is clipped, so that it is the mean of minima and maxima.
    """

    percentile: float = 0.9999

    sums: tuple[float, float] = field(default=(0.0, 0.0), init=False)
    batches: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not 0.5 < self.percentile <= 1:
            raise CompileError(f"percentile must lie in (0.5, 1], not {self.percentile}")

    def take(self, array: Array, low: float, high: float) -> None:
        n = array.size
        top, bottom = min(int(n * self.percentile), n - 1), min(int(n * (1 - self.percentile)), n - 1)
        parted = np.partition(array.reshape(-1), (bottom, top))
        self.sums = self.sums[0] + float(parted[bottom]), self.sums[1] + float(parted[top])
        self.batches += 1

    def merge(self, other: Self) -> None:
        self.sums = self.sums[0] + other.sums[0], self.sums[1] + other.sums[1]
        self.batches += other.batches

    def finish(self) -> tuple[float, float]:
        if not self.batches:
            raise ValueError("no values were seen")
        return self.sums[0] / self.batches, self.sums[1] / self.batches
