"""Scales of weights by least squared error: a few large weights are clipped, so that the steps of all others are smaller.

Nothing but the weight is needed. The candidates are fractions of the scale that covers all values; a zero point is the same for
all of them. Groups without zero points also try each of them with a minus: integers reach further below 0 than above, and a
negative scale gives that side to the positive weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce

import numpy as np

from ....dialects.nn import blocks_of, spread
from ....engines.threads import threads_here
from ....ir.array import Array
from ....runtime.affine import LEAST_SCALE, in_blocks

_ROUNDED = 1 + 2.0**-12
"""More than the relative rounding errors of float32 in a square."""
_PIECE = 1 << 16
"""Number of weights in groups that are judged at a time: they stay in the cache for all fractions."""


def fractions(bits: int) -> Array:
    """The fractions of a scale that are tried, float64: from 1 down to 0.6, with 2 bits to 0.2.

    For groups of 32 normally distributed weights the best ones are 0.8 to 1 with 4 bits, and 0.3 to 1 with 2.
    """
    return 1 - np.arange(21 if bits > 2 else 41) / 50


def searched_scales(
    values: Array, scales: Array, bits: int, axis: int | None, zero_points: Array, block: int | None
) -> Array:
    """The best fraction of each scale, float32: negative only in blocks, and without zero points.

    Scales and zero points have shape [], along `axis` [channels], or [blocks].
    """
    half = np.float32(2 ** (bits - 1))
    if axis is None or block is None:
        others = tuple(i for i in range(values.ndim) if axis is None or i != axis % values.ndim)
        apart, points = (spread(each, values.shape, axis) for each in (scales, zero_points.astype(np.float32)))
        ends = [(1, -half - points, half - 1 - points)]
        return _best(values, apart, fractions(bits), ends, others, np.float64).reshape(scales.shape)
    shape, negated = blocks_of(values.shape, axis, block), [(-1, 1 - half, half)] * (zero_points.ndim == 0)
    apart = scales.reshape(shape)
    points = np.broadcast_to(zero_points.astype(np.float32), scales.shape).reshape(shape)
    best = np.empty_like(apart)
    size = block if axis == 0 else 1
    step, tried = max(1, _PIECE * len(apart) // max(1, values.size)), fractions(bits)

    def search(start: int) -> None:
        part = slice(start, start + step)
        rows = in_blocks(values[start * size : (start + step) * size], axis, block)
        numbers = np.ascontiguousarray(np.moveaxis(rows, axis + 1, 0))
        given = points[part] if points.any() else np.float32(0)
        ends = [(1, -half - given, half - 1 - given), *negated]
        best[part] = _best(numbers, apart[part], tried, ends, (0,), np.float32)  # sums of a few numbers

    with ThreadPoolExecutor(threads_here()) as threads:
        for _ in threads.map(search, range(0, len(apart), step)):
            pass
    return best.reshape(scales.shape)


Ends = Sequence[tuple[int, Array | np.float32, Array | np.float32]]
"""Signs of scales, each with the least and the largest integer without its zero point, times the sign."""


def _best(
    values: Array, scales: Array, tried: Array, ends: Ends, axes: tuple[int, ...], sums: type[np.floating]
) -> Array:
    """The best of the `tried` fractions of scales, each scale being that of all values along `axes`; errors add up in `sums`.

    The search ends where the largest of the values under each scale loses more by clipping than all of them by the best fraction.
    """
    exact, whole = values.astype(np.float32, copy=False), scales.astype(np.float64)
    least_value, largest = (np.asarray(end(axes), np.float64).reshape(scales.shape) for end in (exact.min, exact.max))
    best, least = scales, np.full(scales.shape, np.inf)
    steps, error = np.empty_like(exact), np.empty_like(exact)
    for fraction in tried:
        candidate = np.maximum(whole * fraction, LEAST_SCALE).astype(np.float32)
        beyond = (np.maximum(low * candidate - least_value, largest - high * candidate) for _, low, high in ends)
        clipped = np.square(np.maximum(0, reduce(np.minimum, beyond)))
        if np.all((clipped > least * _ROUNDED) | (least == 0)):
            break
        np.rint(np.divide(exact, candidate, out=steps), out=steps)
        for sign, low, high in ends:
            np.clip(steps, low, high, out=error)
            error *= candidate
            error -= exact
            total = np.square(error, out=error).sum(axes, dtype=sums).reshape(scales.shape)
            best = np.where(total < least, sign * candidate, best)
            least = np.minimum(total, least)
    return np.asarray(best, np.float32)
