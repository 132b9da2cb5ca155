"""Normalizations and softmax."""

from __future__ import annotations

from ....dialects import nn
from ....dialects.nn.shapes import DYNAMIC, tensor, tensor_of
from ....dtypes import Tensor
from ..node import Converted, Node, Unmapped, converter


@converter("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def fused_batch_norm(node: Node) -> Converted:
    """Inference only; batch mean and variance are then those that were given."""
    if node.flag("is_training", True):
        raise Unmapped("it computes the statistics of training", _training_types(node))
    x, scale, offset, mean, variance = (node.value(i) for i in range(5))
    epsilon = node.float("epsilon", 1e-4)
    norm = node.emit(nn.BatchNormOp, x, scale, offset, mean, variance, epsilon=epsilon, layout=node.layout)
    return norm.result, node.binding(3), node.binding(4)


def _training_types(node: Node) -> list[Tensor]:
    """Of the results in training: one more than TensorFlow knows the rank of."""
    x, statistics = tensor_of(node.value(0)), tensor_of(node.value(1))
    reserved = [tensor(statistics.element_type, [DYNAMIC])] if node.op_type == "FusedBatchNormV3" else []
    return [x, *[statistics] * 4, *reserved]


@converter("LRN")
def lrn(node: Node) -> Converted:
    """Over 2 * depth_radius + 1 channels, which stand last. `alpha` is the factor of the sum, that of `nn` of the mean."""
    size = 2 * node.int("depth_radius", 5) + 1
    return node.emit(
        nn.LRNOp,
        node.value(0),
        size=size,
        alpha=node.float("alpha", 1.0) * size,
        beta=node.float("beta", 0.5),
        bias=node.float("bias", 1.0),
        layout="nhwc",
    ).result


_SOFTMAX: dict[str, type[nn.SoftmaxOp | nn.LogSoftmaxOp]] = {"Softmax": nn.SoftmaxOp, "LogSoftmax": nn.LogSoftmaxOp}


@converter(*_SOFTMAX)
def softmax(node: Node) -> Converted:
    """Along the last axis."""
    return node.emit(_SOFTMAX[node.op_type], node.value(0)).result
