"""Ascend's own operators, with the attributes that Huawei's TensorFlow adapter registers."""

from __future__ import annotations

from xdsl.ir import SSAValue

from .....dialects import ascend, nn
from .....dialects.ascend.base import i8
from .....dialects.nn.shapes import element_of, shape_of
from .....formats.deq_scale import Array, unpack
from .....ir.precision import PRECISION_MODES
from ....deployed import (
    accumulator,
    check_finite,
    check_offset,
    constant,
    parameter,
    producer,
    quantizer_of,
    real,
    scales,
    shifts,
)
from ...node import Constant, Converted, Node, converter

_FLOATS = {"float32": 0, "float16": 1}
"""T, and its dtype in Ascend IR."""


@converter("AscendQuant")
def quant(node: Node) -> Converted:
    """`scale` is the reciprocal, `offset` the zero point, as in Ascend IR."""
    _check_int8(node)
    if (bits := node.int("quant_bits", 8)) != 8:
        raise node.error(f"has quant_bits = {bits}, the interpreter has 8")
    scale, offset = _number(node, "scale"), _number(node, "offset")
    check_offset(node, offset, -128, 127)
    mode = _precision(node)
    return node.emit(
        ascend.AscendQuantOp,
        real(node),
        scale=scale,
        offset=offset,
        fakequant_precision_mode=mode,
        origin=_origin(node),
    ).y


@converter("AscendAntiQuant")
def anti_quant(node: Node) -> Converted:
    """`offset` is the negated zero point, as in Ascend IR, and must be that of the integers."""
    if element_of(node.value(0)) != i8:
        raise node.error(f"takes the result of AscendQuant, not {node.dtype(0)}")
    offset, quantizer = _number(node, "offset"), quantizer_of(node.value(0))
    if quantizer is not None and quantizer.offset.value.data != -offset:
        zero = quantizer.offset.value.data
        raise node.error(f"has the offset {offset:g}, its integers have the zero point {zero:g}")
    check_offset(node, -offset, -128, 127)
    properties = {"scale": _number(node, "scale"), "offset": offset, "dtype": _float_type(node)}
    return node.emit(ascend.AscendAntiQuantOp, node.value(0), **properties, origin=_origin(node)).y


@converter("AscendWeightQuant")
def weight_quant(node: Node) -> Converted:
    """The weight itself if the offsets are 0, as in every model that AMCT quantizes with activations."""
    _check_int8(node)
    constant(node, 0, "weight", "int8")
    if not constant(node, 1, "offset", "int8").any():
        return node.binding(0)
    return node.emit(ascend.AscendWeightQuantOp, node.value(0), node.value(1), origin=_origin(node)).y


@converter("AscendDequant")
def dequant(node: Node) -> Converted:
    """The scales and shifts are unpacked; `ksize` repeats the window of a pool, whose mean they scale."""
    x = accumulator(node)
    scale, shift, weight_offset = unpack(parameter(node))
    if weight_offset.any():
        raise node.error("has a weight with an offset that is not 0")
    window = _window(x)
    if (given := node.ints("ksize") or [1, 1]) != window:
        raise node.error(f"has ksize {given}, the layer before it has a window of {window}")
    return node.emit(
        ascend.AscendDequantOp,
        x,
        _scales(node, x, scale),
        shift_n=shifts(node, shift),
        dtype=_float_type(node),
        fakequant_precision_mode=_precision(node),
        origin=_origin(node),
    ).y


def _window(x: SSAValue) -> list[int]:
    pool = producer(x)
    return [*pool.kernel(pool.spatial(shape_of(pool.x)))] if isinstance(pool, ascend.AveragingOp) else [1, 1]


def _scales(node: Node, x: SSAValue, scale: Array) -> SSAValue:
    """As a constant; a vector means axis 1 to Ascend IR, so that scales of the last one are of full rank."""
    array, rank = scales(node, x, scale), len(shape_of(x))
    axis = 1 if node.layout == "nchw" and not isinstance(producer(x), ascend.MatrixOp) else rank - 1
    full = array.size > 1 and axis != 1
    shape = (1,) * (rank - 1) + (-1,) if full else (-1,)
    return node.sink.value(Constant(f"{node.layer.name}.scale", array.reshape(shape)))


def _check_int8(node: Node) -> None:
    if (name := node.text("dst_type", "INT8")) != "INT8":
        raise node.error(f"gives {name}, which the interpreter does not have", hint="known is INT8")


def _precision(node: Node) -> str:
    return node.choice("_fakequant_precision_mode", PRECISION_MODES[0], PRECISION_MODES)


def _float_type(node: Node) -> int:
    name = node.type("T").name if "T" in node.attributes else "float32"
    if name not in _FLOATS:
        raise node.error(f"gives {name}, not {' or '.join(_FLOATS)}")
    return _FLOATS[name]


def _number(node: Node, name: str) -> float:
    if name not in node.attributes:
        raise node.error(f"has no attribute '{name}'")
    return check_finite(node, name, node.float(name, 0.0))


def _origin(node: Node) -> nn.OriginAttr:
    """The origin without attributes, which are all properties of the operation."""
    return nn.OriginAttr.of("tensorflow", node.op_type, node.layer.name)
