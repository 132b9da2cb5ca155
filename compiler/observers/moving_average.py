"""A moving average of the minimum and maximum of batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ..support.diagnostics import CompileError
from .observer import Array, Merging, NoValues, Observer


def _no_range() -> Array:
    return np.zeros(2)


@dataclass
class MovingAverageObserver(Observer):
    """`range = momentum * range + (1 - momentum) * batch range`, beginning with the first batch's."""

    momentum: float = 0.9

    first: Array = field(default_factory=_no_range, init=False)
    """Minimum and maximum of the first batch, and their averages over all."""
    average: Array = field(default_factory=_no_range, init=False)
    batches: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise CompileError(f"momentum must lie in [0, 1), not {self.momentum}")

    @property
    def merging(self) -> Merging:
        return "rounding"

    @property
    def extremes_suffice(self) -> bool:
        return True

    def take(self, array: Array, low: float, high: float) -> None:
        batch = np.array([low, high])
        if not self.batches:
            self.first = self.average = batch
        else:
            self.average = self.average * self.momentum + batch * (1 - self.momentum)
        self.batches += 1

    def merge(self, other: Self) -> None:
        """Appends the other's batches; its first batch then has the weight of any other."""
        if not self.batches:
            self.first, self.average = other.first, other.average
        elif other.batches:
            fade = self.momentum**other.batches
            self.average = self.average * fade + (other.average - other.first * fade)
        self.batches += other.batches

    def check(self) -> None:
        known = self.average.shape == self.first.shape == (2,) and np.isfinite([self.average, self.first]).all()
        if self.batches < 0 or not known:
            raise ValueError("averages of minimum and maximum do not fit")

    def finish(self) -> tuple[float, float]:
        if not self.batches:
            raise NoValues
        low, high = self.average
        return float(low), float(high)
