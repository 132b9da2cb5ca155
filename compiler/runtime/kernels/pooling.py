"""Pooling over windows, and over all of space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...dialects import nn
from ...dialects.nn.shapes import Shape
from ..layouts import in_layout
from ..precision import mean, wide
from ..windows import Window, combine_windows, padded, window_counts
from . import Array, Kernel, kernel


@kernel(nn.MaxPoolOp)
def max_pool(op: nn.MaxPoolOp) -> Kernel:
    pooled = _pooled(op, np.maximum)

    def run(x: Array) -> Array:
        return pooled(x, _lowest(x.dtype), x.dtype)[0]

    return in_layout(op, run)


def _lowest(dtype: np.dtype[Any]) -> float:
    return float("-inf") if dtype.kind not in "iu" else int(np.iinfo(dtype).min)


@kernel(nn.AveragePoolOp)
def average_pool(op: nn.AveragePoolOp) -> Kernel:
    pooled = _pooled(op, np.add)

    def run(x: Array) -> Array:
        sums, pads = pooled(x, 0.0, wide(x.dtype))
        np.divide(sums, counts_for(op, x.shape[2:], sums.shape[2:], pads).astype(sums.dtype), out=sums)
        return sums.astype(x.dtype, copy=False)

    return in_layout(op, run)


def counts_for(op: nn.AveragePoolOp, space: Shape, out: Shape, pads: Shape) -> Array:
    """The divisor of the sum of each window: integers `[*out]`."""
    include_pad, window, n = op.count_include_pad is not None, Window.of(op), len(space)
    total = np.ones((), np.int64)
    for axis in range(n):
        begin, end = (pads[axis], pads[axis + n]) if include_pad else (0, 0)
        low, high = pads[axis] - begin, pads[axis] + space[axis] + end
        geometry = (op.kernel_shape[axis], out[axis], window.strides[axis], window.dilations[axis])
        total = total[..., None] * window_counts(low, high, *geometry)
    return total


def _pooled(op: nn.PoolOp, combine: np.ufunc) -> Callable[[Array, float, np.dtype[Any]], tuple[Array, Shape]]:
    """A function of x, the value of the padding and the type to compute in; gives all windows, and the pads asked for."""
    kernel_shape, window, inside = op.kernel_shape, Window.of(op), padded_for(op)

    def run(x: Array, fill: float, dtype: np.dtype[Any]) -> tuple[Array, Shape]:
        values, out, pads = inside(x, fill, dtype)
        return combine_windows(values, combine, kernel_shape, out, window.strides, window.dilations), pads

    return run


def padded_for(op: nn.PoolOp) -> Callable[[Array, float, np.dtype[Any]], tuple[Array, Shape, Shape]]:
    """A function of x, the value of the padding and the type to compute in; gives x padded, the windows, the pads asked for."""
    kernel_shape, window, ceil = op.kernel_shape, Window.of(op), op.ceil_mode is not None

    def run(x: Array, fill: float, dtype: np.dtype[Any]) -> tuple[Array, Shape, Shape]:
        space, n = x.shape[2:], x.ndim - 2
        pads, out = window.pads_for(space, kernel_shape), window.output_for(space, kernel_shape, ceil)
        # up to the end of the last window, which `ceil_mode` may place beyond the padding
        rows = zip(space, kernel_shape, out, window.strides, window.dilations, pads[:n], strict=True)
        ends = [max((o - 1) * stride + d * (k - 1) + 1 - s - b, 0) for s, k, o, stride, d, b in rows]
        return padded(x, (*pads[:n], *ends), fill, dtype), out, pads

    return run


@kernel(nn.GlobalAveragePoolOp)
def global_average_pool(op: nn.GlobalAveragePoolOp) -> Kernel:
    def run(x: Array) -> Array:
        return mean(x, tuple(range(2, x.ndim))).astype(x.dtype, copy=False)

    return in_layout(op, run)


@kernel(nn.GlobalMaxPoolOp)
def global_max_pool(op: nn.GlobalMaxPoolOp) -> Kernel:
    def run(x: Array) -> Array:
        return x.max(axis=tuple(range(2, x.ndim)), keepdims=True)

    return in_layout(op, run)
