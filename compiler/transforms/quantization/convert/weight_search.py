"""Scales of weights by least squared error: a few large weights are clipped, so that the steps of all others are smaller.

Nothing but the weight is needed. The candidates are fractions of the scale that covers all values; a zero point is the same for
all of them.
"""

from __future__ import annotations

import numpy as np

from ....dialects.nn import blocks_of, spread
from ....ir.array import Array
from ....runtime.affine import in_blocks, scales_of
from .parameters import quantized

FRACTIONS = 1 - np.arange(21) / 50
"""Of the whole range: from 1 down to 0.6. With 4 bits the best ones for normally distributed weights are 0.8 to 1."""
_PIECE = 1 << 22
"""How many weights in groups are judged at a time."""


def searched_scales(
    values: Array, scales: Array, bits: int, axis: int | None, zero_points: Array, block: int | None
) -> Array:
    """The best fraction of each scale: float32. Scales and zero points have shape [], along `axis` [channels], or [blocks]."""
    if axis is None or block is None:
        return _best(values, scales, bits, axis, zero_points, block)
    shape = blocks_of(values.shape, axis, block)
    apart, points = scales.reshape(shape), np.broadcast_to(zero_points, scales.shape).reshape(shape)
    best = np.empty_like(apart)
    size = block if axis == 0 else 1
    step = max(1, _PIECE * len(apart) // max(1, values.size))
    for start in range(0, len(apart), step):
        part = slice(start, start + step)
        rows = values[start * size : (start + step) * size]
        found = _best(rows, apart[part].reshape(-1), bits, axis, points[part].reshape(-1), block)
        best[part] = found.reshape(best[part].shape)
    return best.reshape(scales.shape)


def _best(values: Array, scales: Array, bits: int, axis: int | None, zero_points: Array, block: int | None) -> Array:
    exact = values.astype(np.float32, copy=False)
    points = spread(zero_points, values.shape, axis, block)
    best, least = scales, np.full(scales.shape, np.inf)
    for fraction in FRACTIONS:
        candidate = scales_of(scales.astype(np.float64) * fraction)
        error = quantized(exact, candidate, bits, axis, zero_points, block).astype(np.float32)
        error -= points
        error *= spread(candidate, values.shape, axis, block)
        error -= exact
        total = _sums(np.square(error, out=error), axis, block)
        best = np.where(total < least, candidate, best)
        least = np.minimum(total, least)
    return np.asarray(best, np.float32)


def _sums(errors: Array, axis: int | None, block: int | None) -> Array:
    """float64 sums of the numbers that share a scale, in the shape of the scales."""
    if axis is not None and block is not None:
        return in_blocks(errors, axis, block).sum(axis + 1, dtype=np.float64).reshape(-1)
    others = None if axis is None else tuple(i for i in range(errors.ndim) if i != axis)
    return np.asarray(errors.sum(axis=others, dtype=np.float64))
