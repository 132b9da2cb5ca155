"""Counts of values in bins that widen as the range grows: one pass, bounded, and independent of the order of data.

The width of bins is a power of two, and they begin at multiples of it. So the bins of one state are those of another, or halves,
quarters, ... of them, and adding up the finer ones makes them the same: no bin is split, and only resolution is lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ..support.diagnostics import CompileError
from .observer import Array, NoValues, Observer

_BLOCK = 1 << 16
"""The number of elements at a time that fits into the cache."""
_NARROWEST = -148
"""Binary exponent of the narrowest bins; float32 has no smaller numbers."""
_WIDEST = 1023
_FEWEST, _MOST = 1 << 6, 1 << 20
_PRECISION = 24
"""Bits of a float32: narrower bins than the largest value's last bit would be empty, and numbered past int32."""


def _narrowest(low: float, high: float) -> int:
    """Binary exponent of the narrowest bins that distinguish these values."""
    return int(np.frexp(max(-low, high))[1]) - _PRECISION


@dataclass
class Histogram:
    """A histogram of at most `bins` bins; the values seen span more than half of them, unless all are equal."""

    bins: int = 8192
    exponent: int = field(default=_NARROWEST, init=False)
    """The exponent of the bins' width, to the base of two."""
    first: int = field(default=0, init=False)
    """The number of the first bin: it begins at `first * width`."""
    counts: Array = field(default_factory=lambda: np.zeros(0, np.int64), init=False)
    low: float = field(default=float("inf"), init=False)
    high: float = field(default=float("-inf"), init=False)

    def __post_init__(self) -> None:
        if not _FEWEST <= self.bins <= _MOST:
            raise CompileError(f"num-of-bins must lie in [{_FEWEST}, {_MOST}], not {self.bins}")

    @property
    def width(self) -> float:
        return 2.0**self.exponent

    @property
    def centres(self) -> Array:
        """The middle of each bin, float64."""
        return (np.arange(self.first, self.first + self.counts.size) + 0.5) * self.width

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def add(self, array: Array, low: float, high: float) -> None:
        """Counts the values of an array with this minimum and maximum."""
        self._widen(low, high)
        # powers of two scale exactly; float64 is for those beyond float32's range
        inverse = (np.float32 if abs(self.exponent) <= 126 else np.float64)(2.0**-self.exponent)
        flat = array.reshape(-1)
        for begin in range(0, flat.size, _BLOCK):
            numbers = np.floor(flat[begin : begin + _BLOCK] * inverse).astype(np.int32)
            self.counts += np.bincount(numbers - self.first, minlength=self.counts.size)

    def merge(self, other: Histogram) -> None:
        if not other.counts.size:
            return
        self._widen(other.low, other.high, other.exponent)
        shift = self.exponent - other.exponent
        numbers = (np.arange(other.first, other.first + other.counts.size) >> shift) - self.first
        inside = other.counts > 0
        np.add.at(self.counts, numbers[inside], other.counts[inside])

    def check(self) -> None:
        """Raises ValueError if counts, bins and range are inconsistent."""
        if not self.counts.size:
            fits = (self.exponent, self.first, self.low, self.high) == (_NARROWEST, 0, float("inf"), float("-inf"))
        else:
            fits = bool(np.isfinite([self.low, self.high]).all()) and self.counts.size <= self.bins
            fits = fits and max(_NARROWEST, _narrowest(self.low, self.high)) <= self.exponent <= _WIDEST
            fits = fits and self._bins(self.exponent) == (self.first, self.counts.size)
        if not fits or (self.counts < 0).any():
            raise ValueError("a histogram's counts do not fit its range")

    def _widen(self, low: float, high: float, exponent: int = _NARROWEST) -> None:
        """Make room for values between these, with bins no narrower than 2^exponent."""
        low, high = min(low, self.low), max(high, self.high)
        if (low, high) == (self.low, self.high) and exponent <= self.exponent:
            return
        wider = max(self.exponent, exponent, _narrowest(low, high))
        while np.floor(high / 2.0**wider) - np.floor(low / 2.0**wider) >= self.bins:
            wider += max(1, int(np.log2((high / 2.0**wider - low / 2.0**wider) / self.bins)))
        self.low, self.high = low, high
        first, size = self._bins(wider)
        counts = np.zeros(size, np.int64)
        if self.counts.size:
            numbers = (np.arange(self.first, self.first + self.counts.size) >> (wider - self.exponent)) - first
            np.add.at(counts, numbers, self.counts)
        self.exponent, self.first, self.counts = wider, first, counts

    def _bins(self, exponent: int) -> tuple[int, int]:
        """The number of the first bin, and the count of bins, for bins of width 2^exponent."""
        first, last = int(np.floor(self.low / 2.0**exponent)), int(np.floor(self.high / 2.0**exponent))
        return first, last - first + 1

    def magnitudes(self) -> Array:
        """Counts of absolute values, from 0 in bins of the same width; the bin below 0 covers -width to 0."""
        size = max(self.first + self.counts.size, -self.first, 1)
        result = np.zeros(size, np.int64)
        numbers = np.arange(self.first, self.first + self.counts.size)
        np.add.at(result, np.where(numbers >= 0, numbers, -1 - numbers), self.counts)
        return result

    def kth(self, k: int, *, largest: bool) -> float:
        """The k-th largest (or smallest) value, to within a bin; the first one exactly."""
        if k <= 1:
            return self.high if largest else self.low
        order = self.counts[::-1] if largest else self.counts
        place = int(np.searchsorted(np.cumsum(order), k))
        bin_ = self.counts.size - 1 - place if largest else place
        edge = (self.first + bin_ + (1 if largest else 0)) * self.width
        return min(max(edge, self.low), self.high)


@dataclass
class HistogramObserver(Observer):
    """Base of observers that count all values in one histogram."""

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

    def counted(self) -> Histogram:
        """The histogram. Raises NoValues if nothing was seen."""
        if not self.histogram.counts.size:
            raise NoValues
        return self.histogram
