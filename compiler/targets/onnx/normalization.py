"""Normalizations and softmax."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import FloatAttr

from ...dialects import nn
from ...dialects.nn.shapes import element_of, shape_of
from ...ir.dtypes import numpy_dtype
from ..converters import Expand
from .float_layers import softmax_input
from .layer import Layer, Operand, converter


def _number(attribute: FloatAttr[Any]) -> float:
    return attribute.value.data


@converter(nn.BatchNormOp)
def batch_norm(op: nn.BatchNormOp, layer: Layer) -> str:
    parameters = (op.scale, op.offset, op.mean, op.variance)
    epsilon = _number(op.epsilon)
    return layer.node("BatchNormalization", op.input, *parameters, epsilon=epsilon)


@converter(nn.InstanceNormOp)
def instance_norm(op: nn.InstanceNormOp, layer: Layer) -> str:
    epsilon = _number(op.epsilon)
    return layer.node("InstanceNormalization", op.input, op.scale, op.bias, epsilon=epsilon)


@converter(nn.GroupNormOp)
def group_norm(op: nn.GroupNormOp, layer: Layer) -> str:
    """GroupNormalization with a scale per channel came with opset 21 (18 had one per group)."""
    if layer.opset < 21:
        raise Expand
    groups, epsilon = op.num_groups.value.data, _number(op.epsilon)
    return layer.node("GroupNormalization", op.input, op.scale, op.bias, num_groups=groups, epsilon=epsilon)


@converter(nn.LayerNormOp)
def layer_norm(op: nn.LayerNormOp, layer: Layer) -> str:
    """LayerNormalization came with opset 17. It computes in float32 and requires scale and bias of the normalized shape."""
    shape = shape_of(op.input)
    axis = op.axis.value.data % len(shape)
    parameters = [shape_of(v) for v in (op.scale, op.bias) if v is not None]
    direct = all(p == shape[axis:] for p in parameters) and numpy_dtype(element_of(op.input)).itemsize <= 4
    if layer.opset < 17 or not direct:
        raise Expand
    return layer.node(
        "LayerNormalization", op.input, op.scale, op.bias, axis=op.axis.value.data, epsilon=_number(op.epsilon)
    )


@converter(nn.LRNOp)
def lrn(op: nn.LRNOp, layer: Layer) -> str:
    attributes = {"alpha": _number(op.alpha), "beta": _number(op.beta), "bias": _number(op.bias)}
    size = op.size.value.data
    return layer.node("LRN", op.input, size=size, **attributes)


@converter(nn.SoftmaxOp, nn.LogSoftmaxOp)
def softmax(op: nn.SoftmaxOp | nn.LogSoftmaxOp, layer: Layer) -> str:
    op_type = "Softmax" if isinstance(op, nn.SoftmaxOp) else "LogSoftmax"
    x = softmax_input(op.input, op.result, layer) if isinstance(op, nn.SoftmaxOp) else op.input
    return along_axis(op_type, x, len(shape_of(op.input)), op.axis.value.data, layer)


def along_axis(op_type: str, x: Operand, rank: int, axis: int, layer: Layer) -> str:
    """Softmax or LogSoftmax; before opset 13 these use all axes from `axis` on at once, so it must be the last one."""
    last = axis % rank if rank else 0
    if layer.opset >= 13 or last == max(rank - 1, 0):
        return layer.node(op_type, x, axis=axis)
    swapped = [*range(last), rank - 1, *range(last + 1, rank - 1), last]
    result = layer.node(op_type, layer.helper("Transpose", x, perm=swapped), axis=rank - 1)
    return layer.helper("Transpose", result, perm=swapped)
