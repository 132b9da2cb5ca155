"""AMCT's histogram method: a histogram that grows, and ranges of its bins, outer ones dropped step by step.

Edges of bins, and the places of values among them, are computed in float32, as AMCT does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, isclose
from typing import Any, Literal, Self

import numpy as np

from ..runtime.affine import scales_of
from .observer import Array, Merging, NoValues, Observer

_SAME, _NARROW = 2.0**-23, 2.0**-15
"""Largest difference of equal ends (AMCT); in a range narrower than the second number, whose scale is 1 in AMCT, it is
that share of the range.
"""
_LARGE = 2.0**100
_BLOCK = 1 << 16
_RANGES = 32
"""The number of ranges at a time that fit into the cache with their steps."""


@dataclass
class HfmgObserver(Observer):
    """Tries ranges without the thinnest outer bins, down to a quarter of the bins. Takes the range whose 2^bits equal steps are
    nearest to the values, which are assumed to be spread evenly over their bins: the range of the integers at its scale and
    zero point, which are computed in float32.

    New batches widen the range to the union of both; counts of a bin that straddles two new ones are split in proportion. The
    untrimmed range is not a candidate.
    """

    num_of_bins: Literal[1024, 2048, 4096, 8192] = 4096

    low: float = field(default=0.0, init=False)
    high: float = field(default=0.0, init=False)
    """float32 numbers."""
    counts: Array = field(default_factory=lambda: np.zeros(0, np.int64), init=False)

    @property
    def merging(self) -> Merging:
        return "resolution"

    def take(self, array: Array, low: float, high: float) -> None:
        low, high = (float(np.float32(end)) for end in (low, high))
        if not self.counts.size:
            self.low, self.high = low, high
            self.counts = np.zeros(self.num_of_bins, np.int64)
        self._widen(min(low, self.low), max(high, self.high))
        if self.high == self.low:
            self.counts[self.num_of_bins // 2] += array.size
        else:
            self._count(array.reshape(-1))

    def _count(self, flat: Array) -> None:
        low, high = _ends(self.low, self.high)
        for begin in range(0, flat.size, _BLOCK):
            places = flat[begin : begin + _BLOCK].astype(low.dtype)
            places -= low
            places *= low.dtype.type(self.num_of_bins)
            places /= high - low
            numbers = np.clip(places, 0, self.num_of_bins - 1).astype(np.int32)
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
        ranges = trimmed(self.counts)
        left, right = ranges[int(np.argmin(step_losses(self.counts, ranges, 2**self.bits)))]
        low, width = _ends(self.low, self.high)[0], _width(self.low, self.high, self.num_of_bins)
        real = low.dtype.type
        return self._integers(low + real(left) * width, low + real(right + 1) * width)

    def _integers(self, low: Any, high: Any) -> tuple[float, float]:
        """The range of the integers for a range of values."""
        half, real = 2 ** (self.bits - 1), low.dtype.type
        if self.symmetric:
            below = -low > high
            scale = float(scales_of(np.asarray(max(-low, high) / real(half - (0 if below else 1)))))
            return (-half * scale, 0.0) if below else (0.0, (half - 1) * scale)
        low, high = min(low, real(0)), max(high, real(0))
        scale = scales_of(np.asarray((high - low) / real(2 * half - 1)))[()]
        zero_point = int(np.clip(np.rint(real(-half) - low / scale), -half, half - 1))
        return (-half - zero_point) * float(scale), (half - 1 - zero_point) * float(scale)


def _ends(low: float, high: float) -> tuple[Any, Any]:
    """Ends of a range in the dtype of the computation: float32, but float64 if that would overflow."""
    real = np.float32 if max(-low, high) < _LARGE else np.float64
    return real(low), real(high)


def _width(low: float, high: float, bins: int) -> Any:
    """The width of a bin."""
    begin, end = _ends(low, high)
    return (end - begin) / begin.dtype.type(bins)


def rebinned(counts: Array, low: float, high: float, new_low: float, new_high: float) -> Array:
    """Converts counts over [low, high] to counts over a range that contains it, with the same number of bins."""
    same = _SAME * min(1.0, (high - low) / _NARROW)
    if isclose(low, new_low, abs_tol=same) and isclose(high, new_high, abs_tol=same):
        return counts
    new_begin, _ = _ends(new_low, new_high)
    bins, numbers = counts.size, np.arange(counts.size + 1, dtype=new_begin.dtype)
    edges = new_begin.dtype.type(low) + numbers * _width(low, high, bins)
    width = _width(new_low, new_high, bins)
    new_edges = new_begin + numbers * width
    lower, upper = ((ends - new_begin) // width for ends in (edges[:-1], edges[1:]))
    lower = np.clip(lower, 0, bins - 1).astype(np.int64)
    upper = np.clip(upper, lower, bins - 1).astype(np.int64)
    with np.errstate(all="ignore"):  # of a range without width
        share = np.nan_to_num((new_edges[lower + 1] - edges[:-1]) / (edges[1:] - edges[:-1]), posinf=0, neginf=0)
    part = np.where(upper > lower, (counts.astype(share.dtype) * share).astype(np.int64), counts)
    result = np.zeros(bins, np.int64)
    np.add.at(result, lower, part)
    np.add.at(result, upper, counts - part)
    return result


def trimmed(counts: Array) -> list[tuple[int, int]]:
    """First and last bin of ever narrower ranges: each step drops the side whose next few samples span more bins, the right one
    if both span as many.
    """
    bins = counts.size
    step = max(1, ceil(int(counts.sum()) / 100000))
    before: Array = np.concatenate([[0], np.cumsum(counts)])  # of each bin
    behind: Array = before[-1] - before[::-1]  # the last bins, counted from the end
    left, right = 0, bins - 1
    ranges: list[tuple[int, int]] = []
    while right - left > ceil(bins / 4):
        next_left = min(right, int(np.searchsorted(before, before[left] + step)))
        dropped = int(behind[bins - 1 - right])
        next_right = max(next_left, bins - 1 - int(np.searchsorted(behind, dropped + step)))
        if right - next_right >= next_left - left:
            right = next_right
        else:
            left = next_left
        ranges.append((left, right))
    return ranges


def step_losses(counts: Array, ranges: Sequence[tuple[int, int]], levels: int) -> Array:
    """The squared distance, in bins, of all counts to the middles of `levels` equal steps over each range of bins.

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
