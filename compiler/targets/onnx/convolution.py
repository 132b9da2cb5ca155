"""Convolutions. ONNX stores weights as `nn` does: `[out, in/groups, *kernel]`, transposed `[in, out/groups, *kernel]`."""

from __future__ import annotations

from typing import Any

from ...dialects import nn
from ...dialects.nn.shapes import DYNAMIC, shape_of
from .float_layers import weighted_input
from .layer import OnnxLayer, converter


def window(op: nn.WindowOp) -> dict[str, Any]:
    """Kernel, strides, dilations and pads as attributes; `auto_pad` only if sizes are unknown."""
    fixed_kernel = DYNAMIC not in op.kernel_shape
    pads = op.resolved_pads(op.spatial(shape_of(op.operands[0]))) if fixed_kernel or op.auto_pad is None else None
    automatic = None if op.auto_pad is None or pads is not None else op.auto_pad.data.value.upper()
    return {
        "kernel_shape": list(op.kernel_shape) if fixed_kernel else None,
        "strides": list(op.stride_list),
        "dilations": list(op.dilation_list) if any(d != 1 for d in op.dilation_list) else None,
        "pads": None if pads is None else list(pads),
        "auto_pad": automatic,
    }


@converter(nn.ConvOp)
def conv(op: nn.ConvOp, layer: OnnxLayer) -> str:
    attributes = {**window(op), "group": op.group_count}
    x = weighted_input(op, layer)
    return layer.node("Conv", x, op.weight, op.bias, **attributes)


@converter(nn.ConvTransposeOp)
def conv_transpose(op: nn.ConvTransposeOp, layer: OnnxLayer) -> str:
    """Pads are explicit if they are known and not negative; otherwise `output_shape` leaves them to the runtime."""
    attributes: dict[str, Any] = {**window(op), "group": op.group_count}
    if any(op.output_padding_list):
        attributes["output_padding"] = list(op.output_padding_list)
    if op.output_shape is not None and min(attributes["pads"] or [-1]) < 0:
        attributes |= {"pads": None, "output_shape": list(nn.ints(op.output_shape))}
        attributes["auto_pad"] = None if op.auto_pad is None else op.auto_pad.data.value.upper()
    x = weighted_input(op, layer)
    return layer.node("ConvTranspose", x, op.weight, op.bias, **attributes)
