"""Picking, joining and cutting."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import TensorProto
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from ...dialects import ascend
from ...dialects.nn import constant_ints
from ...dialects.nn.shapes import axis_of, element_of, known, shape_of
from ..onnx.layer import OnnxLayer, Operand
from ..onnx.rows import unsqueezed, with_list
from .elementwise import reshaped
from .table import converter

_END = 2**63 - 1
"""An end beyond every size, for Slice."""


@converter(ascend.GatherOp)
def gather(op: ascend.GatherOp, layer: OnnxLayer) -> str:
    return layer.node("Gather", op.x, op.indices, axis=0)


@converter(ascend.GatherNdOp)
def gather_nd(op: ascend.GatherNdOp, layer: OnnxLayer) -> str:
    return layer.node("GatherND", op.x, _int64(op.indices, layer))


def _int64(value: SSAValue, layer: OnnxLayer) -> Operand:
    return value if element_of(value) == i64 else layer.helper("Cast", value, to=TensorProto.INT64)


@converter(ascend.TileOp)
def tile(op: ascend.TileOp, layer: OnnxLayer) -> str:
    multiples = _int64(op.multiples, layer) if op.counts is None else layer.ints(op.counts, "multiples")
    return layer.node("Tile", op.x, multiples)


@converter(ascend.PackOp)
def pack(op: ascend.PackOp, layer: OnnxLayer) -> str:
    parts = [unsqueezed(x, [op.new_axis], layer) for x in op.x]
    return layer.node("Concat", *parts, axis=op.new_axis)


@converter(ascend.UnpackOp)
def unpack(op: ascend.UnpackOp, layer: OnnxLayer) -> Sequence[str]:
    axis, count = axis_of(op.axis.value.data, len(shape_of(op.x))), op.num.value.data
    parts = _parts(op.x, axis, [1] * count, layer)
    return [layer.emit(*with_list("Squeeze", part, [axis], layer), f"{layer.label}/Squeeze")[0] for part in parts]


@converter(ascend.SplitOp)
def split(op: ascend.SplitOp, layer: OnnxLayer) -> Sequence[str]:
    axis, count = op.split_axis, op.num_split.value.data
    if not known(size := shape_of(op.x)[axis]):
        raise layer.error("cuts an axis of unknown size into equal parts")
    return _parts(op.x, axis, [size // count] * count, layer)


def _parts(x: SSAValue, axis: int, sizes: Sequence[int], layer: OnnxLayer) -> list[str]:
    op_type, inputs, attributes = with_list("Split", x, sizes, layer)
    return layer.emit(op_type, inputs, {**attributes, "axis": axis}, layer.label, outputs=len(sizes))


@converter(ascend.SliceOp)
def slice_(op: ascend.SliceOp, layer: OnnxLayer) -> str:
    slices = op.slices()
    starts = layer.ints([s.start for s in slices], "starts")
    ends = layer.ints([_END if s.stop is None else s.stop for s in slices], "ends")
    return layer.node("Slice", op.x, starts, ends)


@converter(ascend.FillOp)
def fill(op: ascend.FillOp, layer: OnnxLayer) -> str:
    listed = constant_ints(op.dims)
    dims = _int64(op.dims, layer) if listed is None else layer.ints(listed, "dims")
    return layer.node("Expand", reshaped(op.value, (), layer, "value"), dims)


@converter(ascend.RangeOp)
def range_(op: ascend.RangeOp, layer: OnnxLayer) -> str:
    return layer.node("Range", op.start, op.limit, op.delta)


@converter(ascend.ShapeOp)
def shape(op: ascend.ShapeOp, layer: OnnxLayer) -> str:
    return _as_index(layer.node("Shape", op.x), op.y, layer)


@converter(ascend.ArgMaxV2Op)
def arg_max(op: ascend.ArgMaxV2Op, layer: OnnxLayer) -> str:
    return _as_index(layer.node("ArgMax", op.x, axis=op.searched_axis, keepdims=0), op.y, layer)


@converter(ascend.ArgMinOp)
def arg_min(op: ascend.ArgMinOp, layer: OnnxLayer) -> str:
    return _as_index(layer.node("ArgMin", op.x, axis=op.searched_axis, keepdims=0), op.y, layer)


def _as_index(indices: str, result: SSAValue, layer: OnnxLayer) -> str:
    """Casts indices, which are int64 in ONNX."""
    return indices if element_of(result) != i32 else layer.helper("Cast", indices, to=TensorProto.INT32)
