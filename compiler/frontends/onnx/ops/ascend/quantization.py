"""Converts Ascend's own operators, which AMCT writes for ATC (ops-nn, ONNX plugins)."""

from __future__ import annotations

import numpy as np
from onnx import AttributeProto

from .....dialects import ascend
from .....dialects.ascend.base import i4, i8
from .....dialects.nn.shapes import element_of
from .....formats.deq_scale import unpack_requant
from .....formats.onnx.packing import unpacked_words
from .....ir.dtypes import integer_range, numpy_dtype
from .....ir.precision import PRECISION_MODES
from ....deployed import (
    accumulator,
    attribute_number,
    check_offset,
    dequantized,
    origin_of,
    parameter,
    real,
    scales,
    weight_quant,
    without_added_axis,
)
from ...node import Converted, Node, converter

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
    scale, offset = attribute_number(node, "scale"), _offset(node)
    made = node.emit(
        ascend.AscendQuantOp,
        real(node),
        scale=scale,
        offset=offset,
        dst_type=_TYPES[name],
        round_mode=node.text("round_mode", "Round"),
        sqrt_mode=bool(node.int("sqrt_mode", 0)),
        fakequant_precision_mode=_precision(node),
        origin=origin_of(node),
    )
    check_offset(node, offset, *integer_range(made.storage))
    return made.y


@converter("AscendAntiQuant")
def anti_quant(node: Node) -> Converted:
    """Converts AntiQuant, whose zero point is negated in Ascend IR."""
    if element_of(node.value(0)) != i8:
        raise node.error(f"takes int8, not {node.dtype(0)}")
    offset = attribute_number(node, "offset")
    check_offset(node, offset, -128, 127)
    return node.emit(
        ascend.AscendAntiQuantOp,
        node.value(0),
        scale=attribute_number(node, "scale"),
        offset=0.0 - offset,
        dtype=node.int("dtype", 0),
        sqrt_mode=bool(node.int("sqrt_mode", 0)),
        origin=origin_of(node),
    ).y


@converter("AscendDequant")
def dequant(node: Node) -> Converted:
    return dequantized(
        node,
        accumulator(node),
        parameter(node),
        dtype=node.int("dtype", 0),
        sqrt_mode=bool(node.int("sqrt_mode", 0)),
        relu_flag=bool(node.int("relu_flag", 0)),
        fakequant_precision_mode=_precision(node),
    )


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
        scales(node, x, scale),
        offset=int(offsets[0]),
        relu_flag=bool(node.int("relu_flag", 0)),
        origin=origin_of(node),
    ).y
    return without_added_axis(node, x, y)


converter("AscendWeightQuant")(weight_quant)


@converter("WeightQuantBatchMatmulV2", "NPUWeightQuantBatchMatmulV2", domains=("npu",))
@converter("NPUWeightQuantBatchMatmulV2")
def weight_only_product(node: Node) -> Converted:
    """A product of float16 with integers, int8 or packed int4; an output in integers, which needs a quant_scale, is not read."""
    weight, scale = node.known(1), node.known(2)
    if _given(node, 4) or _given(node, 5):
        raise node.error("gives integers (quant_scale), which is not supported")
    if weight.dtype.name not in ("int8", "int32") or weight.ndim != 2 or scale.dtype.name != "float16":
        raise node.error(f"has a weight of {weight.dtype}{list(weight.shape)} and scales of {scale.dtype}")
    four = weight.dtype.name == "int32"
    integers = unpacked_words(weight).astype(numpy_dtype(i4)) if four else weight
    offset = node.known(3) if _given(node, 3) else np.zeros_like(scale)
    return node.emit(
        ascend.WeightQuantBatchMatmulV2Op,
        node.value(0),
        node.constant(integers, ".weight"),
        node.constant(scale, ".antiquant_scale"),
        node.constant(offset, ".antiquant_offset"),
        node.value(6) if _given(node, 6) else None,
        antiquant_group_size=node.int("antiquant_group_size", 0),
        origin=origin_of(node),
    ).y


def _given(node: Node, index: int) -> bool:
    """Whether an optional input is given: an empty tensor means that it is not."""
    return node.has(index) and 0 not in node.shape(index)


def _precision(node: Node) -> str:
    return node.choice("fakequant_precision_mode", PRECISION_MODES[0], PRECISION_MODES)


def _offset(node: Node) -> float:
    """The offset; an integer in msmodelslim's files."""
    attribute = node.attributes.get("offset")
    if attribute is not None and attribute.type == AttributeProto.INT:
        return float(node.int("offset", 0))
    return attribute_number(node, "offset")
