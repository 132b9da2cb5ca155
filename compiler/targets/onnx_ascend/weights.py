"""Weight-only quantization with float16: WeightQuantBatchMatmulV2; for AscendAntiQuantV2 AscendAntiQuant, which reads the
integers, and steps of ONNX's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper
from xdsl.dialects.builtin import f16, f32
from xdsl.ir import Attribute, SSAValue

from ...dialects import ascend, nn
from ...dialects.ascend.base import data_type_number, i8, stand_ins
from ...dialects.nn.shapes import element_of, shape_of, tensor
from ...formats.onnx.packing import IN_INT32, packed_words
from ..deployed import weight_name
from ..onnx.layer import OnnxLayer, Operand
from .table import converter

DOMAIN = "npu"
"""The domain in which ATC knows the operators of torch_npu in a file of any opset."""


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
    """The operator, whose plug-in takes no transposes: what is transposed is stored, or comes from a Transpose, as it is read."""
    if element_of(op.x) != f16:
        raise layer.error(f"is of {element_of(op.x)}, files have float16")
    if op.bias is not None and element_of(op.bias) != f16:
        raise layer.error("has a bias of another type than float16, which its kernel does not take")
    if (weight := nn.array_of(op.weight)) is None:
        raise layer.error("has a weight that is computed at run time")
    x = layer.helper("Transpose", op.x, perm=[1, 0]) if op.transpose_x.value.data else layer.value(op.x)
    weight = weight.T if op.transpose_weight.value.data else weight
    four = element_of(op.weight) != i8 and weight.shape[1] % IN_INT32 == 0
    stored = packed_words(weight) if four else np.ascontiguousarray(weight.astype(np.int8))
    constant = nn.constant_of(op.weight)
    assert constant is not None
    absent: list[Operand] = [] if op.bias is None else [None, None, op.bias]
    inputs = [x, layer.named_constant(stored, weight_name(constant.key))]
    inputs += [layer.value(each) for each in (op.antiquant_scale, op.antiquant_offset, *absent)]
    made = layer.provisional(op.y)
    group: dict[str, Any] = {"antiquant_group_size": op.group_size} if op.group_size else {}
    layer.graph.domains.setdefault(DOMAIN, 1)
    layer.add(helper.make_node("WeightQuantBatchMatmulV2", inputs, [made], domain=DOMAIN, **group), layer.label)
    return made


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
