"""Converts ranges to scale and zero point of signed integers: AMCT's min-max formulas, in float64, scales rounded to float32.

AMCT replaces scales below float32's epsilon by 1, which makes every number of such a range zero. Here only an empty range has
the scale 1. AMCT's parser of records accepts all positive finite scales.
"""

from __future__ import annotations

import numpy as np

from ..ir.array import Array

LEAST_SCALE, _LARGEST = (float(each) for each in (np.finfo(np.float32).tiny, np.finfo(np.float32).max))
"""The least normal number of float32, whose reciprocal is finite, and the largest."""
_PIECE = 1 << 18
"""Number of values in blocks that are processed together, so that they stay in the cache."""


def scales_of(steps: Array) -> Array:
    """float32 scales of any shape for the exact sizes of steps: 1 for an empty range, otherwise at least `LEAST_SCALE`."""
    return np.asarray(np.where(steps == 0, 1, np.maximum(steps, LEAST_SCALE)), np.float32)


def are_normal(scales: Array) -> bool:
    """Whether all scales are normal float32 numbers, as those of sums must be: smaller ones lose digits."""
    return bool(np.all((scales >= LEAST_SCALE) & (scales <= _LARGEST)))


def affine(low: float, high: float, bits: int, *, symmetric: bool) -> tuple[float, int]:
    """Scale and zero point for values in [low, high], a range that is widened to contain 0.

    Asymmetric: `scale = (high - low) / (2^bits - 1)`, `zero_point = round(-2^(bits-1) - low/scale)`.
    Symmetric: `scale = high / (2^(bits-1) - 1)` or `-low / 2^(bits-1)`, for the larger side; zero point 0.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    if symmetric:
        return float(symmetric_scales(np.array([low, high]), bits)), 0
    least = -(2 ** (bits - 1))
    scale = float(scales_of(np.asarray((high - low) / (2**bits - 1))))
    return scale, int(np.clip(np.rint(least - low / scale), least, -least - 1))


def symmetric_scales(values: Array, bits: int, axis: int | None = None, block: int | None = None) -> Array:
    """float32 scales of symmetric signed integers for `values`: shape [], along `axis` [channels], or [blocks] (AMCT's ARQ).

    The positive side decides if it is larger or both are equal.
    """
    if axis is None or block is None:
        return _symmetric(values, bits, axis, block)
    rows = block if axis == 0 else 1
    step = rows * max(1, _PIECE * len(values) // max(1, rows * values.size))
    starts = range(0, max(1, len(values)), step)
    return np.concatenate([_symmetric(values[start : start + step], bits, axis, block) for start in starts])


def _symmetric(values: Array, bits: int, axis: int | None, block: int | None) -> Array:
    low, high = ends_of(values, axis, block)
    up = np.asarray(high, np.float64) / (2 ** (bits - 1) - 1)
    down = -np.asarray(low, np.float64) / 2 ** (bits - 1)
    return scales_of(np.asarray(np.where(np.greater_equal(high, -low), up, down), np.float64))


def asymmetric_params(
    values: Array, bits: int, axis: int | None = None, block: int | None = None
) -> tuple[Array, Array]:
    """Scales and zero points by `affine`: float32 and int32, shape [] for all values, [channels] or [blocks]."""
    low, high = (np.asarray(end, np.float64) for end in ends_of(values, axis, block))
    least = -(2 ** (bits - 1))
    scales = scales_of((high - low) / (2**bits - 1))
    points = np.clip(np.rint(least - low / scales.astype(np.float64)), least, -least - 1)
    return scales, np.asarray(points, np.int32)


def ends_of(values: Array, axis: int | None, block: int | None) -> tuple[Array, Array]:
    """The least and the greatest of the values and 0, for all values, per channel or per block along `axis`."""
    if axis is not None and block is not None:
        parts = in_blocks(values, axis, block)
        return parts.min(axis + 1, initial=0.0).reshape(-1), parts.max(axis + 1, initial=0.0).reshape(-1)
    others = None if axis is None else tuple(i for i in range(values.ndim) if i != axis)
    return values.min(axis=others, initial=0.0), values.max(axis=others, initial=0.0)


def in_blocks(values: Array, axis: int, block: int) -> Array:
    """The values with `axis` split into blocks and their numbers; zeros fill the last block."""
    count = -(-values.shape[axis] // block)
    missing = count * block - values.shape[axis]
    padded = np.pad(values, [(0, missing if i == axis else 0) for i in range(values.ndim)]) if missing else values
    return padded.reshape(*values.shape[:axis], count, block, *values.shape[axis + 1 :])


def rounded(values: Array, scale: float, zero_point: int, bits: int) -> Array:
    """The values after quantization and dequantization, float64."""
    least = -(2 ** (bits - 1))
    return (np.clip(np.rint(values / scale) + zero_point, least, -least - 1) - zero_point) * scale
