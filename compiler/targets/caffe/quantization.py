"""The quantized forms: AMCT's fake-quant model and deploy model.

Both have a Quant layer before each layer that computes in integers, and a DeQuant layer after it. In the fake-quant model
they are between floats: Quant rounds to integers and back, weights are those that integers stand for, DeQuant changes
nothing unless it has shifts: then it cuts accumulators to 16 bits. In the deploy model the numbers between them are
integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i8
from xdsl.ir import Operation, OpResult, SSAValue

from ...dialects import nn
from ...dialects.nn.shapes import shape_of
from ...formats.deq_scale import pack
from ...lowering.ascend.convolution import output_axis
from ...lowering.ascend.linear import columns
from ...lowering.ascend.pooling import window_count
from ...lowering.ascend.quantized import MatrixEngine, SymmetricWeight, products, scale_of
from ...lowering.refusal import NotLowered, require
from ...rewriting import condition
from ...transforms.quantization.decide.sites import shift_of
from ..graph import source
from .layer import CaffeLayer, Written, constant_array, converter
from .net import Array, Net

HINT = "-t 'caffe{form=fake-quant}' and -t 'caffe{form=deploy}' write quantized modules"


@dataclass(frozen=True)
class Integers:
    """The integer form of an operation."""

    quantize: nn.QuantizeOp
    scales: Array
    """The factor of an accumulator, float32 `[1]` or `[channels]`."""
    weight: Array | None = None
    bias: Array | None = None
    shifts: tuple[int, ...] = (0,)
    """The right shift of accumulators: one number, or one for each scale."""


class _InLayers(MatrixEngine[nn.ConvolutionOp | nn.MatMulOp], SymmetricWeight[nn.ConvolutionOp | nn.MatMulOp]):
    """A convolution or matrix product in AMCT's layers: a Quant layer, the layer, and a DeQuant layer."""

    roots = (nn.ConvolutionOp, nn.MatMulOp)

    @condition
    def spatial_rank(self, op: nn.ConvolutionOp | nn.MatMulOp) -> str | None:
        """Ascend IR has an operation of int8 with as many spatial axes"""
        if not isinstance(op, nn.ConvolutionOp):
            return None
        ranks = (2,) if isinstance(op, nn.ConvTransposeOp) else (2, 3)
        wrong = f"Ascend IR has no operator of this type in int8 along {op.spatial_rank} axes"
        return None if op.spatial_rank in ranks else wrong

    @condition
    def dequant_scales(self, op: nn.ConvolutionOp | nn.MatMulOp) -> str | None:
        """scales per channel are those of axis 1 of a blob of rank 4"""
        planar = isinstance(op, nn.ConvolutionOp) and len(shape_of(op.result)) == 4
        whole = not scale_of(source(op.operands[1])).ndim
        return None if whole or planar else "DeQuant has scales along axis 1 of a blob of rank 4 only"

    @condition
    def quantized_bias(self, op: nn.ConvolutionOp | nn.MatMulOp) -> str | None:
        """a bias is quantized"""
        return None if op.bias is None or self.bias(op) is not None else "its bias is not quantized"

    def weights(self, op: nn.ConvolutionOp | nn.MatMulOp) -> Sequence[SSAValue]:
        return (source(op.operands[1]),)

    def channels(self, op: nn.ConvolutionOp | nn.MatMulOp) -> int | None:
        return columns(op) if isinstance(op, nn.MatMulOp) else output_axis(op)

    def scales(self, op: nn.ConvolutionOp | nn.MatMulOp) -> Array:
        return products(scale_of(source(op.operands[0])), scale_of(source(op.operands[1])))

    def bias(self, op: nn.ConvolutionOp | nn.MatMulOp) -> nn.DequantizeOp | None:
        return None if op.bias is None else nn.dequantize_of(source(op.bias))


_IN_LAYERS = _InLayers()


