"""An observer for the output of a classifier, which preserves the winning class (PPQ)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from .observer import Array, Observer, seen

_ROWS = 1 << 16
"""The number of different rows that are kept. If there are more, a hash picks the same ones in whatever order rows come."""
_MULTIPLIERS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)


@dataclass
class IsotoneObserver(Observer):
    """Finds the scale that keeps the two largest values apart in most rows along `axis`.

    With L1 >= L2 the two largest values of a row and q the largest integer, these are the scales from `max(L2, 0) / (q - 0.51)`
    to `2 * (L1 - max(L2, 0))`. Among the best scales it is the one that just clips nothing, otherwise the middle one. If no
    row has such scales, the whole range is used. Symmetric points use absolute values.
    """

    axis: int = -1

    rows: Array = field(default_factory=lambda: np.zeros((0, 2)), init=False)
    """L1 and L2 of the kept rows, float64 [rows, 2], and how often each was seen."""
    counts: Array = field(default_factory=lambda: np.zeros(0, np.int64), init=False)
    level: int = field(default=0, init=False)
    """Rows whose hash begins with this many zeros are kept."""
    low: float = field(default=float("inf"), init=False)
    high: float = field(default=float("-inf"), init=False)

    def take(self, array: Array, low: float, high: float) -> None:
        if array.ndim and not -array.ndim <= self.axis < array.ndim:
            raise ValueError(f"values of rank {array.ndim} have no axis {self.axis}")
        self.low, self.high = min(self.low, low), max(self.high, high)
        if not array.ndim or array.shape[self.axis] < 2:
            return
        values = np.moveaxis(array, self.axis, -1).reshape(-1, array.shape[self.axis])
        values = np.abs(values) if self.symmetric else values
        rows = np.partition(values, -2, axis=-1)[:, [-1, -2]].astype(np.float64)
        self._join(rows, np.ones(len(rows), np.int64))
        if len(self.rows) > 2 * _ROWS:
            self._thin()

    def merge(self, other: Self) -> None:
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.level = max(self.level, other.level)
        self._join(other.rows, other.counts)
        self._thin()

    def _join(self, rows: Array, counts: Array) -> None:
        self.rows, self.counts = np.concatenate([self.rows, rows]), np.concatenate([self.counts, counts])

    def _thin(self) -> None:
        """Merges equal rows, and keeps at most the maximum number of rows."""
        pairs, where = np.unique(self.rows[:, 0] + 1j * self.rows[:, 1], return_inverse=True)
        rows, counts = np.stack([pairs.real, pairs.imag], 1), np.zeros(len(pairs), np.int64)
        np.add.at(counts, where, self.counts)
        zeros = _zeros(rows)
        while np.count_nonzero(zeros >= self.level) > _ROWS:
            self.level += 1
        self.rows, self.counts = rows[zeros >= self.level], counts[zeros >= self.level]

    def check(self) -> None:
        known = self.rows.shape == (len(self.counts), 2) and 0 <= self.level <= 64 and bool((self.counts > 0).all())
        if not known or not np.isfinite(self.rows).all() or np.isnan([self.low, self.high]).any():
            raise ValueError("rows and their counts do not fit")

    def finish(self) -> tuple[float, float]:
        low, high = seen(self.low, self.high)
        most = 2 ** (self.bits - 1) - 1 if self.symmetric else 2**self.bits - 1
        self._thin()
        first, second = self.rows[:, 0], np.maximum(self.rows[:, 1], 0)
        begins, ends = second / (most - 0.51), 2 * (first - second)
        valid = (begins < ends) & (ends > 0)
        if not valid.any():
            return low, high
        begin, end = _most_covered(begins[valid], ends[valid], self.counts[valid])
        whole = (max(-low, high) if self.symmetric else high) / most
        scale = whole if begin < whole < end else (begin + end) / 2
        return (-scale * most if self.symmetric else 0.0), scale * most


def _most_covered(begins: Array, ends: Array, counts: Array) -> tuple[float, float]:
    """The first stretch that is in the largest number of intervals."""
    points = np.unique(np.concatenate([begins, ends]))
    middles = (points[:-1] + points[1:]) / 2
    best = int(np.argmax(_below(middles, begins, counts) - _below(middles, ends, counts)))
    return float(points[best]), float(points[best + 1])


def _below(points: Array, values: Array, counts: Array) -> Array:
    """The number of values below each point."""
    order = np.argsort(values, kind="stable")
    return np.append(0, np.cumsum(counts[order]))[np.searchsorted(values[order], points)]


def _zeros(rows: Array) -> Array:
    """The number of leading zeros of each row's hash: half of all rows have none, a quarter has one, ..."""
    mixed = ((rows + 0.0).view(np.uint64) * _MULTIPLIERS).sum(1)  # adding 0.0 merges both zeros
    mixed ^= mixed >> np.uint64(31)
    mixed *= _MULTIPLIERS[0]
    mixed ^= mixed >> np.uint64(29)
    mixed *= _MULTIPLIERS[1]
    top = (mixed >> np.uint64(11)).astype(np.float64)  # 53 bits, exact
    return 53 - np.frexp(top)[1]
