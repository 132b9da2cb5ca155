"""Recurrent layers in integers: AMCT's nodes in place of LSTM and GRU, with all attributes written out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import AttributeProto, helper
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.nn.shapes import shape_of
from ...formats import deq_scale
from ..onnx.layer import OnnxLayer, Operand
from .table import converter, packed


@converter(ascend.BasicLSTMInplaceFillWindowCacheOp)
def lstm(op: ascend.BasicLSTMInplaceFillWindowCacheOp, layer: OnnxLayer) -> Sequence[str]:
    return _node(op, layer, [op.x, *_weights(op, op.w, op.r, layer), op.h, op.c, op.b], {"input_forget": 0})


@converter(ascend.BasicGRUInplaceFillWindowCacheOp)
def gru(op: ascend.BasicGRUInplaceFillWindowCacheOp, layer: OnnxLayer) -> Sequence[str]:
    return _node(op, layer, [op.x, *_weights(op, op.w, op.r, layer), op.h, op.b], {"linear_before_reset": 1})


def _weights(op: ascend.WindowCacheOp, w: SSAValue, r: SSAValue, layer: OnnxLayer) -> list[Operand]:
    """W and R; both are packed if both can be."""
    even = all(shape_of(value)[2] % 2 == 0 for value in (w, r))
    return [packed(op, value, 2, layer) if even else value for value in (w, r)]


def _node(
    op: ascend.WindowCacheOp, layer: OnnxLayer, operands: Sequence[Operand], own: dict[str, int]
) -> Sequence[str]:
    """The node; sequence_lens and clean_cache are absent, the scales packed in `L.dequant.param`."""
    scale = nn.array_of(op.scales)
    if scale is None:
        raise layer.error("has a deq_scale that is computed at run time, files hold a constant")
    packed = layer.named_constant(deq_scale.pack(scale), f"{layer.label}.dequant.param")
    attributes: dict[str, Any] = {
        "hidden_size": op.hidden_size.value.data,
        "clip": -1.0,
        "direction": "forward",
        **own,
        "quant_sqrt_mode_x": 0,
        "quant_sqrt_mode_h": 0,
        "quant_scale_x": op.quant_scale_x.value.data,
        "quant_offset_x": float(op.quant_offset_x.value.data),
        "quant_scale_h": op.quant_scale_h.value.data,
        "quant_offset_h": float(op.quant_offset_h.value.data),
        "quant_dtype": op.quant_dtype.value.data,
    }
    outputs = [layer.provisional(result) for result in op.results]
    inputs = [layer.value(operand) for operand in (*operands, None, None, packed)]
    node = helper.make_node(op.name.removeprefix("ascend."), inputs, outputs, **attributes)
    node.attribute.extend(AttributeProto(name=name, type=kind) for name, kind in _EMPTY.items())
    layer.add(node, layer.label)
    return outputs


_EMPTY = {
    "activations": AttributeProto.STRINGS,
    "activation_alpha": AttributeProto.FLOATS,
    "activation_beta": AttributeProto.FLOATS,
}
"""Lists that AMCT writes without elements."""
