"""Keeps which class wins: for the output of a classifier (PPQ)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from .observer import Array, Observer, seen

_ROWS = 1 << 16
"""Rows whose intervals are kept; of more, every second one, fourth one, ..."""


def _no_rows() -> Array:
    return np.zeros((0, 2), np.float64)


@dataclass
class IsotoneObserver(Observer):
    """For each row along `axis` there are scales that keep its two largest values apart; the scale that does so in most rows.

    With L1 >= L2 the two largest values of a row and q the largest integer, these are `max(L2, 0) / (q - 0.51)` to
    `2 * (L1 - max(L2, 0))`. Where no row has any, the whole range is taken. Symmetric: of absolute values.
    """

    axis: int = -1

    rows: Array = field(default_factory=_no_rows, init=False)
    """L1 and L2 of the rows that are kept, [rows, 2]."""
    stride: int = field(default=1, init=False)
    count: int = field(default=0, init=False)
    low: float = field(default=float("inf"), init=False)
    high: float = field(default=float("-inf"), init=False)

    def take(self, array: Array, low: float, high: float) -> None:
        self.low, self.high = min(self.low, low), max(self.high, high)
        if array.ndim == 0 or array.shape[self.axis] < 2:
            return
        values = np.moveaxis(array, self.axis, -1).reshape(-1, array.shape[self.axis]).astype(np.float64)
        values = np.abs(values) if self.symmetric else values
        self._keep(np.partition(values, -2, axis=-1)[:, [-1, -2]])

    def _keep(self, rows: Array) -> None:
        numbers = np.arange(self.count, self.count + len(rows))
        self.count += len(rows)
        self.rows = np.concatenate([self.rows, rows[numbers % self.stride == 0]])
        while len(self.rows) > _ROWS:
            self.rows, self.stride = self.rows[::2], self.stride * 2

    def merge(self, other: Self) -> None:
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        coarser = max(self.stride, other.stride)
        self.rows = np.concatenate([self.rows[:: coarser // self.stride], other.rows[:: coarser // other.stride]])
        self.stride, self.count = coarser, len(self.rows) * coarser
        self._keep(_no_rows())

    def finish(self) -> tuple[float, float]:
        low, high = seen(self.low, self.high)
        most = 2 ** (self.bits - 1) - 1 if self.symmetric else 2**self.bits - 1
        first, second = self.rows[:, 0], np.maximum(self.rows[:, 1], 0)
        begins, ends = second / (most - 0.51), 2 * (first - second)
        valid = (begins < ends) & (ends > 0)
        if not valid.any():
            return low, high
        scale = _most_covered(begins[valid], ends[valid])
        return (-scale * most if self.symmetric else 0.0), scale * most


def _most_covered(begins: Array, ends: Array) -> float:
    """The middle of the first stretch that lies in most of the intervals."""
    points = np.unique(np.concatenate([begins, ends]))
    middles = (points[:-1] + points[1:]) / 2
    cover = np.searchsorted(np.sort(begins), middles) - np.searchsorted(np.sort(ends), middles)
    return float(middles[int(np.argmax(cover))])
