"""Kernels of `ascend` operations that need several operations in `nn`, or have no counterpart."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, cast

import numpy as np

from ...dialects import ascend, nn
from ...dialects.ascend import AscendOp
from ...dialects.ascend.base import stand_ins
from ...dialects.nn.shapes import element_of
from ...ir.dtypes import numpy_dtype
from ..precision import wide
from . import Array, Kernel, bare_kernel_for


def _by_number(combine: np.ufunc) -> Callable[[ascend.ByNumberOp], Kernel]:
    def make(op: ascend.ByNumberOp) -> Kernel:
        value = np.array(op.value.value.data).astype(numpy_dtype(element_of(op.x)))

        def run(x: Array) -> Array:
            return combine(x, value)

        return run

    return make


def _added(op: ascend.AddNOp) -> Kernel:
    def run(*arrays: Array) -> Array:
        return reduce(np.add, arrays[1:], arrays[0])

    return run


def _elementwise(op: ascend.EltwiseOp) -> Kernel:
    """Computes weighted summands, and their sum, in float32."""
    mode, factors = op.mode.value.data, [np.float32(f) for f in op.factors]
    if mode != 1 or not factors:
        combine = (np.multiply, np.add, np.maximum)[mode]

        def run(*arrays: Array) -> Array:
            return reduce(combine, arrays[1:], arrays[0])

        return run

    def weighted(*arrays: Array) -> Array:
        summands = [a.astype(np.float32, copy=False) * f for a, f in zip(arrays, factors, strict=True)]
        return reduce(np.add, summands[1:], summands[0]).astype(arrays[0].dtype)

    return weighted


def _gated(scale: float) -> Kernel:
    """`x * sigmoid(scale * x)`, computed in float32 or float64."""

    def run(x: Array) -> Array:
        wider = x.astype(wide(x.dtype), copy=False)
        gate = np.reciprocal(np.exp(-(wider.dtype.type(scale) * wider)) + 1)
        return (wider * gate).astype(x.dtype, copy=False)

    return run


def _clip(op: ascend.ClipByValueV2Op) -> Kernel:
    def run(x: Array, low: Array, high: Array) -> Array:
        return np.minimum(np.maximum(x, low.reshape(())), high.reshape(()))

    return run


def _scale(op: ascend.ScaleOp) -> Kernel:
    shape = op.parameter_shape

    def run(x: Array, scale: Array, bias: Array | None = None) -> Array:
        y = x * scale.reshape(shape)
        return y if bias is None else y + bias.reshape(shape)

    return run


def _bias(op: ascend.BiasOp) -> Kernel:
    shape = op.parameter_shape

    def run(x: Array, bias: Array) -> Array:
        return x + bias.reshape(shape)

    return run


def _bn_inference(op: ascend.BNInferenceOp) -> Kernel:
    """Divides the statistics by their factor, then normalizes with a scale of 1 and an offset of 0."""
    types = [op.x.type, *[op.mean.type] * 4]
    normalized = cast(Kernel, bare_kernel_for(nn.BatchNormOp.make(*stand_ins(types), epsilon=op.epsilon)))

    def run(x: Array, mu: Array, variance: Array, momentum: Array) -> Array:
        divisor = float(momentum.reshape(())[()])
        factor = 1 / divisor if divisor else 0.0
        statistics = [(each.astype(np.float64) * factor).astype(each.dtype) for each in (mu, variance)]
        return cast(Array, normalized(x, np.ones_like(mu), np.zeros_like(mu), *statistics))

    return run


def _itself(x: Array) -> Array:
    return x


def _checked(indices: Array) -> Array:
    if indices.size and indices.min() < 0:
        raise ValueError(f"index {indices.min()} is negative")
    return indices


def _gather(op: ascend.GatherOp) -> Kernel:
    def run(x: Array, indices: Array) -> Array:
        return np.take(x, _checked(indices), axis=0)

    return run


def _gather_nd(op: ascend.GatherNdOp) -> Kernel:
    def run(x: Array, indices: Array) -> Array:
        return x[tuple(np.moveaxis(_checked(indices), -1, 0))]

    return run


def _tile(_: ascend.TileOp) -> Kernel:
    def run(x: Array, multiples: Array) -> Array:
        return np.tile(x, multiples)

    return run


def _pack(op: ascend.PackOp) -> Kernel:
    axis = op.new_axis

    def run(*arrays: Array) -> Array:
        return np.stack(arrays, axis=axis)

    return run


def _unpack(op: ascend.UnpackOp) -> Kernel:
    axis = op.axis.value.data

    def run(x: Array) -> list[Array]:
        return [np.ascontiguousarray(part) for part in np.moveaxis(x, axis, 0)]

    return run


def _split(op: ascend.SplitOp) -> Kernel:
    axis, count = op.split_axis, op.num_split.value.data

    def run(_: Array, x: Array) -> list[Array]:
        return [np.ascontiguousarray(part) for part in np.split(x, count, axis=axis)]

    return run


def _slice(op: ascend.SliceOp) -> Kernel:
    slices = op.slices()

    def run(x: Array, *_: Array) -> Array:
        return np.ascontiguousarray(x[slices])

    return run


def _fill(op: ascend.FillOp) -> Kernel:
    def run(dims: Array, value: Array) -> Array:
        return np.full(tuple(dims.reshape(-1)), value.reshape(()), value.dtype)

    return run


def _range(_: ascend.RangeOp) -> Kernel:
    def run(start: Array, limit: Array, delta: Array) -> Array:
        if not delta:
            raise ValueError("delta is 0")
        return np.array(range(int(start), int(limit), int(delta)), start.dtype)

    return run


def _shape(op: ascend.ShapeOp) -> Kernel:
    dtype = numpy_dtype(element_of(op.y))

    def run(x: Array) -> Array:
        return np.array(x.shape, dtype)

    return run


def _arg(find: Callable[..., Any]) -> Callable[[ascend.ArgOp], Kernel]:
    def kernel(op: ascend.ArgOp) -> Kernel:
        axis, dtype = op.searched_axis, numpy_dtype(element_of(op.y))

        def run(x: Array, _: Array) -> Array:
            return np.asarray(find(x, axis=axis)).astype(dtype)

        return run

    return kernel


ARRAY_KERNELS: dict[type[AscendOp], Callable[[Any], Kernel]] = {
    ascend.SquareOp: lambda _: np.square,
    ascend.IdentityOp: lambda _: _itself,
    ascend.AddsOp: _by_number(np.add),
    ascend.MulsOp: _by_number(np.multiply),
    ascend.AddNOp: _added,
    ascend.EltwiseOp: _elementwise,
    ascend.SwishOp: lambda op: _gated(op.scale.value.data),
    ascend.FastGeluOp: lambda _: _gated(1.702),
    ascend.ClipByValueV2Op: _clip,
    ascend.ScaleOp: _scale,
    ascend.BiasOp: _bias,
    ascend.BNInferenceOp: _bn_inference,
    ascend.GatherOp: _gather,
    ascend.GatherNdOp: _gather_nd,
    ascend.TileOp: _tile,
    ascend.PackOp: _pack,
    ascend.UnpackOp: _unpack,
    ascend.SplitOp: _split,
    ascend.SliceOp: _slice,
    ascend.FillOp: _fill,
    ascend.RangeOp: _range,
    ascend.ShapeOp: _shape,
    ascend.ArgMaxV2Op: _arg(np.argmax),
    ascend.ArgMinOp: _arg(np.argmin),
}
