"""AMCT's default for activations: percentiles give a first range, and a search around it the one of least squared error."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from math import floor
from typing import Self

import numpy as np

from ...diagnostics import CompileError
from ..affine import affine
from .histogram import Histogram
from .observer import Array, Observer

_EPSILON = 1.1920929e-07
"""float32's. A percentile as near to 1 takes the extreme itself."""
_BLOCK = 1 << 16
_MOST_STEPS = 100_000


@dataclass
class IfmrObserver(Observer):
    """`M` is the k-th largest value and `m` the k-th smallest, `k = n - floor(percentile * n)`, each on its side of 0. For each r
    from `search_range_start` to `search_range_end` a range is tried: asymmetric [m, r*M], symmetric r times the larger
    magnitude. The first of least mean squared error wins.

    From a histogram of one pass, `M` and `m` are exact to a bin (at most 1/4096 of the range seen) and each value is taken for
    the middle of its bin. `exact` counts all values in one pass, keeps the k extreme ones in a second, and computes the errors
    of the candidates from the values themselves in a third.
    """

    search_range_start: float = 0.7
    search_range_end: float = 1.3
    search_step: float = 0.01
    max_percentile: float = 0.999999
    min_percentile: float = 0.999999
    exact: bool = False

    histogram: Histogram = field(init=False)
    count: int = field(default=0, init=False)
    extremes: _Extremes | None = field(default=None, init=False)
    candidates: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]], init=False)
    errors: Array = field(init=False)

    def __post_init__(self) -> None:
        _check(self)
        self.histogram = Histogram()
        self.errors = np.zeros(0)

    @property
    def passes(self) -> int:
        return 3 if self.exact else 1

    def next_pass(self) -> None:
        if self.extremes is None:
            n = self.count
            self.extremes = _Extremes(_rank(n, self.max_percentile), _rank(n, self.min_percentile))
        else:
            self.candidates = self._ranges(*self.extremes.range())
            self.errors = np.zeros(len(self.candidates))

    def take(self, array: Array, low: float, high: float) -> None:
        if not self.exact:
            self.histogram.add(array, low, high)
        elif self.extremes is None:
            self.count += array.size
        elif not self.candidates:
            self.extremes.add(array, array)
        else:
            flat = array.reshape(-1)
            for begin in range(0, flat.size, _BLOCK):
                values = flat[begin : begin + _BLOCK].astype(np.float64)
                self.errors += [_squared_error(values, 1.0, *c, self._scale(*c)) for c in self.candidates]

    def merge(self, other: Self) -> None:
        """Both are in the same pass, begun from the same merged one before. Raises ValueError where they are not."""
        if self.candidates != other.candidates or (self.extremes is None) != (other.extremes is None):
            raise ValueError("states of a later pass that began from different ones before it do not merge")
        self.histogram.merge(other.histogram)
        if self.extremes is None or other.extremes is None:
            self.count += other.count
        elif not self.candidates:
            self.extremes.add(other.extremes.top, other.extremes.bottom)
        self.errors = self.errors + other.errors

    def finish(self) -> tuple[float, float]:
        if self.exact:
            if not self.candidates:
                raise ValueError("no values were seen")
            return self._as_range(self.candidates[int(np.argmin(self.errors))])
        histogram = self.histogram
        if not histogram.counts.size:
            raise ValueError("no values were seen")
        n = histogram.total
        top = histogram.kth(_rank(n, self.max_percentile), largest=True)
        bottom = histogram.kth(_rank(n, self.min_percentile), largest=False)
        filled = histogram.counts > 0
        values = np.clip(histogram.centres[filled], histogram.low, histogram.high)
        weights = histogram.counts[filled].astype(np.float64)
        candidates = self._ranges(top, bottom)
        errors = [_squared_error(values, weights, *c, self._scale(*c)) for c in candidates]
        return self._as_range(candidates[int(np.argmin(errors))])

    def _ranges(self, top: float, bottom: float) -> list[tuple[float, float]]:
        """What values are clipped to, candidate by candidate; symmetric ones are, though one side has one step more."""
        top, bottom = max(top, 0.0), min(bottom, 0.0)
        steps = round((self.search_range_end - self.search_range_start) / self.search_step)
        ratios = self.search_range_start + np.arange(steps + 1) * self.search_step
        if not self.symmetric:
            return [(bottom, float(r * top)) for r in ratios]
        self._negative = -bottom > top
        return [(-float(r * max(top, -bottom)), float(r * max(top, -bottom))) for r in ratios]

    _negative: bool = field(default=False, init=False)
    """Whether the negative side is the larger one, which a symmetric range ends at."""

    def _as_range(self, clipped: tuple[float, float]) -> tuple[float, float]:
        if not self.symmetric:
            return clipped
        return (clipped[0], 0.0) if self._negative else (0.0, clipped[1])

    def _scale(self, low: float, high: float) -> float:
        return affine(*self._as_range((low, high)), self.bits, symmetric=self.symmetric)[0]


def _check(options: IfmrObserver) -> None:
    """The ranges that AMCT allows."""
    start, end, step = options.search_range_start, options.search_range_end, options.search_step
    if not 0 < start < end:
        raise CompileError(f"search-range-start {start} and search-range-end {end} must be positive and in order")
    span = float(Decimal(str(end)) - Decimal(str(start)))
    if not 0 < step <= span:
        raise CompileError(f"search-step must lie in (0, {span}], not {step}")
    if span / step > _MOST_STEPS:
        raise CompileError(f"search-step {step} gives more than {_MOST_STEPS} steps over a range of {span}")
    for name in ("max_percentile", "min_percentile"):
        if not 0.5 < getattr(options, name) <= 1:
            raise CompileError(f"{name.replace('_', '-')} must lie in (0.5, 1], not {getattr(options, name)}")


def _rank(count: int, percentile: float) -> int:
    """k: which of the largest (or smallest) values of `count` it is."""
    return 1 if 1 - percentile < _EPSILON else max(1, count - floor(percentile * count))


def _squared_error(values: Array, weights: Array | float, low: float, high: float, scale: float) -> float:
    """As AMCT simulates it: clipped to the range, rounded to steps, without the integer zero point."""
    simulated = np.rint(np.clip(values, low, high) / scale) * scale
    return float(np.sum(weights * np.square(simulated - values)))


@dataclass
class _Extremes:
    """The largest and the smallest values seen, as many of them as percentiles leave out of all."""

    top_count: int
    bottom_count: int
    top: Array = field(default_factory=lambda: np.zeros(0))
    bottom: Array = field(default_factory=lambda: np.zeros(0))

    def add(self, top: Array, bottom: Array) -> None:
        self.top = _largest(np.concatenate([self.top, top.reshape(-1)]), self.top_count)
        self.bottom = -_largest(-np.concatenate([self.bottom, bottom.reshape(-1)]), self.bottom_count)

    def range(self) -> tuple[float, float]:
        """M and m. Raises ValueError when nothing was seen."""
        if not self.top.size:
            raise ValueError("no values were seen")
        return float(self.top.min()), float(self.bottom.max())


def _largest(values: Array, count: int) -> Array:
    return np.partition(values, -count)[-count:] if count < values.size else values
