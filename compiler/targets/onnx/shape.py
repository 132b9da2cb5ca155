"""Data movement, shapes and reductions. Attributes of older opsets (axes, sizes) are inputs since."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto
from xdsl.dialects.builtin import f32, i32, i64
from xdsl.ir import SSAValue

from ...dialects import nn
from ...dialects.nn.shapes import axis_of, element_of, known, shape_of, static
from ..graph import readers
from .float_layers import is_between_integers
from .layer import OnnxLayer, Operand, Written, converter
from .rows import by_row, unsqueezed, written_by_row


@converter(nn.SliceOp)
def slice_(op: nn.SliceOp, layer: OnnxLayer) -> str:
    starts = nn.ints(op.starts)
    axes = None if op.axes is None and op.steps is None else layer.ints(nn.ints(op.axes, range(len(starts))), "axes")
    steps = None if op.steps is None else layer.ints(nn.ints(op.steps), "steps")
    return layer.node(
        "Slice", op.input, layer.ints(starts, "starts"), layer.ints(nn.ints(op.ends), "ends"), axes, steps
    )


@converter(nn.GatherOp)
def gather(op: nn.GatherOp, layer: OnnxLayer) -> str:
    if op.batch_count:
        return _gather_batches(op, layer)
    indices: Operand = op.indices
    if element_of(op.indices) not in (i32, i64):
        indices = layer.helper("Cast", op.indices, to=TensorProto.INT64)
    return layer.node("Gather", op.input, indices, axis=op.axis.value.data)


def _gather_batches(op: nn.GatherOp, layer: OnnxLayer) -> str:
    """Writes GatherND, which looks up in the axis after the batches, with indices that have an additional axis."""
    n, rank = op.batch_count, len(shape_of(op.input))
    axis, added = axis_of(op.axis.value.data, rank), len(shape_of(op.indices)) - n
    between = axis - n
    x: Operand = op.input
    if between:
        x = layer.helper("Transpose", x, perm=[*range(n), axis, *range(n, axis), *range(axis + 1, rank)])
    indices: Operand = op.indices
    if element_of(op.indices) != i64:
        indices = layer.helper("Cast", op.indices, to=TensorProto.INT64)
    layer.require(12, "GatherND with batch_dims")
    indices = unsqueezed(indices, [n + added], layer)
    if not between or not added:
        return layer.node("GatherND", x, indices, batch_dims=n)
    picked = layer.helper("GatherND", x, indices, batch_dims=n)
    behind = n + added
    back = [*range(n), *range(behind, behind + between), *range(n, behind), *range(behind + between, rank + added - 1)]
    return layer.node("Transpose", picked, perm=back)


@converter(nn.ReshapeOp)
def reshape(op: nn.ReshapeOp, layer: OnnxLayer) -> str:
    """`allowzero` came with opset 14; it is left out if no size is 0."""
    target = op.target()
    zero = op.allow_zero is not None and (target is None or 0 in target)
    if zero:
        layer.require(14, "Reshape with allowzero")
    return layer.node("Reshape", op.input, _shape(op.shape, op.to, layer), allowzero=1 if zero else None)


@converter(nn.ExpandOp)
def expand(op: nn.ExpandOp, layer: OnnxLayer) -> str:
    return layer.node("Expand", op.input, _shape(op.shape, op.to, layer))


def _shape(shape: SSAValue | None, to: Any, layer: OnnxLayer) -> str:
    """A shape as a tensor of int64, from an operand or a property."""
    if shape is None:
        return layer.ints(nn.ints(to), "shape")
    return layer.value(shape) if element_of(shape) == i64 else layer.helper("Cast", shape, to=TensorProto.INT64)


@converter(nn.SqueezeOp, nn.UnsqueezeOp)
def squeeze(op: nn.SqueezeOp | nn.UnsqueezeOp, layer: OnnxLayer) -> Written:
    """An empty list of axes changes nothing in `nn`; ONNX leaves its meaning open."""
    if op.axes is None:
        return by_row(op, layer)
    return by_row(op, layer) if nn.ints(op.axes) else layer.node("Identity", op.input)


@converter(nn.PadOp)
def pad(op: nn.PadOp, layer: OnnxLayer) -> str:
    mode = op.mode.data
    if mode is nn.PadMode.WRAP and layer.opset < 19:
        return _wrapped(op, layer)
    value = layer.scalar(_padding(op), op.input, "value") if mode is nn.PadMode.CONSTANT else None
    return layer.node("Pad", op.input, layer.ints(nn.ints(op.pads), "pads"), value, mode=mode.value)


def _wrapped(op: nn.PadOp, layer: OnnxLayer) -> str:
    """Writes mode wrap, which came with opset 19; before, the elements at the other end of each axis (Slice) are put
    next to it (Concat).
    """
    pads, shape = nn.ints(op.pads), shape_of(op.input)
    rank = len(shape)
    axes = [a for a in range(rank) if max(pads[a], pads[rank + a]) > 0]
    if not axes:
        return layer.node("Pad", op.input, layer.ints(pads, "pads"))
    removed = [min(p, 0) for p in pads]
    x = layer.helper("Pad", op.input, layer.ints(removed, "pads")) if any(removed) else layer.value(op.input)
    for axis in axes:
        before, after = pads[axis], pads[rank + axis]
        size = shape[axis] + removed[axis] + removed[rank + axis] if known(shape[axis]) else 0
        if max(before, after) > size:
            layer.require(19, f"Pad with mode wrap of axis {axis}, whose size is unknown or less than the pad")
        parts = [x]
        if before > 0:
            parts = [_part(x, axis, size - before, size, layer), *parts]
        if after > 0:
            parts = [*parts, _part(x, axis, 0, after, layer)]
        name = layer.label if axis == axes[-1] else f"{layer.label}/Concat"
        (x,) = layer.emit("Concat", parts, {"axis": axis}, name)
    return x


def _part(x: str, axis: int, start: int, end: int, layer: OnnxLayer) -> str:
    return layer.helper("Slice", x, layer.ints([start], "start"), layer.ints([end], "end"), layer.ints([axis], "axes"))


def _padding(op: nn.PadOp) -> float:
    """The padding value, with a negative zero before a pool.

    onnxruntime 1.31 merges a Pad of plain zeros into the pool after it: of a MaxPool, which pads with -inf, negative borders
    come out wrong, and pads as wide as the kernel are refused of any. A zero that has a sign keeps them apart.
    """
    value = op.value.value.data
    is_pooled = element_of(op.input) == f32 and any(isinstance(r, nn.PoolOp) for r in readers(op.result))
    return -0.0 if value == 0 and is_pooled else value


@converter(nn.ResizeOp)
def resize(op: nn.ResizeOp, layer: OnnxLayer) -> str:
    """Writes Resize. Inputs are X, roi (never used here), and either scales or sizes; before opset 13 unused ones are empty."""
    if op.coordinates.data is nn.Coordinates.HALF_PIXEL_SYMMETRIC:
        layer.require(19, "Resize with half_pixel_symmetric")
    mode = op.mode.data
    cubic = mode is nn.ResizeMode.CUBIC
    if cubic and op.cubic_steps is not None:
        layer.note("cubic-steps", "ONNX computes cubic weights where elements lie, not at the nearest of some steps")
    perm = _resized_last(op)
    unused = None if layer.opset >= 13 else layer.constant(np.zeros(0, np.float32), "unused")
    inputs = (
        op.input if perm is None else layer.helper("Transpose", op.input, perm=perm),
        unused,
        unused
        if op.scales is None
        else layer.constant(np.array(_permuted(op.scales.data, perm), np.float32), "scales"),
        None if op.sizes is None else _sizes(op, perm, layer),
    )
    attributes = {
        "mode": mode.value,
        "coordinate_transformation_mode": op.coordinates.data.value,
        "nearest_mode": op.nearest.data.value if mode is nn.ResizeMode.NEAREST else None,
        "cubic_coeff_a": op.cubic_coeff.value.data if cubic else None,
        "exclude_outside": 1 if op.exclude_outside is not None else None,
    }
    resized = layer.node("Resize", *inputs, **attributes)
    return (
        resized if perm is None else layer.helper("Transpose", resized, perm=[perm.index(a) for a in range(len(perm))])
    )


def _resized_last(op: nn.ResizeOp) -> list[int] | None:
    """The permutation that puts resized axes last, if onnxruntime interpolates along these only.

    Its linear kernel takes ranks 2 and 3, of rank 4 the last two axes or the two in the middle, of rank 5 the last three; its
    cubic one the last two of rank 4.
    """
    rank = len(shape_of(op.input))
    if op.mode.data is nn.ResizeMode.NEAREST or rank < 4:
        return None
    moved = _resized_axes(op)
    most = 3 if rank == 5 and op.mode.data is nn.ResizeMode.LINEAR else 2
    between = rank == 4 and op.mode.data is nn.ResizeMode.LINEAR and set(moved) <= {1, 2}
    if between or len(moved) > most or all(a >= rank - most for a in moved):
        return None
    return [*(a for a in range(rank) if a not in moved), *moved]


def _resized_axes(op: nn.ResizeOp) -> list[int]:
    """The axes whose size may change."""
    if op.scales is not None:
        return [i for i, scale in enumerate(op.scales.data) if scale != 1]
    sizes = zip(nn.ints(op.sizes), shape_of(op.input), strict=True)
    return [i for i, (size, before) in enumerate(sizes) if size not in (0, before)]


def _permuted(numbers: Sequence[Any], perm: Sequence[int] | None) -> Sequence[Any]:
    return numbers if perm is None else [numbers[a] for a in perm]


def _sizes(op: nn.ResizeOp, perm: Sequence[int] | None, layer: OnnxLayer) -> str:
    """The sizes of the result; those of the input if it keeps unknown ones."""
    sizes = op.output_sizes(shape_of(op.input))
    if static(sizes):
        return layer.ints(_permuted(sizes, perm), "sizes")
    kept = layer.constant(np.array([not known(s) for s in sizes]), "kept")
    whole = layer.helper("Where", kept, layer.helper("Shape", op.input), layer.ints(nn.ints(op.sizes), "sizes"))
    return whole if perm is None else layer.helper("Gather", whole, layer.ints(perm, "order"))


@converter(nn.ShapeOp)
def shape(op: nn.ShapeOp, layer: OnnxLayer) -> str:
    """`start` and `end` came with opset 15; before, a Slice of the whole shape."""
    start = op.start.value.data or None
    end = None if op.end is None else op.end.value.data
    if start is None and end is None:
        return layer.node("Shape", op.input)
    if layer.opset >= 15:
        return layer.node("Shape", op.input, start=start, end=end)
    rank = len(shape_of(op.input))
    bounds = layer.ints([start or 0], "start"), layer.ints([rank if end is None else end], "end")
    return layer.helper("Slice", layer.node("Shape", op.input), *bounds)


@converter(*nn.kinds(nn.ReduceOp))
def reduction(op: nn.ReduceOp, layer: OnnxLayer) -> Written:
    """An empty list of axes reduces nothing in `nn`, and everything in ONNX."""
    axes = op.axis_list()
    if not axes:
        return layer.node("Identity", op.input)
    if isinstance(op, nn.ReduceMeanOp) and op.averages_space and is_between_integers(op.input, op.result, layer):
        return layer.node("GlobalAveragePool", op.input)  # onnxruntime has no integer kernel for ReduceMean
    return written_by_row(op, layer, op.operands, axes=axes)
