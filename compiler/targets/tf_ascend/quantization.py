"""Ascend's quantization operators, with the attributes that Huawei's TensorFlow adapter registers.

To TensorFlow their tensors are floats: AscendQuant gives integers without their zero point, a layer adds them up in float,
AscendDequant scales the sums. ATC makes int8 and int32 of them.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.ascend.base import i8
from ...dialects.ascend.quantization import DEFAULT_MODE
from ...dialects.nn.shapes import element_of, shape_of
from ...formats import deq_scale
from ...formats.tensorflow.attributes import attribute
from ...ir.dtypes import dtype_named, numpy_dtype
from ..deployed import layer_before, layer_behind, quant_name, unaveraged
from ..graph import identity_of
from ..tensorflow.layer import TensorFlowLayer
from .table import converter

OPERATORS = frozenset({"AscendQuant", "AscendDequant", "AscendAntiQuant", "AscendWeightQuant"})
"""Ascend's own operators in these files."""

_FLOATS = ("float16", "float32", "float64")
"""The types that T may be."""


def _ascend(
    layer: TensorFlowLayer, op_type: str, inputs: list[str], element: str, name: str, **attributes: object
) -> str:
    """A node of Ascend's with a result of this element type in TensorFlow."""
    if element not in _FLOATS:
        raise layer.error(f"becomes {op_type}, which does not compute {element}")
    values = {"T": attribute(dtype_named(element)), **{k: attribute(v) for k, v in attributes.items()}}
    return layer.add(op_type, inputs, values, name, [element])[0]


@converter(ascend.AscendQuantOp)
def quant(op: ascend.AscendQuantOp, layer: TensorFlowLayer) -> str:
    """`L.quant`, for the first layer L that reads the integers; `L.quant1` if they are its second input."""
    if op.storage != i8:
        raise layer.error(f"gives {op.storage}, these files hold int8")
    if op.round_mode.data != "Round" or op.sqrt_mode.value.data:
        raise layer.error("has a round_mode or sqrt_mode, which TensorFlow's AscendQuant does not have")
    x = layer.value(op.x)
    attributes = {"scale": op.scale.value.data, "offset": op.offset.value.data, "dst_type": "INT8", "quant_bits": 8}
    name = quant_name(op.y, layer.label)
    return _ascend(layer, "AscendQuant", [x], layer.graph.elements[x], name, **attributes, **_precision(op))


@converter(ascend.AscendAntiQuantOp)
def anti_quant(op: ascend.AscendAntiQuantOp, layer: TensorFlowLayer) -> str:
    """`L.antiquant`; the offset is that of Ascend IR, the negated zero point, because ATC passes it on."""
    if op.sqrt_mode.value.data:
        raise layer.error("has sqrt_mode, which TensorFlow's AscendAntiQuant does not have")
    x, element = layer.value(op.x), _element(op.y)
    if layer.graph.elements[x] != element:
        raise layer.error(f"gives {element} of values that were {layer.graph.elements[x]} before AscendQuant")
    name = f"{layer_behind(op.y, layer.label)}.antiquant"
    return _ascend(layer, "AscendAntiQuant", [x], element, name, scale=op.scale.value.data, offset=op.offset.value.data)


@converter(ascend.AscendDequantOp)
def dequant(op: ascend.AscendDequantOp, layer: TensorFlowLayer) -> str:
    """`L.dequant`, its scales packed in `L.dequant.param`; after a pool `ksize` is the window, whose mean it scales.

    A ReLU that is part of it follows it.
    """
    if op.sqrt_mode.value.data:
        raise layer.error("has sqrt_mode, which TensorFlow's AscendDequant does not have")
    scale = nn.array_of(op.deq_scale)
    assert scale is not None
    name, x, element = f"{layer_before(op.x, layer.label)}.dequant", layer.value(op.x), _element(op.y)
    if layer.graph.elements[x] != element:
        raise layer.error(f"gives {element} of a layer on {layer.graph.elements[x]}")
    packed = deq_scale.pack(unaveraged(op, op.x, scale.reshape(-1)), op.shifts or 0)
    inputs = [x, layer.graph.add_constant(packed, f"{name}.param")]
    attributes = {"ksize": _window(op.x), "data_format": "NHWC", **_precision(op)}
    y = _ascend(layer, "AscendDequant", inputs, element, name, **attributes)
    return layer.helper("Relu", y) if op.relu_flag.value.data else y


def _precision(op: ascend.AscendQuantOp | ascend.AscendDequantOp) -> dict[str, str]:
    """The mode of FORCE_FP16_QUANT. TensorFlow ignores attributes that start with `_`, so that the adapter need not know it."""
    mode = op.fakequant_precision_mode
    return {} if mode == DEFAULT_MODE else {"_fakequant_precision_mode": mode.data}


def _window(accumulator: SSAValue) -> list[int]:
    """The two sizes of a pool's window; 1 for other layers."""
    pool = accumulator.owner
    if not isinstance(pool, ascend.AveragingOp):
        return [1, 1]
    return list(pool.kernel(pool.spatial(shape_of(pool.x))))


@converter(ascend.AscendRequantOp)
def requant(op: ascend.AscendRequantOp, layer: TensorFlowLayer) -> str:
    raise layer.error("has no form in TensorFlow", hint="leave --fuse-requant out: ATC fuses by itself")


@converter(ascend.AscendWeightQuantOp)
def weight_quant(op: ascend.AscendWeightQuantOp, layer: TensorFlowLayer) -> str:
    """`L.weight_quant`, on integers and their offsets."""
    if op.storage != i8:
        raise layer.error(f"gives {op.storage}, these files hold int8 weights")
    name = layer_behind(op.y, layer.label)
    return _weight(layer, layer.value(op.x), layer.value(op.offset), "float32", name)


def weight(layer: TensorFlowLayer, value: SSAValue, element: str) -> str:
    """The weight of a layer on integers of this TensorFlow type: a constant after AscendWeightQuant, made once."""
    if (constant := nn.constant_of(value)) is None:
        return layer.value(value)
    key = identity_of(constant), element
    if key not in layer.graph.weights:
        offset = layer.constant(np.zeros(1, np.int8), "offset_w")
        layer.graph.weights[key] = _weight(layer, layer.value(value), offset, element, layer.label)
    return layer.graph.weights[key]


def _weight(layer: TensorFlowLayer, x: str, offset: str, element: str, name: str) -> str:
    return _ascend(layer, "AscendWeightQuant", [x, offset], element, f"{name}.weight_quant", dst_type="INT8")


def _element(value: SSAValue) -> str:
    return numpy_dtype(element_of(value)).name
