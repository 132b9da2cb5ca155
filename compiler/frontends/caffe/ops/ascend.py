"""AMCT's deploy form: Quant, AntiQuant and DeQuant layers, and layers on the integers between them, as operations of `ascend`.

The fake-quant form also has Quant and DeQuant layers, between floats: Quant rounds, and DeQuant changes nothing without shifts.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from ....dialects import ascend, nn
from ....dialects.ascend.base import i8
from ....dialects.ascend.convolution import full_rank
from ....dialects.nn.shapes import element_of, known, shape_of, size
from ....formats.deq_scale import unpack
from ...deployed import accumulator, check_finite, is_accumulator, quantizer_of, real, scales, shifts, zero_point
from ..node import ON_INTEGERS, Constant, Converted, Node, Unmapped, converter, enum_name, on_integers
from ..node import Converter as Convert
from .convolution import sizes_of
from .pooling import rounds_up
from .window import per_axis

Array = np.ndarray[Any, np.dtype[Any]]

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
    if (convert := ON_INTEGERS.get(node.op_type)) is not None:
        return convert
    if node.op_type not in MOVES:
        raise node.error("computes in float, and takes the result of a Quant layer")
    return None


@converter("Quant")
def quant(node: Node) -> Converted:
    """`scale` is the reciprocal, `offset` the zero point as a byte."""
    scale, offset = _parameters(node)
    if not node.shared.deployed:
        return _rounded(node, scale, int(offset))
    return node.emit(ascend.AscendQuantOp, real(node), scale=scale, offset=offset, origin=_origin(node)).y


@converter("AntiQuant")
def anti_quant(node: Node) -> Converted:
    """`(x - offset) * scale`; Ascend IR has the offset negated."""
    scale, offset = _parameters(node)
    if element_of(node.value(0)) != i8:
        raise node.error(f"takes the result of a Quant layer, not {node.dtype(0)}")
    return node.emit(ascend.AscendAntiQuantOp, node.value(0), scale=scale, offset=-offset, origin=_origin(node)).y


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
    scale, shift, weight_offset = unpack(blobs[0].numbers)
    if weight_offset.any():
        raise node.error("has a weight with an offset that is not 0")
    array = scales(node, x, scale)
    constant = node.sink.value(Constant(f"{node.layer.name}.scale", array.reshape(-1)))
    return node.emit(ascend.AscendDequantOp, x, constant, shift_n=shifts(node, shift), origin=_origin(node)).y


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


@on_integers("Convolution", "DepthwiseConvolution")
def convolution(node: Node) -> Converted:
    channels, outputs, groups, kernel = sizes_of(node)
    weight, bias = _integers(node, (outputs, channels // groups, *kernel), node.proto.convolution_param.bias_term)
    if (rank := len(kernel)) not in (2, 3):
        raise node.error(f"computes in int8 along {rank} axes, Ascend IR has convolutions of 2 and 3")
    kind, data_format = (ascend.Conv2DOp, "NCHW") if rank == 2 else (ascend.Conv3DOp, "NCDHW")
    x, (strides, pads, dilations) = node.value(0), _geometry(node)
    properties: dict[str, Any] = {
        "strides": full_rank(data_format, strides),
        "dilations": full_rank(data_format, dilations),
        "pads": pads,
        "data_format": data_format,
        "groups": groups,
    }
    return node.emit(kind, x, weight, bias, **properties, offset_x=zero_point(node, x)).y


@on_integers("Deconvolution")
def deconvolution(node: Node) -> Converted:
    channels, outputs, groups, kernel = sizes_of(node)
    weight, bias = _integers(node, (channels, outputs // groups, *kernel), node.proto.convolution_param.bias_term)
    if len(kernel) != 2:
        raise node.error(f"computes in int8 along {len(kernel)} axes, Ascend IR's Deconvolution has 2")
    x, (strides, pads, dilations) = node.value(0), _geometry(node)
    properties = {"strides": strides, "pads": pads, "dilations": full_rank("NCHW", dilations), "groups": groups}
    return node.emit(ascend.DeconvolutionOp, x, weight, bias, **properties, offset_x=zero_point(node, x)).y


@on_integers("InnerProduct")
def inner_product(node: Node) -> Converted:
    """FullyConnection along axis 1 or 2; a product of matrices along a later axis, which must be the last."""
    p, x = node.proto.inner_product_param, node.value(0)
    axis, rank = node.axis(p.axis), len(node.shape(0))
    columns = size(node.shape(0)[axis:])
    if not known(columns):
        raise node.error("needs to know the sizes of its input, which its weights depend on")
    shape = (columns, p.num_output) if p.transpose else (p.num_output, columns)
    weight, bias = _integers(node, shape, p.bias_term)
    offset = zero_point(node, x)
    if axis in (1, 2):
        properties = {"num_output": p.num_output, "axis": axis, "transpose": p.transpose, "offset_x": offset}
        return node.emit(ascend.FullyConnectionOp, x, weight, bias, **properties).y
    if axis != rank - 1:
        raise node.error(f"computes in int8 from axis {axis} on, which is neither 1 nor 2 nor the last")
    return node.emit(ascend.BatchMatMulV2Op, x, weight, bias, adj_x2=not p.transpose, offset_x=offset).y


@on_integers("Pooling")
def pooling(node: Node) -> Converted:
    """The sum of each window; DeQuant divides by the count."""
    p, x = node.proto.pooling_param, node.value(0)
    if node.tops != 1 or enum_name(p, "pool") != "AVE" or len(shape_of(x)) != 4:
        raise node.error("computes in int8, but is not an average over windows of two axes")
    if p.global_pooling:
        return node.emit(ascend.PoolingOp, x, mode=1, global_pooling=True, offset_x=zero_point(node, x)).y
    pad = per_axis(node, p, "pad", 2, 0)
    return node.emit(
        ascend.PoolingOp,
        x,
        mode=1,
        window=per_axis(node, p, "kernel_size", 2),
        stride=per_axis(node, p, "stride", 2, 1),
        pad=[pad[0], pad[0], pad[1], pad[1]],
        ceil_mode=int(not rounds_up(node, p)),
        offset_x=zero_point(node, x),
    ).y


def _geometry(node: Node) -> tuple[list[int], list[int], list[int]]:
    """strides; pads, begin and end side by side; dilations."""
    p, rank = node.proto.convolution_param, len(node.shape(0)) - 2
    strides, pads = per_axis(node, p, "stride", rank, 1), per_axis(node, p, "pad", rank, 0)
    return strides, [each for pad in pads for each in (pad, pad)], per_axis(node, p, "dilation", rank, 1)


def _integers(node: Node, weight: tuple[int, ...], biased: bool) -> tuple[SSAValue, SSAValue | None]:
    """An int8 weight of this shape, and an int32 bias."""
    outputs = {"bias": (_outputs(node),)} if biased else {}
    found = node.parameters(weight=weight, **outputs)
    for constant, (what, dtype) in zip(found, (("weight", "int8"), ("bias", "int32")), strict=False):
        if constant.array.dtype.name != dtype:
            raise node.error(f"has int8 data and a {what} of {constant.array.dtype}, but it must be {dtype}")
    values = [node.sink.value(c) for c in found]
    return values[0], values[1] if biased else None


def _outputs(node: Node) -> int:
    p = node.proto
    return (p.inner_product_param if node.op_type == "InnerProduct" else p.convolution_param).num_output


def _origin(node: Node) -> nn.OriginAttr:
    """The origin without attributes, which are all properties of the operation."""
    return nn.OriginAttr.of("caffe", node.op_type, node.layer.name)
