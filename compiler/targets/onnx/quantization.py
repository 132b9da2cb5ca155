"""QuantizeLinear and DequantizeLinear, the counterparts of `nn.quantize` and `nn.dequantize`."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
from onnx import TensorProto, helper
from xdsl.dialects.builtin import Float4E2M1FNType, Float8E8M0FNUType, IntegerType, f16, f32, i16, i32
from xdsl.ir import SSAValue

from ...dialects import nn
from ...dialects.nn.shapes import element_of, shape_of
from ...ir.dtypes import integer_range, numpy_dtype
from ...runtime.kernels import kernel_for
from ..graph import source
from .float_layers import quantized_input
from .graph import Array
from .layer import OnnxLayer, Operand, Written, converter

NO_KERNEL = "onnxruntime"
"""The rule of the remark on a node that onnxruntime does not run."""

# The names end in the operator: the layer's own name is its consumer's.


@converter(nn.QuantizeOp)
def quantize(op: nn.QuantizeOp, layer: OnnxLayer) -> str:
    """The zero point has the storage type, so it is always written. Half floats are widened first, because scales are float32."""
    x = quantized_input(op, layer)
    if element_of(op.input) != f32:
        x = layer.helper("Cast", x, to=TensorProto.FLOAT)
    p = op.qparams.data
    return layer.helper("QuantizeLinear", x, *_parameters(p, op, layer), axis=p.axis, block_size=p.block)


@converter(nn.DequantizeOp)
def dequantize(op: nn.DequantizeOp, layer: OnnxLayer) -> str:
    """Writes DequantizeLinear: int32 (biases) has no zero point in ONNX, other types always have one. The result is
    float32, cast to another type if needed.

    Constants of 2 bits are written in 4 before opset 25, which has the type, so that more runtimes read the file.
    """
    p, x = op.qparams.data, cast(Operand, op.input)
    if p.storage == i32 and any(p.zero_point):
        raise layer.error("has a zero point, which DequantizeLinear does not take with int32")
    if layer.opset < 25 and p.storage.width.data == 2 and (constant := nn.constant_of(source(op.input))) is not None:
        p = replace(p, storage=IntegerType(4, p.storage.signedness))
        x = layer.constant(constant.array.astype(numpy_dtype(p.storage)), "weight", op)
    scale, zero_point = _parameters(p, op, layer)
    result = layer.helper("DequantizeLinear", x, scale, zero_point, axis=p.axis, block_size=p.block)
    if (element := element_of(op.result)) == f32:
        return result
    return layer.helper("Cast", result, to=helper.np_dtype_to_tensor_dtype(numpy_dtype(element)))


@converter(nn.QuantizeFloatOp)
def quantize_float(op: nn.QuantizeFloatOp, layer: OnnxLayer) -> str:
    """The zero point, 0, has the type of the result. Values beyond its range saturate, which is the default."""
    layer.require(19, "floats of 8 bits")
    x = quantized_input(op, layer)
    if element_of(op.input) != f32:
        x = layer.helper("Cast", x, to=TensorProto.FLOAT)
    zero = layer.constant(np.zeros((), numpy_dtype(element_of(op.result))), "zero_point", op)
    return layer.helper("QuantizeLinear", x, op.scale, zero)


@converter(nn.DequantizeFloatOp)
def dequantize_float(op: nn.DequantizeFloatOp, layer: OnnxLayer) -> str:
    """Scales of float8e8m0 since opset 24; before, they are the same powers of two in float32. A remark says where onnxruntime
    has no kernel for the types.
    """
    axis, block = (None if each is None else each.value.data for each in (op.axis, op.block))
    if block is not None:
        layer.require(21, "scales per group")
    if element_of(op.input) == f16:
        return _product(op, layer)
    scale: Operand = op.scale
    if (powers := nn.array_of(scale)) is not None and powers.dtype.name == "float8_e8m0fnu" and layer.opset < 24:
        scale = layer.constant(powers.astype(np.float32), "scale", op)
    is_power = scale is op.scale and element_of(op.scale) == Float8E8M0FNUType()
    if is_power or element_of(op.input) == Float4E2M1FNType():
        what = "scales of float8e8m0" if is_power else "weights of float4e2m1"
        layer.note(NO_KERNEL, f"onnxruntime 1.32 has no kernel for {what}: the file is for other runtimes")
    to = {"output_dtype": TensorProto.FLOAT} if is_power else {}
    result = layer.helper("DequantizeLinear", op.input, scale, axis=axis, block_size=block, **to)
    if (element := element_of(op.result)) == f32:
        return result
    return layer.helper("Cast", result, to=helper.np_dtype_to_tensor_dtype(numpy_dtype(element)))


def _product(op: nn.DequantizeFloatOp, layer: OnnxLayer) -> str:
    """Writes HiF8, for which ONNX has no type: its numbers in float16, times the scales."""
    layer.note("simulated", "ONNX has no type for HiF8: its numbers are written as float16")
    scale, shape = nn.array_of(op.scale), shape_of(op.input)
    if scale is None or op.block is not None:
        raise layer.error("has float16 with scales that are not constant, or of blocks: ONNX has no operator for it")
    axis = None if op.axis is None else op.axis.value.data
    wide = layer.helper("Cast", op.input, to=TensorProto.FLOAT)
    result = layer.helper("Mul", wide, layer.constant(nn.spread(scale, shape, axis), "scale", op))
    if (element := element_of(op.result)) == f32:
        return result
    return layer.helper("Cast", result, to=helper.np_dtype_to_tensor_dtype(numpy_dtype(element)))


def simulated(op: nn.DequantizeFloatOp, layer: OnnxLayer) -> Written:
    """Writes the numbers of a constant as they are, in the type of the result; nothing for scales, which are a part of them."""
    readers = [use.operation for use in op.result.uses]
    if readers and all(isinstance(each, nn.DequantizeFloatOp) for each in readers):
        return [None]
    if (numbers := _numbers(op.result)) is None:
        return dequantize_float(op, layer)
    layer.note(
        "simulated", f"is written as {numbers.dtype}: the numbers that {element_of(op.input)} with scales stands for"
    )
    name = layer.named_constant(numbers, op.result.name_hint or layer.label)
    if layer.graph.declared(op.result) is not None:
        return layer.helper("Identity", name)
    layer.graph.bind(op.result, name)
    return [None]


def _numbers(value: SSAValue) -> Array | None:
    """The numbers of a constant, or of one in a number format."""
    if not isinstance(op := value.owner, nn.DequantizeFloatOp):
        return nn.array_of(value)
    operands, run = [_numbers(each) for each in op.operands], kernel_for(op)
    assert run is not None
    return None if any(each is None for each in operands) else np.asarray(run(*operands))


@converter(nn.ShiftAccumulatorOp)
def shift_accumulator(op: nn.ShiftAccumulatorOp, layer: OnnxLayer) -> str:
    """Writes the definition in float32: all steps but the first and the last are exact."""
    element = element_of(op.input)
    x: Operand = op.input if element == f32 else layer.helper("Cast", op.input, to=TensorProto.FLOAT)
    scale, _ = op.qparams.data.broadcastable(shape_of(op.input))
    powers = np.exp2(np.array(op.shift_list, np.float32))
    powers = powers.reshape(scale.shape) if powers.size > 1 else powers[0]
    sums = layer.helper("Round", layer.helper("Div", x, layer.constant(scale, "scale", op)))
    shifted = layer.helper("Floor", layer.helper("Div", sums, layer.constant(powers, "power", op)))
    low, high = (layer.constant(np.array(limit, np.float32), "limit") for limit in integer_range(i16))
    kept = layer.helper("Clip", shifted, low, high)
    step = layer.constant(powers * scale, "step", op)
    if element == f32:
        return layer.node("Mul", kept, step)
    return layer.node("Cast", layer.helper("Mul", kept, step), to=helper.np_dtype_to_tensor_dtype(numpy_dtype(element)))


def _parameters(p: nn.QParams, op: nn.QuantizeOp | nn.DequantizeOp, layer: OnnxLayer) -> tuple[str, str | None]:
    """The scales, and as many zero points of the storage type; int32 has none."""
    if p.axis is not None:
        layer.require(13, "scales per channel")
    if p.block is not None:
        layer.require(21, "scales per group")
    scales = p.scales()
    points = np.broadcast_to(p.zero_points(), scales.shape).astype(numpy_dtype(p.storage))
    if p.axis is not None and p.block is not None:
        blocks = nn.blocks_of(shape_of(op.input), p.axis, p.block)
        scales, points = scales.reshape(blocks), points.reshape(blocks)
    scale = layer.constant(scales, "scale", p)
    return scale, None if p.storage == i32 else layer.constant(points, "zero_point", p)