def integers_of(op: Operation) -> Integers | None:
    """The integers of the operands of an operation in integers; None if its input is not quantized.

    Raises NotLowered for one that AMCT's layers cannot compute in integers.
    """
    if not isinstance(op, nn.ConvolutionOp | nn.MatMulOp | nn.AveragePoolOp):
        return None
    dequantize = nn.dequantize_of(source(op.operands[0]))
    if dequantize is None or not isinstance(dequantize.input, OpResult):
        return None
    quantize = dequantize.input.op
    if not isinstance(quantize, nn.QuantizeOp) or quantize.qparams != dequantize.qparams:
        return None
    if isinstance(op, nn.AveragePoolOp):
        alike = window_count(op) is not None
        require(alike, "constant-count", "its windows do not all count the same number of elements")
        return Integers(quantize, np.float32(dequantize.qparams.data.scales()).reshape(1))
    if (refusal := _IN_LAYERS.refusal(op)) is not None:
        raise NotLowered(*refusal)
    weight, bias = nn.dequantize_of(source(op.operands[1])), _IN_LAYERS.bias(op)
    assert weight is not None
    integers = None if bias is None else nn.array_of(bias.input)
    stored = nn.array_of(weight.input)
    assert stored is not None
    shifts = (0,) if (shift := shift_of(op)) is None else shift.shift_list
    scales = _IN_LAYERS.scales(op).reshape(-1)
    return Integers(quantize, scales, stored.astype(np.int8, copy=False), integers, shifts)


def _in_integers(op: Operation) -> bool:
    try:
        return integers_of(op) is not None
    except NotLowered:
        return False


def integers_in(op: Operation, layer: CaffeLayer) -> Integers | None:
    """Like `integers_of`; an operation that cannot compute in integers computes in float, with a remark."""
    if layer.net.form == "float":
        return None
    try:
        return integers_of(op)
    except NotLowered as e:
        layer.note("float", f"computes in float: {e.reason}")
        return None


def compute(
    op: nn.ConvolutionOp | nn.MatMulOp,
    layer: CaffeLayer,
    kind: str,
    message: str,
    parameters: dict[str, object],
    arrange: Callable[[Array], Array],
) -> str:
    """A layer with a weight and maybe a bias, its parameters in `message`; `arrange` gives a weight Caffe's form."""
    integers = integers_in(op, layer)
    parameters = {**parameters, "bias_term": op.bias is not None}
    if integers is not None and layer.net.form == "deploy":
        assert integers.weight is not None
        blobs = [arrange(integers.weight), *([] if integers.bias is None else [integers.bias])]
        accumulator = layer.layer(kind, integers.quantize.result, blobs=blobs, **{message: parameters})
        return dequantized(layer, accumulator, integers)
    if integers is None and nn.dequantize_of(source(op.operands[1])) is not None:
        layer.note("float-weight", "its weight is written as the reals that its integers stand for")
    blobs = [arrange(layer.array(op.operands[1], "weight"))]
    if op.bias is not None:
        blobs.append(layer.array(op.bias, "bias"))
    result = layer.layer(kind, op.operands[0], blobs=blobs, **{message: parameters})
    return result if integers is None else dequantized(layer, result, integers)


def dequantized(layer: CaffeLayer, blob: str, integers: Integers) -> str:
    """The DeQuant layer after an operation.

    Fake-quant: its blobs are scales, shifts and weight offsets. Deploy: one blob of 64-bit integers that hold a scale in their
    low half, a shift in the next byte, a weight offset in the next.
    """
    name, scales = f"{layer.label}.dequant", integers.scales.astype(np.float32)
    if scales.size == 1:
        scales = np.resize(scales, len(integers.shifts))
    if layer.net.form == "deploy":
        return layer.named(name, "DeQuant", blob, [pack(scales, integers.shifts)])
    shifts = np.broadcast_to(np.array(integers.shifts, np.float32), scales.shape)
    blobs = [scales, shifts, np.zeros_like(scales)]
    return layer.named(name, "DeQuant", blob, blobs, dequant_param={"channel_wise": scales.size > 1})


