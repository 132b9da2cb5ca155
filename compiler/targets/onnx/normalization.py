"""Softmax."""

from __future__ import annotations

from ...dialects import nn
from ...dialects.nn.shapes import shape_of
from .float_layers import softmax_input
from .layer import OnnxLayer, Operand, converter


@converter(nn.SoftmaxOp, nn.LogSoftmaxOp)
def softmax(op: nn.SoftmaxOp | nn.LogSoftmaxOp, layer: OnnxLayer) -> str:
    op_type = "Softmax" if isinstance(op, nn.SoftmaxOp) else "LogSoftmax"
    x = softmax_input(op.input, op.result, layer) if isinstance(op, nn.SoftmaxOp) else op.input
    return along_axis(op_type, x, len(shape_of(op.input)), op.axis.value.data, layer)


def along_axis(op_type: str, x: Operand, rank: int, axis: int, layer: OnnxLayer) -> str:
    """Softmax or LogSoftmax; before opset 13 these use all axes from `axis` on at once, so it must be the last one."""
    last = axis % rank if rank else 0
    if layer.opset >= 13 or last == max(rank - 1, 0):
        return layer.node(op_type, x, axis=axis)
    swapped = [*range(last), rank - 1, *range(last + 1, rank - 1), last]
    result = layer.node(op_type, layer.helper("Transpose", x, perm=swapped), axis=rank - 1)
    return layer.helper("Transpose", result, perm=swapped)
