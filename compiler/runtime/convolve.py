"""Convolution of float arrays through BLAS: the core of the float and the exact integer kernels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..dialects.nn.shapes import Shape, window_size
from .kernels import Array
from .scratch import scratch
from .windows import padded, window_view

COLUMN_BYTES = 4 << 20
"""Approximate size in bytes of the unfolded input of a block of output rows or channels, so that it stays in the cache."""


def convolve(
    x: Array,
    weight: Array,
    *,
    strides: Shape,
    dilations: Shape,
    pads: Sequence[int],
    groups: int,
    fill: float = 0.0,
) -> Array:
    """`[N, C, *spatial]` and `[M, C/groups, *kernel]` to `[N, M, *output]`, in the float type of the weight.

    x may have any number type; it is converted while it is padded. `fill` is the value of the padding.
    Raises VerifyException if a window does not fit, ValueError if channels do not.
    """
    kernel = weight.shape[2:]
    x = padded(x, pads, fill, weight.dtype)
    out = tuple(window_size(*row, 0, 0) for row in zip(x.shape[2:], kernel, strides, dilations, strict=True))
    if x.shape[1] != weight.shape[1] * groups:
        raise ValueError(f"{x.shape[1]} input channels for {groups} groups of {weight.shape[1]}")
    if prod(kernel) == 1:
        return _pointwise(x, weight, out, strides, groups)
    if weight.shape[1] == 1 and set(strides) == {1}:
        length = _run_length(x.shape[2:], out)
        if (step := COLUMN_BYTES // (prod(kernel) * length * weight.itemsize)) > 0:
            return _depthwise(x, weight, out, dilations, groups, length, step)
    return _unfolded(x, weight, out, strides, dilations, groups)


def _pointwise(x: Array, weight: Array, out: Shape, strides: Shape, groups: int) -> Array:
    n, channels = x.shape[:2]
    filters = weight.shape[0]
    if any(s > 1 for s in strides):
        x = x[(slice(None), slice(None), *(slice(None, None, s) for s in strides))]
    x = x.reshape(n, groups, channels // groups, prod(out))
    return np.matmul(weight.reshape(groups, filters // groups, -1), x).reshape(n, filters, *out)


def _unfolded(x: Array, weight: Array, out: Shape, strides: Shape, dilations: Shape, groups: int) -> Array:
    """im2col by strided copies into a reused buffer, a block of output rows at a time, and one product per block."""
    n, channels = x.shape[:2]
    kernel = weight.shape[2:]
    filters, depth = weight.shape[0], weight.shape[1] * prod(kernel)
    matrix = weight.reshape(groups, filters // groups, depth)
    result = np.empty((n, groups, filters // groups, prod(out)), weight.dtype)
    views = window_view(x, kernel, out, strides, dilations)
    row = prod(out[1:])
    rows = max(1, min(out[0], COLUMN_BYTES // max(groups * depth * row * weight.itemsize, 1)))
    axis = 1 + len(kernel)
    for i in range(n):
        for begin in range(0, out[0], rows):
            end = min(begin + rows, out[0])
            columns = scratch("columns", (channels, *kernel, end - begin, *out[1:]), weight.dtype)
            np.copyto(columns, views[i][(slice(None),) * axis + (slice(begin, end),)])
            block = result[i, :, :, begin * row : end * row]
            np.matmul(matrix, columns.reshape(groups, depth, -1), out=block)
    return result.reshape(n, filters, *out)


def _depthwise(x: Array, weight: Array, out: Shape, dilations: Shape, groups: int, length: int, step: int) -> Array:
    """im2col of flattened channels, `step` at a time: a tap reads one run of `length` elements of a whole channel.

    Windows that cross the end of a row are computed too, and cut off; long copies outweigh that.
    """
    x = np.ascontiguousarray(x)
    n, space, kernel = x.shape[0], x.shape[2:], weight.shape[2:]
    filters, taps = weight.shape[0], prod(kernel)
    inner = (s * d for s, d in zip(x.strides[2:], dilations, strict=True))
    runs = as_strided(x, (n, groups, *kernel, length), (*x.strides[:2], *inner, x.itemsize), writeable=False)
    matrix = weight.reshape(groups, filters // groups, taps)
    result = scratch("runs", (n, groups, filters // groups, prod(space)), weight.dtype)
    for i in range(n):
        for begin in range(0, groups, step):
            block = slice(begin, min(begin + step, groups))
            columns = scratch("columns", (block.stop - begin, *kernel, length), weight.dtype)
            np.copyto(columns, runs[i, block])
            np.matmul(matrix[block], columns.reshape(-1, taps, length), out=result[i, block, :, :length])
    return result.reshape(n, filters, *space)[(..., *map(slice, out))].copy()


def _run_length(space: Shape, out: Shape) -> int:
    """The length from the first window of a flattened channel to the last."""
    last = 0
    for size, windows in zip(space, out, strict=True):
        last = last * size + windows - 1
    return last + 1
