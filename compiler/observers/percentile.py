"""Averaged order statistics of batches (PPQ)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from ..support.diagnostics import CompileError
from .extremes import largest
from .observer import Array, NoValues, Observer
from .sums import added, mean


@dataclass
class PercentileObserver(Observer):
    """The mean over batches of the k-th smallest value, with `k = int(n * p) + 1` for the top and `int(n * (1-p)) + 1` below.

    With fewer than 1/(1-p) elements nothing is clipped: the result is the mean of minima and maxima.
    """

    percentile: float = 0.9999

    sums: list[int] = field(default_factory=lambda: [0, 0], init=False)
    """Exact sums of the lower and the upper values."""
    batches: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not 0.5 < self.percentile <= 1:
            raise CompileError(f"percentile must lie in (0.5, 1], not {self.percentile}")

    def take(self, array: Array, low: float, high: float) -> None:
        n, flat = array.size, array.reshape(-1)
        top, bottom = min(int(n * self.percentile), n - 1), min(int(n * (1 - self.percentile)), n - 1)
        upper = largest(flat, n - top)[0]
        lower = -largest(-flat, bottom + 1)[0]
        self.sums = added(self.sums, (float(lower), float(upper)))
        self.batches += 1

    def merge(self, other: Self) -> None:
        self.sums = [a + b for a, b in zip(self.sums, other.sums, strict=True)]
        self.batches += other.batches

    def check(self) -> None:
        if self.batches < 0 or len(self.sums) != 2:
            raise ValueError("lower and upper sums do not fit")

    def finish(self) -> tuple[float, float]:
        if not self.batches:
            raise NoValues
        low, high = (mean(s, self.batches) for s in self.sums)
        return low, high
