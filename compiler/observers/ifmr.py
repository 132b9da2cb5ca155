"""AMCT's default for activations: percentiles give a first range, and a search around it finds the least squared error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from math import ceil, floor, inf
from typing import Self

import numpy as np

from ..runtime.affine import scales_of
from ..support.diagnostics import CompileError
from .extremes import Extremes
from .histogram import Histogram
from .observer import Array, NoValues, Observer
from .sums import added

_EPSILON = 1.1920929e-07
"""The machine epsilon of float32. A percentile this close to 1 is the extreme itself."""
_LARGEST = np.finfo(np.float32).max
_LARGE = 2.0**100
"""Values up to this do not overflow when they are computed in float32."""
_BLOCK = 1 << 16
_MOST_STEPS = 100_000
_MOST_EXTREMES = 1 << 20
"""The number of values that `exact` keeps on each side."""


@dataclass
class IfmrObserver(Observer):
    """`M` is the k-th largest value and `m` the k-th smallest, `k = n - floor(percentile * n)`, each on its side of 0. For each r
    from `search_range_start` to `search_range_end` a range is tried: asymmetric [m, r*M], symmetric r times the larger
    magnitude. The first of least mean squared error wins: the range of the integers at its scale and zero point, which are
    computed in float32.

    `exact` counts all values in one pass, keeps the k extreme ones in a second, and computes the errors of the candidates from
    the values themselves in a third. Otherwise `M` and `m` come from a histogram of one pass, exact to a bin (at most 1/4096 of
    the range seen), and the middle of a bin replaces its values.
    """

    search_range_start: float = 0.7
    search_range_end: float = 1.3
    search_step: float = 0.01
    max_percentile: float = 0.999999
    min_percentile: float = 0.999999
    exact: bool = True

    histogram: Histogram = field(default_factory=Histogram, init=False)
    turn: int = field(default=0, init=False)
    """The number of earlier passes over the data; above 0 only with `exact`."""
    count: int = field(default=0, init=False)
    extremes: Extremes = field(default_factory=Extremes, init=False)
    candidates: Array = field(default_factory=lambda: np.zeros((0, 2)), init=False)
    """Ranges, float32 numbers as float64 [candidates, 2], and the sums of their squared errors, exact."""
    errors: list[int] = field(default_factory=list[int], init=False)

    def __post_init__(self) -> None:
        _check(self)

    @property
    def batches_matter(self) -> bool:
        return False

    @property
    def passes(self) -> int:
        return 3 if self.exact else 1

    def next_pass(self) -> None:
        self.turn += 1
        if self.turn == 1:
            ranks = _rank(self.count, self.max_percentile), _rank(self.count, self.min_percentile)
            if max(ranks) > _MOST_EXTREMES:
                raise ValueError(
                    f"has {self.count} values: percentiles as low as these would keep {max(ranks)} of them, "
                    f"more than {_MOST_EXTREMES}; give exact=false"
                )
            self.extremes.top_count, self.extremes.bottom_count = ranks
        else:
            self.candidates = self._ranges(*self.extremes.range()).astype(np.float64)
            self.errors = [0] * len(self.candidates)

    def take(self, array: Array, low: float, high: float) -> None:
        if not self.exact:
            self.histogram.add(array, low, high)
        elif self.turn == 0:
            self.count += array.size
        elif self.turn == 1:
            self.extremes.add(array)
        else:
            flat, real = array.reshape(-1), np.float32 if max(-low, high) < _LARGE else np.float64
            for begin in range(0, flat.size, _BLOCK):
                values = flat[begin : begin + _BLOCK].astype(real)
                self.errors = added(self.errors, (self._error(values, 1.0, c) for c in self.candidates))

    def merge(self, other: Self) -> None:
        """Raises ValueError unless both are in the same pass, and began from the same merged state."""
        if (self.turn, *self._begun()) != (other.turn, *other._begun()):
            raise ValueError("states of a later pass that began from different ones before it do not merge")
        self.histogram.merge(other.histogram)
        if self.turn == 0:
            self.count += other.count
        elif self.turn == 1:
            self.extremes.merge(other.extremes)
        self.errors = [a + b for a, b in zip(self.errors, other.errors, strict=True)]

    def _begun(self) -> tuple[object, ...]:
        """The state that all parts of a later pass began from."""
        if self.turn == 0:
            return ()
        return self.count, self.extremes.top_count, self.extremes.bottom_count, self.candidates.tolist()

    def check(self) -> None:
        self.histogram.check()
        self.extremes.check()
        known = self.candidates.shape == (len(self.errors), 2) and bool(np.isfinite(self.candidates).all())
        if not known or not 0 <= self.turn < self.passes or self.count < 0 or (self.turn == 2 and not self.errors):
            raise ValueError("candidates and their errors do not fit the pass")

    def finish(self) -> tuple[float, float]:
        if self.exact:
            if not self.errors:
                raise NoValues
            return self._best(self.candidates, self.errors)
        histogram = self.histogram
        if not histogram.counts.size:
            raise NoValues
        n = histogram.total
        top = histogram.kth(_rank(n, self.max_percentile), largest=True)
        bottom = histogram.kth(_rank(n, self.min_percentile), largest=False)
        filled = histogram.counts > 0
        values = np.clip(histogram.centres[filled], histogram.low, histogram.high)
        weights = histogram.counts[filled].astype(np.float64)
        candidates = self._ranges(top, bottom)
        return self._best(candidates, [self._error(values, weights, c) for c in candidates])

    def _best(self, candidates: Array, errors: Sequence[float]) -> tuple[float, float]:
        """The range of the integers for the first candidate of least error; empty if all values are zero."""
        low, high = candidates[errors.index(min(errors))].astype(np.float32)
        if low == high:
            return 0.0, 0.0
        scale = self._scale(low, high)
        least = -(2 ** (self.bits - 1))
        if self.symmetric:
            return (least * float(scale), 0.0) if -low > high else (0.0, -(least + 1) * float(scale))
        zero_point = int(np.clip(least - np.rint(low / scale), least, -least - 1))
        return (least - zero_point) * float(scale), (-least - 1 - zero_point) * float(scale)

    def _ranges(self, top: float, bottom: float) -> Array:
        """The candidates. A symmetric one ends at 0 on the side of the smaller magnitude."""
        top, bottom = max(top, 0.0), min(bottom, 0.0)
        ratios = steps_in_float32(self.search_range_start, self.search_range_end, self.search_step)
        below = self.symmetric and -bottom > top
        with np.errstate(over="ignore"):
            ends = np.clip(ratios * np.float32(bottom if below else top), -_LARGEST, _LARGEST)
        others = np.full_like(ratios, 0 if self.symmetric else bottom)
        return np.stack([ends, others] if below else [others, ends], 1)

    def _scale(self, low: np.float32, high: np.float32) -> np.float32:
        """1 for an empty range."""
        steps = 2**self.bits - 1 if not self.symmetric else 2 ** (self.bits - 1) - (0 if -low > high else 1)
        span = float(high) - float(low)
        if span < _LARGE:
            span = float(np.float32(span))
        return np.float32(scales_of(np.asarray(span / steps)))

    def _error(self, values: Array, weights: Array | float, candidate: Array) -> float:
        """The sum of squared errors as AMCT computes it: clipped, rounded to steps, without the integer zero point, in the
        values' dtype.

        Symmetric ranges clip both sides alike, although one has one step more.
        """
        low, high = candidate.astype(np.float32)
        scale = self._scale(low, high)
        if self.symmetric:
            low, high = -max(-low, high), max(-low, high)
        simulated = np.rint(np.clip(values, low, high) / scale) * scale
        return float(np.sum(weights * np.square(simulated - values, dtype=np.float64)))


def steps_in_float32(start: float, end: float, step: float) -> Array:
    """The numbers from `start` by `step` below `end`, float32, `ceil((end - start) / step)` of them: `torch.arange`, to the bit.

    torch computes 16 at a time as two times 8: the first of the 8 is rounded to float32 before the steps to the others are
    added. The numbers that are left behind the last 16 are rounded once.
    """
    count = ceil((end - start) / step)
    numbers = np.arange(count)
    lane = np.where(numbers < count - count % 16, numbers % 8, 0)
    first = (start + (numbers - lane) * step).astype(np.float32)
    return (first.astype(np.float64) + lane * step).astype(np.float32)


def _check(options: IfmrObserver) -> None:
    """The ranges that AMCT allows."""
    start, end, step = options.search_range_start, options.search_range_end, options.search_step
    if not 0 < start < end < inf:
        raise CompileError(
            f"search-range-start {start} and search-range-end {end} must be positive, finite and in order"
        )
    span = float(Decimal(str(end)) - Decimal(str(start)))
    if not 0 < step <= span:
        raise CompileError(f"search-step must lie in (0, {span}], not {step}")
    if span / step > _MOST_STEPS:
        raise CompileError(f"search-step {step} gives more than {_MOST_STEPS} steps over a range of {span}")
    for name in ("max_percentile", "min_percentile"):
        if not 0.5 < getattr(options, name) <= 1:
            raise CompileError(f"{name.replace('_', '-')} must lie in (0.5, 1], not {getattr(options, name)}")


def _rank(count: int, percentile: float) -> int:
    """k, the rank among the largest (or smallest) of `count` values."""
    return 1 if 1 - percentile < _EPSILON else max(1, count - floor(percentile * count))
