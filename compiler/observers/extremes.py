"""The largest of many values, without sorting them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .observer import NoValues
from .state import Array

_STRIDE = 61
"""The step between sampled values. It is prime, so that the sample does not hit the same channel again and again."""


def largest(values: Array, count: int) -> Array:
    """The `count` largest values of a flat array, in any order except that the smallest is first; all if there are no more.

    A sample gives a bound that few values exceed; if it is too high, all values are examined.
    """
    if not min(count, values.size):
        return values[:0]
    if count < values.size // 256:
        bound = _bound(values, count)
        above = values[values > bound]
        missing = count - above.size
        if missing > 0 and np.count_nonzero(values == bound) >= missing:
            return np.concatenate([np.full(missing, bound, values.dtype), above])
        values = values if missing > 0 else above
    place = max(values.size - count, 0)
    return np.partition(values, place)[place:]


def _bound(values: Array, count: int) -> Any:
    """A bound that slightly more than `count` values exceed, unless many equal it: values pile up where activations are cut
    off.
    """
    sample = values[::_STRIDE]
    rank = 4 * count // _STRIDE + 8
    return np.partition(sample, sample.size - rank)[sample.size - rank]


@dataclass
class Extremes:
    """The largest and the smallest values seen, up to a number of each."""

    top_count: int = field(default=0, init=False)
    bottom_count: int = field(default=0, init=False)
    top: Array = field(default_factory=lambda: np.zeros(0), init=False)
    bottom: Array = field(default_factory=lambda: np.zeros(0), init=False)
    """Negated, float64."""

    def add(self, array: Array) -> None:
        flat = array.reshape(-1)
        self._join(largest(flat, self.top_count), largest(-flat, self.bottom_count))

    def merge(self, other: Extremes) -> None:
        self._join(other.top, other.bottom)

    def _join(self, top: Array, bottom: Array) -> None:
        self.top = np.sort(largest(np.concatenate([self.top, top]), self.top_count))
        self.bottom = np.sort(largest(np.concatenate([self.bottom, bottom]), self.bottom_count))

    def check(self) -> None:
        """Raises ValueError if there are too many values, or NaN."""
        for values, count in ((self.top, self.top_count), (self.bottom, self.bottom_count)):
            if not 0 <= values.size <= count or not np.isfinite(values).all():
                raise ValueError("largest or smallest values do not fit their number")

    def range(self) -> tuple[float, float]:
        """The pair (M, m): the smallest of the largest values, and the largest of the smallest. Raises ValueError if
        nothing was seen.
        """
        if not self.top.size:
            raise NoValues
        return float(self.top.min()), -float(self.bottom.min())
