"""Normalizations and softmax that TensorFlow has operators for on a CPU."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import FloatAttr

from ...dialects import nn
from ...dialects.nn.shapes import shape_of
from ..converters import Expand
from .convolution import is_of_groups
from .graph import element_of
from .layer import TensorFlowLayer, converter, transposed


def _property_number(attribute: FloatAttr[Any]) -> float:
    return attribute.value.data


@converter(nn.BatchNormOp)
def batch_norm(op: nn.BatchNormOp, layer: TensorFlowLayer) -> str:
    """FusedBatchNormV3 of images with channels last, with float32 parameters."""
    parameters = (op.scale, op.offset, op.mean, op.variance)
    images = op.channels_last and len(shape_of(op.input)) == 4 and element_of(op.input) != "float64"
    if not images or is_of_groups(op.input) or {element_of(p) for p in parameters} != {"float32"}:
        raise Expand
    attributes = {"epsilon": _property_number(op.epsilon), "is_training": False}
    return layer.node("FusedBatchNormV3", op.input, *parameters, **attributes)


@converter(nn.LRNOp)
def lrn(op: nn.LRNOp, layer: TensorFlowLayer) -> str:
    """LRN of images with as many channels on both sides."""
    size = op.size.value.data
    if len(shape_of(op.input)) != 4 or size % 2 == 0 or element_of(op.input) not in ("float16", "float32"):
        raise Expand
    alpha, beta, bias = _property_number(op.alpha) / size, _property_number(op.beta), _property_number(op.bias)
    return layer.node("LRN", op.input, depth_radius=size // 2, bias=bias, alpha=alpha, beta=beta)


_SOFTMAX: dict[type[nn.NNOp], str] = {nn.SoftmaxOp: "Softmax", nn.LogSoftmaxOp: "LogSoftmax"}


@converter(nn.SoftmaxOp, nn.LogSoftmaxOp)
def softmax(op: nn.SoftmaxOp | nn.LogSoftmaxOp, layer: TensorFlowLayer) -> str:
    """Softmax over the last axis; another axis is swapped with it."""
    rank, op_type = len(shape_of(op.input)), _SOFTMAX[type(op)]
    axis = op.axis.value.data % rank
    if axis == rank - 1:
        return layer.node(op_type, op.input)
    perm = list(range(rank))
    perm[axis], perm[-1] = perm[-1], perm[axis]
    inner = layer.node(op_type, transposed(layer, layer.value(op.input), tuple(perm)))
    return transposed(layer, inner, tuple(perm))
