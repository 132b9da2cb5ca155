"""The range of least squared error, of clipping and rounding together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import cycle

import numpy as np

from ..runtime.affine import asymmetric_params, rounded, symmetric_scales
from .histogram import Histogram, HistogramObserver
from .observer import FEW, Array

_Errors = Callable[[Array], Array]
"""Maps candidates, float64 [candidates, 2], to their squared errors [candidates]."""
_FRACTIONS = 100
"""The number of candidates on each side that moves, as parts of the range seen."""


@dataclass
class MseObserver(HistogramObserver):
    """Tries the range seen and parts of it, and takes the one of least squared distance between steps and values.

    Symmetric: one threshold for both sides. Asymmetric: each side in turn, with the other at its best, until neither moves; from
    the whole range, or from the best part of both sides. PPQ counts twice the steps that a signed symmetric range has, and
    moves one side only. Fewer than `fewest` samples say nothing about how far values reach: nothing is clipped then.
    """

    fewest: int = FEW

    def range_of(self, samples: int | None) -> tuple[float, float]:
        if samples is None or samples >= self.fewest:
            return self.finish()
        histogram = self.counted()
        return histogram.low, histogram.high

    def finish(self) -> tuple[float, float]:
        histogram = self.counted()
        low, high = min(histogram.low, 0.0), max(histogram.high, 0.0)
        if low == high:
            return low, high
        filled = histogram.counts > 0
        values, weights = np.clip(histogram.centres[filled], low, high), histogram.counts[filled].astype(np.float64)
        below = Below(histogram, filled, values)
        errors = partial(squared_errors, values, weights, below=below, bits=self.bits, symmetric=self.symmetric)
        return (_symmetric if self.symmetric else _asymmetric)(errors, low, high)


class Below:
    """The number of values, one in each filled bin, below each edge: the result of np.searchsorted, without a search.

    The width of bins is a power of two, so that the bin of an edge is computed exactly.
    """

    def __init__(self, histogram: Histogram, filled: Array, values: Array):
        self._width, self._first = histogram.width, histogram.first
        self._before = np.cumsum(filled) - filled
        self._values = np.full(filled.shape, np.inf)
        self._values[filled] = values

    def __call__(self, edges: Array) -> Array:
        bins = np.clip(np.floor(edges / self._width) - self._first, 0, self._values.size - 1).astype(np.intp)
        return self._before[bins] + (self._values[bins] < edges)


def _symmetric(errors: _Errors, low: float, high: float) -> tuple[float, float]:
    return _both_sides(errors, low, high)[0]


def _both_sides(errors: _Errors, low: float, high: float) -> tuple[tuple[float, float], float]:
    parts = np.arange(_FRACTIONS, 0, -1) / _FRACTIONS
    return _least(errors, parts[:, None] * np.array([low, high]))


def _asymmetric(errors: _Errors, low: float, high: float) -> tuple[float, float]:
    """Searches both sides at once, from the best part of both, if outliers on both sides hold the search at its start."""
    found, error = _side_by_side(errors, low, high, *_least(errors, np.array([[low, high]])))
    inner, least = _both_sides(errors, low, high)
    return found if error <= least else _side_by_side(errors, low, high, inner, least)[0]


def _side_by_side(
    errors: _Errors, low: float, high: float, best: tuple[float, float], error: float
) -> tuple[tuple[float, float], float]:
    """Move each side in turn, with the other at its best, until neither moves: the range, and its error."""
    parts = np.arange(_FRACTIONS, -1, -1) / _FRACTIONS
    settled = 0
    for side in cycle((1, 0)):
        moved = np.tile(best, (len(parts), 1))
        moved[:, side] = (low, high)[side] * parts
        found, least = _least(errors, moved[moved[:, 0] < moved[:, 1]])
        if least < error:
            best, error, settled = found, least, 1
        else:
            settled += 1
        if settled == 2:
            break
    return best, error


def _least(errors: _Errors, candidates: Array) -> tuple[tuple[float, float], float]:
    """The first candidate of least error, and its error."""
    sums = errors(candidates)
    least = int(np.argmin(sums))
    low, high = candidates[least]
    return (float(low), float(high)), float(sums[least])


def squared_errors(
    values: Array,
    weights: Array,
    ranges: Array,
    *,
    below: Callable[[Array], Array] | None = None,
    bits: int,
    symmetric: bool,
) -> Array:
    """The sum of weighted squared differences between values and their quantized form, for each of the ranges, float64
    [n, 2]. The values are in ascending order; `below` counts those less than each of some numbers.

    Values with the same integer are adjacent, so that their sum of `w * (v - r)^2` is a difference of running sums of w,
    w * v and w * v^2. If there are more steps than values, the values are rounded one by one.
    """
    if symmetric:
        scales = symmetric_scales(ranges.T, bits, axis=1).astype(np.float64)
        points = np.zeros_like(scales)
    else:
        scales, points = (array.astype(np.float64) for array in asymmetric_params(ranges.T, bits, axis=1))
    if 2**bits > values.size:
        pairs = zip(scales, points, strict=True)
        return np.array([np.sum(weights * np.square(rounded(values, s, z, bits) - values)) for s, z in pairs])
    integers = np.asarray(np.arange(2**bits), np.float64) - 2.0 ** (bits - 1)
    levels = (integers - points[:, None]) * scales[:, None]
    edges = levels[:, :-1] + scales[:, None] / 2
    ends = np.searchsorted(values, edges) if below is None else below(edges)
    mass, first, second = (np.concatenate([[0.0], np.cumsum(weights * values**k)]) for k in range(3))
    within, moment = _within(mass, ends), _within(first, ends)
    return second[-1] + np.sum(levels * (levels * within - 2 * moment), axis=1)


def _within(running: Array, ends: Array) -> Array:
    """The sums between ends, from running sums: [candidates, steps]."""
    at = running[ends]
    return np.diff(at, axis=1, prepend=0.0, append=running[-1])
