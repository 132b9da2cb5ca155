"""Scales of weights that AMCT for PyTorch rounds by AdaRound: those of least divergence from the weight's histogram."""

from __future__ import annotations

import numpy as np

from ....ir.array import Array

BINS = 512
"""The bins of the histogram, over the largest magnitude to both sides."""
_CUTS = 20
"""Number of ranges that are tried: each has one bin less at either end than the one before."""
_STEPS = 255
"""The numbers that 8 bits are taken for, symmetric."""
_ZERO = 0.0001
"""Count of an empty bin."""


def divergence_scales(values: Array, axis: int | None) -> Array:
    """float32 scales of symmetric int8: shape [], or along `axis` [channels]; 1 for numbers that are all zero.

    Of 20 ranges the first is taken whose numbers, merged to 255 steps, diverge least from the histogram (Kullback-Leibler).
    """
    if axis is None:
        return np.asarray(_scale(values.reshape(-1)))
    return np.array([_scale(channel.reshape(-1)) for channel in np.moveaxis(values, axis, 0)], np.float32)


def _scale(values: Array) -> np.float32:
    values = values.astype(np.float32)
    high = np.abs(values).max(initial=np.float32(0))
    if high == 0:
        return np.float32(1)
    counts = _histogram(values, high)
    width = np.float32(high + high) / np.float32(BINS)
    divergences = np.array([_divergence(counts, cut) for cut in range(_CUTS)])
    if np.isnan(divergences).all():
        return np.float32(1)
    best = int(np.nanargmin(divergences))
    scale = np.float32((-high + np.float32(best) * width) / np.float32(-128))
    return scale if scale >= np.finfo(np.float32).eps else np.float32(1)


def _histogram(values: Array, high: np.float32) -> Array:
    """The number of values in each bin: float64 [BINS]."""
    places = ((values + high) * np.float32(BINS) / (high + high)).astype(np.int64)
    return np.bincount(np.minimum(places, BINS - 1), minlength=BINS).astype(np.float64)


def _divergence(counts: Array, cut: int) -> float:
    """The divergence of the histogram without `cut` bins at either end, whose values count at the new ends, when bins are
    merged to steps.

    NaN where more than half of the bins are empty: their share would be no small number, and they count nothing then.
    """
    p = counts[cut : BINS - cut].copy()
    p[0] += counts[:cut].sum()
    p[-1] += counts[BINS - cut :].sum()
    begins = np.ceil(np.arange(_STEPS) * (p.size / _STEPS)).astype(np.int64)
    sums, filled = (np.add.reduceat(each, begins) for each in (p, (p != 0).astype(np.float64)))
    with np.errstate(invalid="ignore", divide="ignore"):
        merged = np.where(filled > 0, sums / filled, 0)
    q = np.where(p != 0, np.repeat(merged, np.diff(begins, append=p.size)), 0)
    p, q = _without_zeros(p), _without_zeros(q)
    p, q = p / p.sum(), q / q.sum()
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.sum(p * np.log(p / q)))


def _without_zeros(counts: Array) -> Array:
    """Adds a little to each empty bin, and spreads the same total over the others."""
    empty = counts == 0
    more = _ZERO * np.count_nonzero(empty) / np.count_nonzero(~empty)
    return counts if more >= 1 else np.where(empty, _ZERO, counts + more)