@converter(nn.ShiftAccumulatorOp)
def shift_accumulator(op: nn.ShiftAccumulatorOp, layer: CaffeLayer) -> Written:
    """Part of the DeQuant layer that writes its input."""
    if layer.net.form == "float":
        layer.fail("shifts the sums of integers, and Caffe's layers have none", HINT)
    shifted = source(op.input)
    if not (isinstance(shifted, OpResult) and _in_integers(shifted.op)):
        layer.note("float", "computes in float: no sum of integers is shifted")
    return layer.net.blob(op.input)


@converter(nn.QuantizeOp)
def quantize(op: nn.QuantizeOp, layer: CaffeLayer) -> Written:
    """Writes one Quant layer per value and parameters, with the scale's reciprocal and the zero point as a byte."""
    net, params = layer.net, op.qparams.data
    if net.form == "float":
        layer.fail("is quantized, and Caffe's layers are not", HINT)
    if params.storage != i8 or params.axis is not None:
        layer.fail(f"quantizes to {params.storage} or by several scales, AMCT's Quant layer to i8 by one")
    first = net.quantized.setdefault((source(op.input), op.qparams), op.result)
    if first is not op.result:
        return net.blob(first)
    parameters = _parameters(op, layer, with_offset=net.form == "fake-quant")
    layer.label = f"{_consumer(op, net)}.quant"
    return layer.layer("Quant", op.input, quant_param=parameters)


def _parameters(op: nn.QuantizeOp, layer: CaffeLayer, with_offset: bool) -> dict[str, object]:
    params = op.qparams.data
    with np.errstate(over="ignore"):
        reciprocal = np.float32(1) / np.float32(params.scales())
    if not np.isfinite(reciprocal):
        layer.fail(f"has a scale whose reciprocal no float32 holds: {float(params.scales())}")
    point = int(params.zero_points())
    return {"scale": float(reciprocal), "offset": _byte(point), "with_offset": bool(point) if with_offset else None}


def _byte(zero_point: int) -> bytes:
    return zero_point.to_bytes(1, "big", signed=True)


def _consumer(op: nn.QuantizeOp, net: Net) -> str:
    """The name of the first layer that reads the quantized value, which AMCT uses."""
    for each in net.consumers.get(op.result, ()):
        for consumer in net.consumers.get(source(each.results[0]), ()):
            return net.label(consumer)
    return net.label(op)


@converter(nn.DequantizeOp)
def dequantize(op: nn.DequantizeOp, layer: CaffeLayer) -> Written:
    """Writes nothing for constants: their numbers are blobs. For a Quant layer the values that it gives already, or
    AntiQuant if integers are given and a layer takes floats. Raises CompileError for integers from elsewhere.
    """
    if constant_array(op.result) is not None:
        return None
    producer, net = source(op.input).owner, layer.net
    if not isinstance(producer, nn.QuantizeOp) or producer.qparams != op.qparams:
        layer.fail("takes integers that no quantization with its own parameters gives")
    if net.form != "deploy":
        return net.blob(op.input)
    if op.result not in net.outputs and all(_only_integers(t, op) for t in net.consumers.get(op.result, [])):
        return None
    layer.label = f"{_consumer(producer, net)}.antiquant"
    return layer.layer("AntiQuant", op.input, quant_param=_anti_parameters(op))


def _only_integers(op: Operation, dequantize: nn.DequantizeOp) -> bool:
    return _in_integers(op) and sum(source(v) is dequantize.result for v in op.operands) == 1


def _anti_parameters(op: nn.DequantizeOp) -> dict[str, object]:
    """`(x - offset) * scale`: the scale itself, not its reciprocal."""
    params = op.qparams.data
    return {"scale": float(params.scales()), "offset": _byte(int(params.zero_points()))}
