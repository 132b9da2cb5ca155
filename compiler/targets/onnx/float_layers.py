"""Layers that stay float after quantized ones, written so that onnxruntime runs them in float.

Its optimizer quantizes the constant weight and bias of a Conv, ConvTranspose or Gemm (a MatMul and an Add become one) whose
input comes from a DequantizeLinear. Between Q/DQ pairs it makes a QLinearSoftmax of a Softmax, and a QLinearAveragePool of an
AveragePool: the former overflows, the latter has no dilations. It makes a MatMulNBits, which rounds its input to int8, of a
MatMul or Gemm whose weight is dequantized and whose input is float or has 16 bits, and of a Conv of 4-bit inputs a QLinearConv,
which has no such inputs. It does so only if nothing is between DequantizeLinear and the layer, but moves DequantizeLinear after
operators that move elements. A Max of one operand, which is that operand, keeps them apart: no optimization removes it, and it
costs one copy.
"""

from __future__ import annotations

from xdsl.dialects.builtin import f32
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, OpResult, SSAValue

from ...dialects import nn
from ...dialects.nn.shapes import element_of, shape_of
from ..graph import readers, source
from .layer import OnnxLayer, Operand


def weighted_input(op: nn.NNOp, layer: OnnxLayer) -> Operand:
    """The input of a layer with weights, kept apart from its DequantizeLinear if integer kernels would round weight or bias.

    Also if they lack the integers of the input: those of 4 bits or less.
    """
    x, *others = op.operands
    return x if not _is_narrow(x, layer) and all(_is_integer(v, op) for v in others) else kept_apart(x, layer)


def factor(op: nn.MatMulOp, input: Operand, layer: OnnxLayer) -> Operand:
    """The second operand of a product with this input. A dequantized weight is kept apart if the input is float or has other
    integers than those of 8 bits, for which alone there are kernels.
    """
    weight = source(op.rhs).owner
    is_weight = isinstance(weight, nn.DequantizeOp) and nn.constant_of(weight.input) is not None
    in_integers = isinstance(input, SSAValue) and _bits(input, layer) == 8
    return kept_apart(op.rhs, layer) if is_weight and not in_integers else op.rhs


def softmax_input(input: SSAValue, result: SSAValue, layer: OnnxLayer) -> Operand:
    """The input of a Softmax, kept apart from its DequantizeLinear if the result is quantized."""
    return kept_apart(input, layer) if _is_quantized(result) else input


def kept_apart(value: SSAValue, layer: OnnxLayer) -> Operand:
    """Separates a dequantized float32 value by a Max of its own; any other value unchanged."""
    if element_of(value) != f32 or _bits(value, layer) is None:
        return value
    return layer.helper("Max", value)


def summand(value: SSAValue, layer: OnnxLayer) -> Operand:
    """An operand of Add. A Conv with quantized weights that is an output of the graph as well stands after a Max of its own, and
    so does a MatMulInteger with its scales before a constant.

    onnxruntime 1.31 fuses a Conv with the Add of another Conv, and loses the name of the graph's output: it rejects the file.
    1.32 makes the constant the bias of a MatMulIntegerToFloat, and multiplies it by the scales of rows as well.
    """
    conv = source(value).owner
    if isinstance(conv, nn.MulOp) and any(map(_is_integer_product, conv.operands)) and _meets_constant(conv.result):
        return layer.helper("Max", value)
    if not isinstance(conv, nn.ConvOp) or not any(isinstance(r, ReturnOp) for r in readers(conv.result)):
        return value
    is_stored = isinstance(source(conv.weight).owner, nn.DequantizeOp | nn.DequantizeFloatOp)
    return layer.helper("Max", value) if is_stored else value


def _meets_constant(value: SSAValue) -> bool:
    sums = (each for each in readers(value) if isinstance(each, nn.AddOp))
    return any(nn.constant_of(source(operand)) is not None for each in sums for operand in each.operands)


