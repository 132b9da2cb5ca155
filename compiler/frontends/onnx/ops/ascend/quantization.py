"""Ascend's own operators, as AMCT writes them for ATC (ops-nn, ONNX plugins)."""

from __future__ import annotations

from onnx import AttributeProto
from xdsl.ir import SSAValue

from .....dialects import ascend, nn
from .....dialects.ascend.base import i8
from .....dialects.nn.shapes import element_of, shape_of
from .....formats.deq_scale import unpack, unpack_requant
from .....formats.onnx.tensors import Array
from .....ir.dtypes import integer_range
from .....ir.precision import PRECISION_MODES
from ....deployed import (
    accumulator,
    check_finite,
    check_offset,
    constant,
    parameter,
    producer,
    real,
    scales,
    shifts,
    without_added_axis,
)
from ...node import Constant, Converted, Node, converter

_TYPES = {"INT8": 2, "INT16": 6, "INT4": 29}
"""dst_type: a name in ONNX, a number in Ascend IR."""


@converter("AscendQuant")
def quant(node: Node) -> Converted:
    """`scale` is the reciprocal, `offset` the zero point, in both formats. msmodelslim writes `quant_bit` instead of dst_type."""
    if (bits := node.int("quant_bit", 8)) != 8:
        raise node.error(f"has quant_bit = {bits}, which the interpreter does not have", hint="known is 8")
    name = node.text("dst_type", "INT8")
    if name not in _TYPES:
        raise node.error(f"gives {name}, which the interpreter does not have", hint=f"known are {', '.join(_TYPES)}")
    scale, offset = _number(node, "scale"), _offset(node)
    made = node.emit(
        ascend.AscendQuantOp,
        real(node),
        scale=scale,
        offset=offset,
        dst_type=_TYPES[name],
        round_mode=node.text("round_mode", "Round"),
        sqrt_mode=bool(node.int("sqrt_mode", 0)),
        fakequant_precision_mode=_precision(node),
        origin=_origin(node),
    )
    check_offset(node, offset, *integer_range(made.storage))
    return made.y


@converter("AscendAntiQuant")
def anti_quant(node: Node) -> Converted:
    """In Ascend IR the zero point is negated."""
    if element_of(node.value(0)) != i8:
        raise node.error(f"takes int8, not {node.dtype(0)}")
    offset = _number(node, "offset")
    check_offset(node, offset, -128, 127)
    return node.emit(
        ascend.AscendAntiQuantOp,
        node.value(0),
        scale=_number(node, "scale"),
        offset=0.0 - offset,
        dtype=node.int("dtype", 0),
        sqrt_mode=bool(node.int("sqrt_mode", 0)),
        origin=_origin(node),
    ).y


@converter("AscendDequant")
def dequant(node: Node) -> Converted:
    """The scales and shifts are unpacked."""
    x = accumulator(node)
    scale, shift, weight_offset = unpack(parameter(node))
    if weight_offset.any():
        raise node.error("has a weight with an offset that is not 0")
    y = node.emit(
        ascend.AscendDequantOp,
        x,
        _scales(node, x, scale),
        shift_n=shifts(node, shift),
        dtype=node.int("dtype", 0),
        sqrt_mode=bool(node.int("sqrt_mode", 0)),
        relu_flag=bool(node.int("relu_flag", 0)),
        fakequant_precision_mode=_precision(node),
        origin=_origin(node),
    ).y
    return without_added_axis(node, x, y)


@converter("AscendRequant")
def requant(node: Node) -> Converted:
    """Scales and offset are unpacked; all channels have the same offset."""
    x = accumulator(node)
    scale, offsets = unpack_requant(parameter(node))
    if (offsets != offsets[0]).any():
        raise node.error("has a different offset for each channel")
    y = node.emit(
        ascend.AscendRequantOp,
        x,
        _scales(node, x, scale),
        offset=int(offsets[0]),
        relu_flag=bool(node.int("relu_flag", 0)),
        origin=_origin(node),
    ).y
    return without_added_axis(node, x, y)


@converter("AscendWeightQuant")
def weight_quant(node: Node) -> Converted:
    """The weight itself if the offsets are 0, as in every model that AMCT quantizes with activations."""
    constant(node, 0, "weight", "int8")
    if not constant(node, 1, "offset", "int8").any():
        return node.binding(0)
    return node.emit(ascend.AscendWeightQuantOp, node.value(0), node.value(1), origin=_origin(node)).y


def _precision(node: Node) -> str:
    return node.choice("fakequant_precision_mode", PRECISION_MODES[0], PRECISION_MODES)


def _origin(node: Node) -> nn.OriginAttr:
    """The origin without attributes, which are all properties of the operation."""
    return nn.OriginAttr.of("onnx", node.op_type, node.layer.name)


def _scales(node: Node, x: SSAValue, scale: Array) -> SSAValue:
    """The scales of an accumulator as a constant."""
    array = scales(node, x, scale)
    return node.sink.value(Constant(f"{node.layer.name}.scale", array.reshape(_scale_shape(x, array))))


def _scale_shape(x: SSAValue, scale: Array) -> tuple[int, ...]:
    """The shape of scales; those of a batched product need full rank, because a vector means axis 1 to Ascend."""
    rank = len(shape_of(x))
    columns = isinstance(producer(x), ascend.MatrixOp) and rank > 2 and scale.size > 1
    return (1,) * (rank - 1) + (-1,) if columns else (-1,)


def _number(node: Node, name: str) -> float:
    if name not in node.attributes:
        raise node.error(f"has no attribute '{name}'")
    return check_finite(node, name, node.float(name, 0.0))


def _offset(node: Node) -> float:
    """The offset; an integer in msmodelslim's files."""
    attribute = node.attributes.get("offset")
    if attribute is not None and attribute.type == AttributeProto.INT:
        return float(node.int("offset", 0))
    return _number(node, "offset")
