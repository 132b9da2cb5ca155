"""The range of least squared error: of clipping and of rounding together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ..affine import affine, rounded
from .histogram import Histogram
from .observer import Array, Observer

_FRACTIONS = 100
"""Candidates: this many parts of the range seen, on each side that moves."""


@dataclass
class MseObserver(Observer):
    """Tries the range seen and parts of it, and takes the one whose steps are nearest to the values, squared.

    Symmetric: one threshold for both sides. Asymmetric: each side in turn, with the other at its best, until neither moves. PPQ
    counts twice the steps that a signed symmetric range has, and moves one side only.
    """

    num_of_bins: int = 8192

    histogram: Histogram = field(init=False)

    def __post_init__(self) -> None:
        self.histogram = Histogram(self.num_of_bins)

    @property
    def batches_matter(self) -> bool:
        return False

    def take(self, array: Array, low: float, high: float) -> None:
        self.histogram.add(array, low, high)

    def merge(self, other: Self) -> None:
        self.histogram.merge(other.histogram)

    def check(self) -> None:
        self.histogram.check()

    def finish(self) -> tuple[float, float]:
        histogram = self.histogram
        if not histogram.counts.size:
            raise ValueError("no values were seen")
        low, high = min(histogram.low, 0.0), max(histogram.high, 0.0)
        if low == high:
            return low, high
        filled = histogram.counts > 0
        values, weights = np.clip(histogram.centres[filled], low, high), histogram.counts[filled].astype(np.float64)
        if self.symmetric:
            return _symmetric(values, weights, low, high, self.bits)
        return _asymmetric(values, weights, low, high, self.bits)


def _symmetric(values: Array, weights: Array, low: float, high: float, bits: int) -> tuple[float, float]:
    parts = np.arange(_FRACTIONS, 0, -1) / _FRACTIONS
    errors = [squared_error(values, weights, low * p, high * p, bits, symmetric=True) for p in parts]
    best = float(parts[int(np.argmin(errors))])
    return low * best, high * best


def _asymmetric(values: Array, weights: Array, low: float, high: float, bits: int) -> tuple[float, float]:
    parts = np.arange(_FRACTIONS, -1, -1) / _FRACTIONS
    lows, highs = np.unique(low * parts), np.unique(high * parts)[::-1]
    best = low, high
    error = squared_error(values, weights, low, high, bits, symmetric=False)
    while True:
        ranges = [*((float(a), best[1]) for a in lows), *((best[0], float(b)) for b in highs)]
        errors = [squared_error(values, weights, a, b, bits, symmetric=False) if a < b else np.inf for a, b in ranges]
        least = int(np.argmin(errors))
        if not errors[least] < error:
            return best
        error, best = errors[least], ranges[least]


def squared_error(values: Array, weights: Array, low: float, high: float, bits: int, *, symmetric: bool) -> float:
    """The sum of weighted squared differences between values and what their integers stand for."""
    scale, zero_point = affine(low, high, bits, symmetric=symmetric)
    return float(np.sum(weights * np.square(rounded(values, scale, zero_point, bits) - values)))
