"""Ascend's quantization operators. In ONNX types are text, and AscendAntiQuant has the zero point without negation."""

from __future__ import annotations

from typing import Any

from ...dialects import ascend, nn
from ...dialects.ascend.base import i8
from ...dialects.ascend.quantization import DEFAULT_MODE
from ...formats import deq_scale
from ..deployed import layer_before, layer_behind, quant_name, unaveraged
from ..onnx.layer import OnnxLayer
from .table import converter


def precision(op: ascend.AscendQuantOp | ascend.AscendDequantOp) -> dict[str, Any]:
    """The attribute with which AMCT's operators compute in FORCE_FP16_QUANT; none by default, as in AMCT's own files."""
    mode = op.fakequant_precision_mode
    return {} if mode == DEFAULT_MODE else {"fakequant_precision_mode": mode.data}


_TYPE_NAMES = {"i8": "INT8", "i4": "INT4", "i16": "INT16"}


def _flag(attribute: Any) -> int | None:
    """1 for true, None for false."""
    return 1 if attribute.value.data else None


@converter(ascend.AscendQuantOp)
def quant(op: ascend.AscendQuantOp, layer: OnnxLayer) -> str:
    """`L.quant`, for the first layer L that reads the integers; `L.quant1` if they are its second input."""
    attributes = {
        "scale": op.scale.value.data,
        "offset": op.offset.value.data,
        "dst_type": _TYPE_NAMES[str(op.storage)],
        "round_mode": None if op.round_mode.data == "Round" else op.round_mode.data,
        "sqrt_mode": _flag(op.sqrt_mode),
        **precision(op),
    }
    return layer.unchecked("AscendQuant", [op.x], attributes, quant_name(op.y, layer.label))


@converter(ascend.AscendAntiQuantOp)
def anti_quant(op: ascend.AscendAntiQuantOp, layer: OnnxLayer) -> str:
    """Writes `L.antiquant`; Ascend IR has the negated zero point."""
    attributes = {
        "scale": op.scale.value.data,
        "offset": 0.0 - op.offset.value.data,
        "dtype": op.dtype.value.data,
        "sqrt_mode": _flag(op.sqrt_mode),
    }
    return layer.unchecked("AscendAntiQuant", [op.x], attributes, f"{layer_behind(op.y, layer.label)}.antiquant")


@converter(ascend.AscendDequantOp)
def dequant(op: ascend.AscendDequantOp, layer: OnnxLayer) -> str:
    """`L.dequant`, its scales packed in `L.dequant.param`, a vector for any rank in the IR."""
    scale = nn.array_of(op.deq_scale)
    assert scale is not None
    name = f"{layer_before(op.x, layer.label)}.dequant"
    packed = deq_scale.pack(unaveraged(op, op.x, scale.reshape(-1)), op.shifts or 0)
    attributes = {
        "dtype": op.dtype.value.data,
        "sqrt_mode": _flag(op.sqrt_mode),
        "relu_flag": _flag(op.relu_flag),
        **precision(op),
    }
    return layer.unchecked("AscendDequant", [op.x, layer.named_constant(packed, f"{name}.param")], attributes, name)


@converter(ascend.AscendRequantOp)
def requant(op: ascend.AscendRequantOp, layer: OnnxLayer) -> str:
    """`L.requant`, scales and offset packed in `L.requant.param`. AMCT leaves it to ATC to make these."""
    scale = nn.array_of(op.req_scale)
    assert scale is not None
    name = f"{layer_before(op.x, layer.label)}.requant"
    packed = deq_scale.pack_requant(unaveraged(op, op.x, scale.reshape(-1)), int(op.offset.value.data))
    return layer.unchecked(
        "AscendRequant",
        [op.x, layer.named_constant(packed, f"{name}.param")],
        {"relu_flag": _flag(op.relu_flag)},
        name,
    )


@converter(ascend.AscendWeightQuantOp)
def weight_quant(op: ascend.AscendWeightQuantOp, layer: OnnxLayer) -> str:
    """`L.weight_quant`, on integers and their offsets."""
    if op.storage != i8:
        raise layer.error(f"gives {op.storage}, files hold int8 weights")
    return layer.unchecked(
        "AscendWeightQuant", [op.x, op.offset], {}, f"{layer_behind(op.y, layer.label)}.weight_quant"
    )
