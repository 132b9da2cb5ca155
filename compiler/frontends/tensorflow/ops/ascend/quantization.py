"""Ascend's own operators, with the attributes that Huawei's TensorFlow adapter registers."""

from __future__ import annotations

from .....dialects import ascend
from .....dialects.ascend.base import i8
from .....dialects.nn.shapes import element_of, shape_of
from .....ir.functions import producer_of
from .....ir.precision import PRECISION_MODES
from ....deployed import (
    accumulator,
    attribute_number,
    check_offset,
    dequantized,
    origin_of,
    parameter,
    quantizer_of,
    real,
    weight_quant,
)
from ...node import Converted, Node, converter

_FLOATS = {"float32": 0, "float16": 1}
"""T, and its dtype in Ascend IR."""


@converter("AscendQuant")
def quant(node: Node) -> Converted:
    """`scale` is the reciprocal, `offset` the zero point, as in Ascend IR."""
    _check_int8(node)
    if (bits := node.int("quant_bits", 8)) != 8:
        raise node.error(f"has quant_bits = {bits}, the interpreter has 8")
    scale, offset = attribute_number(node, "scale"), attribute_number(node, "offset")
    check_offset(node, offset, -128, 127)
    mode = _precision(node)
    return node.emit(
        ascend.AscendQuantOp,
        real(node),
        scale=scale,
        offset=offset,
        fakequant_precision_mode=mode,
        origin=origin_of(node),
    ).y


@converter("AscendAntiQuant")
def anti_quant(node: Node) -> Converted:
    """`offset` is the negated zero point, as in Ascend IR, and must be that of the integers."""
    if element_of(node.value(0)) != i8:
        raise node.error(f"takes the result of AscendQuant, not {node.dtype(0)}")
    offset, quantizer = attribute_number(node, "offset"), quantizer_of(node.value(0))
    if quantizer is not None and quantizer.offset.value.data != -offset:
        zero = quantizer.offset.value.data
        raise node.error(f"has the offset {offset:g}, its integers have the zero point {zero:g}")
    check_offset(node, -offset, -128, 127)
    properties = {"scale": attribute_number(node, "scale"), "offset": offset, "dtype": _float_type(node)}
    return node.emit(ascend.AscendAntiQuantOp, node.value(0), **properties, origin=origin_of(node)).y


@converter("AscendWeightQuant")
def weight(node: Node) -> Converted:
    _check_int8(node)
    return weight_quant(node)


@converter("AscendDequant")
def dequant(node: Node) -> Converted:
    """`ksize` repeats the window of a pool, whose mean the scales are for."""
    pool, window = producer_of(x := accumulator(node)), [1, 1]
    if isinstance(pool, ascend.AveragingOp):
        window = [*pool.kernel(pool.spatial(shape_of(pool.x)))]
    if (given := node.ints("ksize") or [1, 1]) != window:
        raise node.error(f"has ksize {given}, the layer before it has a window of {window}")
    _, mode = node.layout, _precision(node)  # the layer before it has the axis of channels; unknown formats are errors
    return dequantized(node, x, parameter(node), dtype=_float_type(node), fakequant_precision_mode=mode)


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
