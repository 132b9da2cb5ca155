"""Convolutions. With channels second, filters are stored as ONNX stores them."""

from __future__ import annotations

from typing import Any

from ...dialects import ascend
from ..onnx.layer import OnnxLayer
from .table import converter, packed, product, require_channels_second


def _window(op: ascend.ConvolutionOp) -> dict[str, Any]:
    """The pads: in Ascend begin and end are adjacent, in ONNX all begins come first. The last entries are those of one axis."""
    kernel = op.filter_sizes.kernel
    axes = slice(-len(kernel), None)
    pads = op.pad_list[axes]
    return {
        "kernel_shape": list(kernel),
        "strides": list(op.stride_list[axes]),
        "pads": [*(b for b, _ in pads), *(e for _, e in pads)],
        "dilations": list(op.dilation_list[axes]),
        "group": op.group_count,
    }


@converter(ascend.Conv2DOp, ascend.Conv3DOp)
def conv(op: ascend.GroupedOp, layer: OnnxLayer) -> str:
    require_channels_second(op, layer)
    weight = packed(op, op.filter, 1, layer) if op.group_count == 1 else op.filter
    return product(layer, "Conv", op.x, [weight, op.bias], _window(op))


@converter(ascend.Conv2DTransposeOp, ascend.Conv2DBackpropInputOp, ascend.DeconvolutionOp)
def conv_transpose(op: ascend.TransposedOp, layer: OnnxLayer) -> str:
    """Writes ConvTranspose. The result's size follows from the geometry, so that only the excess of `input_size` over
    it is written.
    """
    require_channels_second(op, layer)
    extra = op.output_padding_list[-len(op.filter_sizes.kernel) :]
    attributes = {**_window(op), "output_padding": list(extra) if any(extra) else None}
    weight = packed(op, op.filter_value, 0, layer) if op.group_count == 1 else op.filter_value
    return product(layer, "ConvTranspose", op.x_value, [weight, op.bias_value], attributes)
