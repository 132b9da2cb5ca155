"""Weight-only quantization with float16: AscendAntiQuant reads the integers, the steps after it are ONNX's own."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper
from xdsl.dialects.builtin import f16, f32
from xdsl.ir import Attribute, SSAValue

from ...dialects import ascend, nn
from ...dialects.ascend.base import data_type_number, i8, stand_ins
from ...dialects.nn.shapes import element_of, shape_of, tensor
from ..onnx.layer import OnnxLayer, Operand
from .table import converter


@converter(ascend.AscendAntiQuantV2Op)
def anti_quant(op: ascend.AscendAntiQuantV2Op, layer: OnnxLayer) -> str:
    """Applies offset and scale in float32, and rounds the result once."""
    if op.sqrt_mode.value.data or element_of(op.y) != f16 or element_of(op.scale) != f32:
        raise layer.error("has a form that files do not have: sqrt_mode, or bfloat16")
    y = _integers(op.x, f32, layer)
    y = y if op.offset is None else layer.helper("Add", y, op.offset)
    return layer.node("Cast", layer.helper("Mul", y, op.scale), to=TensorProto.FLOAT16)


@converter(ascend.WeightQuantBatchMatmulV2Op)
def product(op: ascend.WeightQuantBatchMatmulV2Op, layer: OnnxLayer) -> str:
    """The weight in float16, in which no step but the last rounds, and Gemm."""
    if element_of(op.x) != f16:
        raise layer.error(f"is of {element_of(op.x)}, files have float16")
    if op.bias is not None and element_of(op.bias) != f16:
        raise layer.error("has a bias of another type than float16, which Gemm does not take")
    transposed = bool(op.transpose_weight.value.data)
    integers = _integers(op.weight, f16, layer)
    if op.group_size:
        shape = shape_of(op.weight)
        axis = 1 if transposed else 0
        if shape[axis] % op.group_size:
            raise layer.error(f"has groups of {op.group_size} that do not divide its {shape[axis]} input channels")
        split = [*shape[:axis], shape[axis] // op.group_size, op.group_size, *shape[axis + 1 :]]
        integers = layer.helper("Reshape", integers, layer.ints(split, "shape"))
        scale, offset = (_grouped(v, transposed, layer) for v in (op.antiquant_scale, op.antiquant_offset))
    else:
        scale, offset = (_column(v, transposed, layer) for v in (op.antiquant_scale, op.antiquant_offset))
    weight = layer.helper("Mul", layer.helper("Add", integers, offset), scale)
    if op.group_size:
        weight = layer.helper("Reshape", weight, layer.ints(shape_of(op.weight), "shape"))
    flags = {"transA": int(op.transpose_x.value.data) or None, "transB": int(transposed) or None}
    return layer.node("Gemm", op.x, weight, op.bias, **flags)


def _integers(x: SSAValue, element: Attribute, layer: OnnxLayer) -> str:
    """int8 or int4 numbers as reals of a type: AscendAntiQuant with a scale of 1; files contain int8."""
    integers: Operand = x
    if element_of(x) != i8:
        if (array := nn.array_of(x)) is None:
            raise layer.error(f"has a weight of {element_of(x)} that is computed at run time, files hold int8")
        integers = layer.constant(array.astype(np.int8), "weight")
    (like,) = stand_ins([tensor(element, shape_of(x))])
    made = layer.provisional(like)
    number = data_type_number(element)
    inputs = [layer.value(integers)]
    node = helper.make_node("AscendAntiQuant", inputs, [made], scale=1.0, offset=0.0, dtype=number)
    layer.add(node, f"{layer.label}.antiquant")
    return made


def _grouped(parameters: SSAValue, transposed: bool, layer: OnnxLayer) -> Operand:
    """Parameters `[groups, N]` as `[groups, 1, N]`, or `[N, groups, 1]` for a transposed weight."""
    if (array := nn.array_of(parameters)) is None:
        raise layer.error("has scales that are computed at run time")
    return layer.constant(array.T[:, :, None] if transposed else array[:, None], "scale")


def _column(vector: SSAValue, transposed: bool, layer: OnnxLayer) -> Operand:
    """A number per column, which are the first axis of a transposed weight."""
    if not transposed or shape_of(vector) == (1,):
        return vector
    if (array := nn.array_of(vector)) is None:
        raise layer.error("has scales that are computed at run time")
    return layer.constant(array.reshape(-1, 1), "scale")
