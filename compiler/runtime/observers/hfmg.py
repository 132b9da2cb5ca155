"""AMCT's histogram method: a histogram that grows, and ranges of its bins, outer ones dropped step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Literal, Self

import numpy as np

from .observer import Array, Merging, NoValues, Observer

_SAME = 2.0**-23
"""Ends that differ by at most this are the same; in a range narrower than 1, by this share of it. AMCT, which takes no share,
counts small values as equal ones.
"""
_BLOCK = 1 << 16
_RANGES = 32
"""The number of ranges at a time that fit into the cache with their steps."""


@dataclass
class HfmgObserver(Observer):
    """Tries ranges without the thinnest outer bins, down to a quarter of the bins. Takes the range whose 2^bits equal steps are
    nearest to the values, which are assumed to be spread evenly over their bins.

    New batches widen the range to the union of both; counts of a bin that straddles two new ones are split in proportion. The
    untrimmed range, which AMCT leaves out, is the first candidate.
    """

    num_of_bins: Literal[1024, 2048, 4096, 8192] = 4096

    low: float = field(default=0.0, init=False)
    high: float = field(default=0.0, init=False)
    counts: Array = field(default_factory=lambda: np.zeros(0, np.int64), init=False)

    @property
    def merging(self) -> Merging:
        return "resolution"

    def take(self, array: Array, low: float, high: float) -> None:
        if not self.counts.size:
            self.low, self.high = low, high
            self.counts = np.zeros(self.num_of_bins, np.int64)
        self._widen(min(low, self.low), max(high, self.high))
        if self.high == self.low:
            self.counts[self.num_of_bins // 2] += array.size
        else:
            self._count(array.reshape(-1))

    def _count(self, flat: Array) -> None:
        per_unit = self.num_of_bins / (self.high - self.low)
        for begin in range(0, flat.size, _BLOCK):
            places = np.subtract(flat[begin : begin + _BLOCK], self.low, dtype=np.float64)
            places *= per_unit
            numbers = np.minimum(places.astype(np.int32), self.num_of_bins - 1)
            self.counts += np.bincount(numbers, minlength=self.num_of_bins)

    def merge(self, other: Self) -> None:
        if not other.counts.size:
            return
        if not self.counts.size:
            self.low, self.high, self.counts = other.low, other.high, other.counts.copy()
            return
        low, high = min(self.low, other.low), max(self.high, other.high)
        self._widen(low, high)
        self.counts = self.counts + rebinned(other.counts, other.low, other.high, low, high)

    def _widen(self, low: float, high: float) -> None:
        if max(abs(low - self.low), abs(high - self.high)) > _SAME * min(1.0, self.high - self.low):
            self.counts = rebinned(self.counts, self.low, self.high, low, high)
            self.low, self.high = low, high

    def check(self) -> None:
        ends = np.isfinite([self.low, self.high]).all() and self.low <= self.high
        if not ends or self.counts.size not in (0, self.num_of_bins) or (self.counts < 0).any():
            raise ValueError("counts do not fit their range")

    def finish(self) -> tuple[float, float]:
        if not self.counts.size:
            raise NoValues
        if self.high == self.low:
            return self.low, self.high
        ranges = [(0, self.num_of_bins - 1), *trimmed(self.counts)]
        left, right = ranges[int(np.argmin(step_losses(self.counts, ranges, 2**self.bits)))]
        width = (self.high - self.low) / self.num_of_bins
        return self.low + left * width, self.low + (right + 1) * width


def rebinned(counts: Array, low: float, high: float, new_low: float, new_high: float) -> Array:
    """Converts counts over [low, high] to counts over a wider range, with the same number of bins."""
    bins = counts.size
    width, new_width = (high - low) / bins, (new_high - new_low) / bins
    if not width:  # all equal
        result = np.zeros(bins, np.int64)
        place = int((low - new_low) / new_width) if new_width else bins // 2
        result[min(place, bins - 1)] = counts.sum()
        return result
    begins = (low + np.arange(bins) * width - new_low) / new_width
    ends = begins + width / new_width
    lower = np.clip(np.floor(begins), 0, bins - 1).astype(np.int64)
    upper = np.clip(np.ceil(ends) - 1, lower, bins - 1).astype(np.int64)
    part = counts.astype(np.float64)
    np.divide(counts * (lower + 1 - begins), ends - begins, out=part, where=upper > lower)
    part = np.floor(part).astype(np.int64)
    result = np.zeros(bins, np.int64)
    np.add.at(result, lower, part)
    np.add.at(result, upper, counts - part)
    return result


def trimmed(counts: Array) -> list[tuple[int, int]]:
    """First and last bin of ever narrower ranges: each step drops the side whose next few samples span more bins."""
    bins = counts.size
    step = max(1, ceil(int(counts.sum()) / 100000))
    from_left, from_right = np.cumsum(counts), np.cumsum(counts[::-1])
    left, right = 0, bins - 1
    dropped_left = dropped_right = 0
    ranges: list[tuple[int, int]] = []
    while right - left > ceil(bins / 4):
        next_left = int(np.searchsorted(from_left, dropped_left + step)) + 1
        next_right = bins - 2 - int(np.searchsorted(from_right, dropped_right + step))
        if next_left - left > right - next_right:
            left, dropped_left = next_left, int(from_left[next_left - 1])
        else:
            right, dropped_right = next_right, int(from_right[bins - 2 - next_right])
        if left < right:
            ranges.append((left, right))
    return ranges


def step_losses(counts: Array, ranges: Sequence[tuple[int, int]], levels: int) -> Array:
    """For each range of bins, the squared distance, in bins, of all counts to the middles of `levels` equal steps over it.

    Integrals of density, of its product with x and with x squared, up to each edge of a step, give each step's share; values
    outside a range belong to its end steps.
    """
    parts = (ranges[i : i + _RANGES] for i in range(0, len(ranges), _RANGES))
    integrals = _Integrals(counts)
    return np.concatenate([_step_losses(integrals, part, levels) for part in parts])


def _step_losses(integrals: _Integrals, ranges: Sequence[tuple[int, int]], levels: int) -> Array:
    left, right = np.array(ranges, np.float64).T[..., None]
    step = (right + 1 - left) / levels
    numbers = np.arange(levels)
    edges = left + np.append(numbers, levels) * step
    edges[:, 0], edges[:, -1] = 0, integrals.counts.size
    middles = left + (numbers + 0.5) * step
    mass, first, second = (np.diff(integral, axis=1) for integral in integrals.up_to(edges))
    return np.sum(second - 2 * middles * first + middles**2 * mass, axis=1)


class _Integrals:
    """Integrals of counts, spread evenly over bins of width 1, times 1, x and x^2."""

    def __init__(self, counts: Array):
        self.counts = counts
        bins = np.arange(counts.size + 1, dtype=np.float64)
        self._powers = [bins, bins**2, bins**3]
        self._whole = [np.append(0, np.cumsum(counts * np.diff(p))) / n for n, p in enumerate(self._powers, 1)]

    def up_to(self, edges: Array) -> Iterator[Array]:
        """The three integrals, from 0 to each edge."""
        place = np.minimum(np.floor(edges), self.counts.size - 1).astype(np.int64)
        share, power = self.counts[place], np.ones_like(edges)
        for n, (bins, whole) in enumerate(zip(self._powers, self._whole, strict=True), 1):
            power *= edges  # several times faster than **
            yield whole[place] + share * (power - bins[place]) / n
