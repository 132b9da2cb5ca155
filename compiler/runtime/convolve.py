"""Convolution of float arrays through BLAS: the one core behind the float and the exact integer kernels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..dialects.nn.shapes import Shape, window_size
from .kernels import Array
from .scratch import scratch
from .windows import padded, window_view

COLUMN_BYTES = 4 << 20
"""Blocks of output rows are chosen so that their unfolded input stays about this large: it then stays in the cache."""


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

    x may be of any number type, it is converted while it is padded; `fill` is the value of the padding.
    Raises VerifyException when a window does not fit, ValueError when channels do not.
    """
    kernel = weight.shape[2:]
    x = padded(x, pads, fill, weight.dtype)
    out = tuple(window_size(*row, 0, 0) for row in zip(x.shape[2:], kernel, strides, dilations, strict=True))
    if x.shape[1] != weight.shape[1] * groups:
        raise ValueError(f"{x.shape[1]} input channels for {groups} groups of {weight.shape[1]}")
    if prod(kernel) == 1:
        return _pointwise(x, weight, out, strides, groups)
    return _unfolded(x, weight, out, strides, dilations, groups)


def _pointwise(x: Array, weight: Array, out: Shape, strides: Shape, groups: int) -> Array:
    n, channels = x.shape[:2]
    filters = weight.shape[0]
    if any(s > 1 for s in strides):
        x = x[(slice(None), slice(None), *(slice(None, None, s) for s in strides))]
    x = x.reshape(n, groups, channels // groups, prod(out))
    return np.matmul(weight.reshape(groups, filters // groups, -1), x).reshape(n, filters, *out)


def _unfolded(x: Array, weight: Array, out: Shape, strides: Shape, dilations: Shape, groups: int) -> Array:
    """im2col by strided copies into a reused buffer, a block of output rows at a time, and one product per block.

    Also the fastest way for depthwise convolution: one row vector times one matrix per channel.
    """
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