def _is_integer_product(value: SSAValue) -> bool:
    cast = source(value).owner
    return isinstance(cast, nn.CastOp) and isinstance(source(cast.input).owner, nn.MatMulIntegerOp)


def pooled_input(op: nn.MaxPoolOp | nn.AveragePoolOp, layer: OnnxLayer) -> Operand:
    """The input of a pool, kept apart from its DequantizeLinear if integer kernels lack its dilations or its integers."""
    has_kernel = isinstance(op, nn.MaxPoolOp) or op.has_integer_kernel
    return op.input if has_kernel and not _is_narrow(op.input, layer) else kept_apart(op.input, layer)


def quantized_input(op: nn.QuantizeOp | nn.QuantizeFloatOp, layer: OnnxLayer) -> Operand:
    """The input of a QuantizeLinear to 4 bits or less, or to floats of 8, kept apart from bounds and pools before it.

    onnxruntime 1.32 drops a Relu whatever the zero point is, fails at a Clip, and moves QuantizeLinear before a MaxPool.
    """
    if isinstance(op, nn.QuantizeOp) and op.qparams.data.storage.width.data >= 8:
        return op.input
    value = source(op.input)
    while not isinstance(value.owner, nn.MaxPoolOp) and isinstance(value, OpResult) and _is_passed(value.op):
        value = source(value.op.operands[0])
    is_at_risk = isinstance(value.owner, nn.BoundOp | nn.MaxPoolOp)
    return layer.helper("Max", op.input) if is_at_risk else op.input


def is_between_integers(input: SSAValue, result: SSAValue, layer: OnnxLayer) -> bool:
    """Whether an operation reads a dequantized value, and its result is quantized."""
    return _bits(input, layer) is not None and _is_quantized(result)


def _is_integer(value: SSAValue, op: nn.NNOp) -> bool:
    """Whether integer kernels accept a weight or a bias unchanged.

    They accept no float constants, and no weights with zero points (weight-only); a batch of matrices has one scale.
    """
    owner = source(value).owner
    if not isinstance(owner, nn.DequantizeOp) or nn.constant_of(owner.input) is None:
        return not isinstance(owner, nn.ConstantOp)
    p = owner.qparams.data
    is_batch = isinstance(op, nn.MatMulOp) and len(shape_of(value)) > 2
    return not any(p.zero_point) and p.block is None and not (is_batch and p.axis is not None)


def _is_narrow(value: SSAValue, layer: OnnxLayer) -> bool:
    """Whether a value is dequantized from integers that no integer kernel takes."""
    return (_bits(value, layer) or 8) < 8


def _bits(value: SSAValue, layer: OnnxLayer) -> int | None:
    """The width of the integers that a value is dequantized from; None if it is not dequantized, or moved out of a constant, as
    rows of a table are: no kernel takes its integers.
    """
    value, known = source(value), layer.graph.bits
    path = [value]
    while value not in known and isinstance(value, OpResult) and _is_passed(value.op):
        value = source(value.op.operands[0])
        path.append(value)
    owner = value.owner
    if value not in known:
        known[value] = owner.qparams.data.storage.width.data if isinstance(owner, nn.DequantizeOp) else None
    is_constant = isinstance(owner, nn.DequantizeOp) and nn.constant_of(owner.input) is not None
    known.update(dict.fromkeys(path[:-1], None if is_constant else known[value]))
    return known[path[0]]


def _is_quantized(value: SSAValue) -> bool:
    """Whether a reader quantizes it, perhaps after operations that move elements."""
    waiting = [value]
    while waiting:
        readers = [use.operation for use in waiting.pop().uses]
        if any(isinstance(r, nn.QuantizeOp) for r in readers):
            return True
        waiting += [r.results[0] for r in readers if _is_passed(r)]
    return False


def _is_passed(op: Operation) -> bool:
    """Whether the optimizer may move a DequantizeLinear after an operation, or merge it (a Pad) into the layer."""
    return isinstance(op, nn.NNOp) and (op.is_passive or isinstance(op, nn.PadOp))
