"""Minimum and maximum of batches, the latest counting most."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from ...diagnostics import CompileError
from .observer import Array, Observer

Pair = tuple[float, float]


@dataclass
class MovingAverageObserver(Observer):
    """`range = momentum * range + (1 - momentum) * batch range`, beginning with the first batch's."""

    momentum: float = 0.9

    first: Pair | None = field(default=None, init=False)
    average: Pair = field(default=(0.0, 0.0), init=False)
    batches: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise CompileError(f"momentum must lie in [0, 1), not {self.momentum}")

    def take(self, array: Array, low: float, high: float) -> None:
        self.batches += 1
        if self.first is None:
            self.first = self.average = low, high
        else:
            self.average = _mixed(self.average, self.momentum, (low, high), 1 - self.momentum)

    def merge(self, other: Self) -> None:
        """The other's batches follow; its first one then has the weight of any other."""
        if other.first is None:
            return
        if self.first is None:
            self.first, self.average, self.batches = other.first, other.average, other.batches
            return
        fade = self.momentum**other.batches
        later = _mixed(other.average, 1, other.first, -fade)
        self.average = _mixed(self.average, fade, later, 1)
        self.batches += other.batches

    def finish(self) -> Pair:
        if self.first is None:
            raise ValueError("no values were seen")
        return self.average


def _mixed(a: Pair, weight_a: float, b: Pair, weight_b: float) -> Pair:
    return a[0] * weight_a + b[0] * weight_b, a[1] * weight_a + b[1] * weight_b
