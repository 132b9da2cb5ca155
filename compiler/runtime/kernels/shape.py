"""Data movement, shapes and reductions. Results are views if numpy has one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache, partial
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.ir import Operation

from ...dialects import nn
from ...dialects.nn.attributes import PadMode, ResizeMode
from ...dialects.nn.shape import reshaped
from ...dialects.nn.shapes import Shape, broadcast, shape_of
from ...support.limits import check_view
from ..precision import mean, wide
from ..resample import Sampling, Taps, resample, taps_of
from . import Array, Kernel, kernel


@kernel(nn.ConcatOp)
def concat(op: nn.ConcatOp) -> Kernel:
    axis = op.axis.value.data

    def run(*inputs: Array) -> Array:
        return np.concatenate(inputs, axis=axis)

    return run


@kernel(nn.SplitOp)
def split(op: nn.SplitOp) -> Kernel:
    axis, sizes = op.axis.value.data, nn.ints(op.sizes)
    ends = np.cumsum(sizes).tolist()
    slices = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]

    def run(x: Array) -> list[Array]:
        if x.shape[axis] != sum(sizes):
            raise ValueError(f"the parts make {sum(sizes)} elements, the axis has {x.shape[axis]}")
        lead = (slice(None),) * (axis % x.ndim)
        return [x[(*lead, s)] for s in slices]

    return run


@kernel(nn.SliceOp)
def slice_axes(op: nn.SliceOp) -> Callable[[Array], Array]:
    slices = op.slices(len(shape_of(op.input)))
    return lambda x: x[slices]


@kernel(nn.GatherOp)
def gather(op: nn.GatherOp) -> Callable[[Array, Array], Array]:
    axis, n = op.axis.value.data, op.batch_count
    return lambda x, indices: _gather_batches(x, indices, axis % x.ndim, n) if n else np.take(x, indices, axis=axis)


def _gather_batches(x: Array, indices: Array, axis: int, n: int) -> Array:
    """`[batch, between, A, rest]` and `[batch, indices]` to `[batch, between, indices, rest]`."""
    batch = np.ogrid[tuple(map(slice, indices.shape[:n]))]
    added = indices.ndim - n
    picked = np.moveaxis(x, axis, n)[(*(b.reshape(*b.shape, *(1,) * added) for b in batch), indices)]
    return np.moveaxis(picked, range(n, n + added), range(axis, axis + added))


@kernel(nn.ReshapeOp)
def reshape(op: nn.ReshapeOp) -> Kernel:
    target, allow_zero = op.target(), op.allow_zero is not None
    shape_for = lru_cache(partial(reshaped, allow_zero=allow_zero))

    def run(x: Array, shape: Array | None = None) -> Array:
        to = target if target is not None or shape is None else tuple(shape.tolist())
        return x.reshape(shape_for(x.shape, to))

    return run


@kernel(nn.ExpandOp)
def expand(op: nn.ExpandOp) -> Kernel:
    target = op.target()

    def run(x: Array, shape: Array | None = None) -> Array:
        to = target if target is not None or shape is None else tuple(shape.tolist())
        assert to is not None
        sizes = broadcast(x.shape, to)
        check_view(prod(sizes) * x.itemsize)
        return np.broadcast_to(x, sizes)

    return run


@kernel(nn.TransposeOp)
def transpose(op: nn.TransposeOp) -> Callable[[Array], Array]:
    perm = nn.ints(op.perm)
    return lambda x: x.transpose(perm)


@kernel(nn.FlattenOp)
def flatten(op: nn.FlattenOp) -> Kernel:
    axis = op.axis.value.data

    def run(x: Array) -> Array:
        cut = axis + x.ndim if axis < 0 else axis
        return x.reshape(prod(x.shape[:cut]), prod(x.shape[cut:]))

    return run


@kernel(nn.SqueezeOp)
def squeeze(op: nn.SqueezeOp) -> Callable[[Array], Array]:
    axes = None if op.axes is None else nn.ints(op.axes)
    return lambda x: np.squeeze(x, axis=axes)


@kernel(nn.UnsqueezeOp)
def unsqueeze(op: nn.UnsqueezeOp) -> Callable[[Array], Array]:
    axes = nn.ints(op.axes)
    return lambda x: np.expand_dims(x, axes)


@kernel(nn.PadOp)
def pad(op: nn.PadOp) -> Kernel:
    return padding(op, op.value.value.data)


def refilled(op: Operation, value: float) -> Kernel | None:
    """The kernel of an operation that fills in 0, with another number in its place; None for other operations."""
    return padding(op, value) if isinstance(op, nn.PadOp) and op.fill == 0 else None


def padding(op: nn.PadOp, value: float) -> Kernel:
    """A pad that fills in `value`."""
    pads, mode = nn.ints(op.pads), op.mode.data
    n = len(pads) // 2
    pairs = list(zip(pads[:n], pads[n:], strict=True))
    cut = tuple(slice(max(-b, 0), min(e, 0) or None) for b, e in pairs)
    added = [(max(b, 0), max(e, 0)) for b, e in pairs]

    def run(x: Array) -> Array:
        x = x[cut]
        if mode is not PadMode.CONSTANT:
            return np.pad(x, added, mode=cast(Any, mode.value))
        y = np.full([d + b + e for d, (b, e) in zip(x.shape, added, strict=True)], value, x.dtype)
        y[tuple(slice(b, b + d) for d, (b, _) in zip(x.shape, added, strict=True))] = x
        return y

    return run


def resampled_axes(op: nn.ResizeOp, shape: Shape) -> list[tuple[int, Taps]]:
    """The axes that a resize changes, for an input of this shape, and the input elements and weights of their elements."""
    sampling = Sampling(
        op.mode.data,
        op.coordinates.data,
        op.nearest.data,
        op.cubic_coeff.value.data,
        op.exclude_outside is not None,
        None if op.cubic_steps is None else op.cubic_steps.value.data,
    )
    out = op.output_sizes(shape)
    scales = [o / d for o, d in zip(out, shape, strict=True)] if op.scales is None else op.scales.data
    rows = enumerate(zip(shape, out, scales, strict=True))
    return [(axis, taps_of(sampling, d, o, s)) for axis, (d, o, s) in rows if o != d or s != 1]


@kernel(nn.ResizeOp)
def resize(op: nn.ResizeOp) -> Kernel:
    axes = cache(partial(resampled_axes, op))
    exact = op.mode.data is ResizeMode.NEAREST

    def run(x: Array) -> Array:
        y = x if exact else x.astype(wide(x.dtype), copy=False)
        for axis, taps in axes(x.shape):
            y = resample(y, axis, taps)
        return y if exact else _saturated(y, x.dtype)

    return run


def _saturated(y: Array, dtype: np.dtype[Any]) -> Array:
    if dtype.kind not in "iu":
        return y.astype(dtype, copy=False)
    info = np.iinfo(dtype)
    return np.clip(np.rint(y), info.min, info.max).astype(dtype)


@kernel(nn.ShapeOp)
def shape(op: nn.ShapeOp) -> Callable[[Array], Array]:
    part = slice(op.start.value.data, None if op.end is None else op.end.value.data)
    return lambda x: np.array(x.shape[part], np.int64)


def _sum(x: Array, axes: Shape, keepdims: bool) -> Array:
    return x.sum(axis=axes, keepdims=keepdims, dtype=_accumulator(x.dtype))


def _prod(x: Array, axes: Shape, keepdims: bool) -> Array:
    return x.prod(axis=axes, keepdims=keepdims, dtype=_accumulator(x.dtype))


def _accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.kind in "iu" else wide(dtype)


def _max(x: Array, axes: Shape, keepdims: bool) -> Array:
    return np.max(x, axis=axes, keepdims=keepdims, **_initial(x, -1))


def _min(x: Array, axes: Shape, keepdims: bool) -> Array:
    return np.min(x, axis=axes, keepdims=keepdims, **_initial(x, 1))


def _initial(x: Array, sign: int) -> dict[str, Any]:
    """The result of an empty reduction: the end of the type's range (ONNX ReduceMax, ReduceMin)."""
    if x.size:
        return {}
    if x.dtype.kind == "b":
        return {"initial": sign > 0}
    if x.dtype.kind not in "iu":
        return {"initial": x.dtype.type(sign * float("inf"))}
    info = np.iinfo(x.dtype)
    return {"initial": info.max if sign > 0 else info.min}


_REDUCTIONS: dict[type[nn.ReduceOp], Callable[[Array, Shape, bool], Array]] = {
    nn.ReduceMeanOp: mean,
    nn.ReduceSumOp: _sum,
    nn.ReduceProdOp: _prod,
    nn.ReduceMaxOp: _max,
    nn.ReduceMinOp: _min,
}


@kernel(*_REDUCTIONS)
def reduce(op: nn.ReduceOp) -> Callable[[Array], Array]:
    function, axes, keepdims = _REDUCTIONS[type(op)], op.axis_list(), op.keepdims is not None
    return lambda x: np.asarray(function(x, axes, keepdims)).astype(x.dtype, copy=False)


@kernel(nn.ArgMaxOp, nn.ArgMinOp)
def arg(op: nn.ArgMaxOp | nn.ArgMinOp) -> Kernel:
    find = np.argmax if isinstance(op, nn.ArgMaxOp) else np.argmin
    axis, keepdims, last = op.axis.value.data, op.keepdims is not None, op.last is not None

    def run(x: Array) -> Array:
        found = find(np.flip(x, axis) if last else x, axis=axis, keepdims=keepdims)
        return np.asarray(x.shape[axis] - 1 - found if last else found, np.int64)

    return run
