"""Scales of weights by least squared error: a few large weights are clipped, so that the steps of all others are smaller.

Nothing but the weight is needed. The candidates are fractions of the scale that covers all values; a zero point is the same for
all of them. Groups without zero points also try each of them with a minus: integers reach further below 0 than above, and a
negative scale gives that side to the positive weights.
"""

from __future__ import annotations

import numpy as np

from ....dialects.nn import blocks_of, spread
from ....ir.array import Array
from ....runtime.affine import in_blocks, scales_of

FRACTIONS = 1 - np.arange(21) / 50
"""Of the whole range: from 1 down to 0.6. With 4 bits the best ones for normally distributed weights are 0.8 to 1."""
_PIECE = 1 << 18
"""How many weights in groups are judged at a time: few enough that intermediate results stay in the cache."""


def searched_scales(
    values: Array, scales: Array, bits: int, axis: int | None, zero_points: Array, block: int | None
) -> Array:
    """The best fraction of each scale, float32: negative only in blocks, and without zero points.

    Scales and zero points have shape [], along `axis` [channels], or [blocks].
    """
    if axis is None or block is None:
        others = tuple(i for i in range(values.ndim) if i != axis)
        apart, points = (spread(each, values.shape, axis) for each in (scales, zero_points))
        return _best(values, apart, bits, points, others, signed=False).reshape(scales.shape)
    shape, signed = blocks_of(values.shape, axis, block), zero_points.ndim == 0
    apart, points = scales.reshape(shape), np.broadcast_to(zero_points, scales.shape).reshape(shape)
    best = np.empty_like(apart)
    size = block if axis == 0 else 1
    step = max(1, _PIECE * len(apart) // max(1, values.size))
    for start in range(0, len(apart), step):
        part = slice(start, start + step)
        rows = in_blocks(values[start * size : (start + step) * size], axis, block)
        each = (np.expand_dims(p[part], axis + 1) for p in (apart, points))
        best[part] = _best(rows, next(each), bits, next(each), (axis + 1,), signed=signed).squeeze(axis + 1)
    return best.reshape(scales.shape)


def _best(values: Array, scales: Array, bits: int, points: Array, over: tuple[int, ...], *, signed: bool) -> Array:
    """The same for scales and zero points that broadcast to the values, which share them along the axes `over`."""
    exact, half = values.astype(np.float32, copy=False), np.float32(2 ** (bits - 1))
    ends = [(1, -half - points, half - 1 - points), (-1, 1 - half, half)]  # of integers, times their sign
    best, least = scales, np.full(scales.shape, np.inf)
    steps, error = np.empty_like(exact), np.empty_like(exact)
    for fraction in FRACTIONS:
        candidate = scales_of(scales.astype(np.float64) * fraction)
        np.rint(np.divide(exact, candidate, out=steps), out=steps)
        for sign, low, high in ends if signed else ends[:1]:
            np.clip(steps, low, high, out=error)
            error *= candidate
            error -= exact
            total = np.square(error, out=error).sum(over, np.float64, keepdims=True)
            best = np.where(total < least, sign * candidate, best)
            least = np.minimum(total, least)
    return np.asarray(best, np.float32)
