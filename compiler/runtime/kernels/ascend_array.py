"""Kernels of `ascend` operations that need several operations in `nn`, or have no counterpart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...dialects import ascend
from ...dialects.ascend import AscendOp
from ...dialects.nn.shapes import element_of
from ...ir.dtypes import numpy_dtype
from . import Array, Kernel


def _itself(x: Array) -> Array:
    return x


def _checked(indices: Array) -> Array:
    if indices.size and indices.min() < 0:
        raise ValueError(f"index {indices.min()} is negative")
    return indices


def _gather(x: Array, indices: Array) -> Array:
    return np.take(x, _checked(indices), axis=0)


def _gather_nd(x: Array, indices: Array) -> Array:
    return x[tuple(np.moveaxis(_checked(indices), -1, 0))]


def _pack(op: ascend.PackOp) -> Kernel:
    axis = op.new_axis

    def run(*arrays: Array) -> Array:
        return np.stack(arrays, axis=axis)

    return run


def _unpack(op: ascend.UnpackOp) -> Callable[[Array], list[Array]]:
    axis = op.axis.value.data
    return lambda x: [np.ascontiguousarray(part) for part in np.moveaxis(x, axis, 0)]


def _split(op: ascend.SplitOp) -> Callable[[Array, Array], list[Array]]:
    axis, count = op.split_axis, op.num_split.value.data
    return lambda _, x: [np.ascontiguousarray(part) for part in np.split(x, count, axis=axis)]


def _slice(op: ascend.SliceOp) -> Kernel:
    slices = op.slices()

    def run(x: Array, *_: Array) -> Array:
        return np.ascontiguousarray(x[slices])

    return run


def _fill(dims: Array, value: Array) -> Array:
    return np.full(tuple(dims.reshape(-1)), value.reshape(()), value.dtype)


def _range(start: Array, limit: Array, delta: Array) -> Array:
    if not delta:
        raise ValueError("delta is 0")
    return np.array(range(int(start), int(limit), int(delta)), start.dtype)


def _shape(op: ascend.ShapeOp) -> Callable[[Array], Array]:
    dtype = numpy_dtype(element_of(op.y))
    return lambda x: np.array(x.shape, dtype)


def _arg(find: Callable[..., Any]) -> Callable[[ascend.ArgOp], Kernel]:
    def kernel(op: ascend.ArgOp) -> Callable[[Array, Array], Array]:
        axis, dtype = op.searched_axis, numpy_dtype(element_of(op.y))
        return lambda x, _: np.asarray(find(x, axis=axis)).astype(dtype)

    return kernel


ARRAY_KERNELS: dict[type[AscendOp], Callable[[Any], Kernel]] = {
    ascend.IdentityOp: lambda _: _itself,
    ascend.GatherOp: lambda _: _gather,
    ascend.GatherNdOp: lambda _: _gather_nd,
    ascend.TileOp: lambda _: np.tile,
    ascend.PackOp: _pack,
    ascend.UnpackOp: _unpack,
    ascend.SplitOp: _split,
    ascend.SliceOp: _slice,
    ascend.FillOp: lambda _: _fill,
    ascend.RangeOp: lambda _: _range,
    ascend.ShapeOp: _shape,
    ascend.ArgMaxV2Op: _arg(np.argmax),
    ascend.ArgMinOp: _arg(np.argmin),
}
