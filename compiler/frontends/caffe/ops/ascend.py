"""AMCT's deploy form: Quant, AntiQuant and DeQuant layers, and layers on the integers between them, as operations of `ascend`.

The fake-quant form also has Quant and DeQuant layers, between floats: Quant rounds, and DeQuant changes nothing without shifts.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from ....dialects import ascend, nn
from ....dialects.ascend.base import i8
from ....dialects.nn.shapes import element_of
from ...deployed import (
    Kind,
    accumulator,
    check_finite,
    dequantized,
    is_accumulator,
    on_integers,
    origin_of,
    quantizer_of,
    real,
    shifts,
)
from ..node import CONVERTERS, Converted, Converter as Convert, Node, Unmapped, converter, enum_name

Array = np.ndarray[Any, np.dtype[Any]]

LAYERS: Mapping[str, Kind] = {
    "Convolution": ascend.Conv2DOp,
    "Deconvolution": ascend.DeconvolutionOp,
    "DepthwiseConvolution": ascend.Conv2DOp,
    "InnerProduct": ascend.FullyConnectionOp,
    "Pooling": ascend.PoolingOp,
}
"""Operations on integers by layer type: with int8 weights and an int32 bias, giving int32."""

MOVES = frozenset({"Concat", "Flatten", "Permute", "Reshape", "Silence", "Slice", "Split", "AntiQuant"})
"""Layers that pass integers on unchanged."""


def converter_on_integers(node: Node) -> Convert | None:
    """The function that converts a layer on the result of a Quant layer; None for other layers.

    Raises CompileError for a layer that cannot read integers, and if a layer other than DeQuant reads accumulators.
    """
    values = [v for v in node.inputs if isinstance(v, SSAValue)]
    if any(is_accumulator(v) for v in values):
        if node.op_type != "DeQuant":
            raise node.error("takes the int32 result of a layer on integers, DeQuant must follow")
        return None
    if not any(element_of(v) == i8 and quantizer_of(v) is not None for v in values):
        return None
    if node.op_type == "Pooling" and enum_name(node.proto.pooling_param, "pool") == "MAX":
        return None
    if (kind := LAYERS.get(node.op_type)) is not None:
        return on_integers(CONVERTERS[node.op_type].convert, kind)
    if node.op_type not in MOVES:
        raise node.error("computes in float, and takes the result of a Quant layer")
    return None


@converter("Quant")
def quant(node: Node) -> Converted:
    """`scale` is the reciprocal, `offset` the zero point as a byte."""
    scale, offset = _parameters(node)
    if not node.shared.deployed:
        return _rounded(node, scale, int(offset))
    return node.emit(ascend.AscendQuantOp, real(node), scale=scale, offset=offset, origin=origin_of(node)).y


@converter("AntiQuant")
def anti_quant(node: Node) -> Converted:
    """`(x - offset) * scale`; Ascend IR has the offset negated."""
    scale, offset = _parameters(node)
    if element_of(node.value(0)) != i8:
        raise node.error(f"takes the result of a Quant layer, not {node.dtype(0)}")
    return node.emit(ascend.AscendAntiQuantOp, node.value(0), scale=scale, offset=-offset, origin=origin_of(node)).y


@converter("DeQuant")
def dequant(node: Node) -> Converted:
    """The scales and shifts: one blob of 64-bit integers with shifts above scales; three float blobs in the fake-quant form."""
    blobs = node.blobs or []
    if not node.shared.deployed:
        if len(blobs) != 3 or blobs[2].numbers.any():
            raise Unmapped("it is in the fake-quant form and needs scales, shifts and weight offsets, the last 0")
        return _shifted(node, *(blob.numbers.reshape(-1) for blob in blobs[:2]))
    x = accumulator(node)
    if len(blobs) != 1 or blobs[0].numbers.dtype != np.uint64:
        raise node.error(f"has {len(blobs)} blobs, but it needs one of 64-bit integers")
    return dequantized(node, x, blobs[0].numbers)


def _rounded(node: Node, reciprocal: float, zero_point: int) -> Converted:
    """Rounds floats to the grid of int8."""
    with np.errstate(divide="ignore", over="ignore"):
        scale = float(np.float32(1) / np.float32(reciprocal))
    if not (scale > 0 and isfinite(scale)):
        raise node.error(f"has the scale {reciprocal}, its reciprocal must be positive and finite")
    qparams = nn.QParamsAttr.of(i8, scale, zero_point, None, f"{node.layer.name}.scale")
    integers = node.emit(nn.QuantizeOp, real(node), qparams=qparams, source="user").result
    return node.emit(nn.DequantizeOp, integers, qparams=qparams).result


def _shifted(node: Node, scale: Array, shift: Array) -> Converted:
    """Rounds floats like shifted sums of 16 bits; unchanged if no shift is set."""
    if (bits := shifts(node, shift)) is None:
        return node.value(0)
    if not (np.all((scale > 0) & np.isfinite(scale)) and scale.size == shift.size):
        raise node.error("needs positive and finite scales, as many as shifts")
    qparams = nn.QParamsAttr.of(i32, scale, 0, 1 if scale.size > 1 else None, f"{node.layer.name}.scale")
    return node.emit(nn.ShiftAccumulatorOp, real(node), qparams=qparams, shifts=bits).result


def _parameters(node: Node) -> tuple[float, float]:
    """Scale and zero point."""
    p = node.proto.quant_param
    if not p.HasField("scale"):
        raise node.error("has no scale")
    if len(p.offset) > 1:
        raise node.error(f"has an offset of {len(p.offset)} bytes, but it needs one")
    return check_finite(node, "scale", p.scale), float(int.from_bytes(p.offset, "big", signed=True))
