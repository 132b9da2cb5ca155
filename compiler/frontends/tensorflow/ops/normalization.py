"""Normalizations."""

from __future__ import annotations

from xdsl.ir import SSAValue

from ....dialects import nn
from ....dialects.nn.shapes import DYNAMIC, shape_of, tensor, tensor_of
from ....ir.dtypes import Tensor
from ..node import Converted, Node, Unmapped, converter


@converter("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def fused_batch_norm(node: Node) -> Converted:
    """Converts FusedBatchNorm. At inference batch mean and variance are the inputs; statistics of a single sample do
    not need training.
    """
    if node.flag("is_training", True):
        return _normalized_sample(node)
    x, scale, offset, mean, variance = (node.value(i) for i in range(5))
    epsilon = node.float("epsilon", 1e-4)
    norm = node.emit(nn.BatchNormOp, x, scale, offset, mean, variance, epsilon=epsilon, layout=node.layout)
    return norm.result, node.binding(3), node.binding(4)


def _normalized_sample(node: Node) -> SSAValue:
    """The layer normalization of Keras 2, which reshapes samples and positions to channels of a batch of one.

    Raises Unmapped for a larger batch, whose samples would depend on each other, and if its statistics are read.
    """
    x, shape = node.value(0), node.shape(0)
    if shape[0] != 1 or set(node.used) - {0} or node.dtype(0) != node.dtype(1):
        raise Unmapped("it computes the statistics of training", _training_types(node))
    axes = list(range(2, len(shape)) if node.layout == "nchw" else range(1, len(shape) - 1))
    mean = node.emit(nn.ReduceMeanOp, x, axes=axes, keepdims=True).result
    centered = node.emit(nn.SubOp, x, mean).result
    square = node.emit(nn.MulOp, centered, centered).result
    variance = node.emit(nn.ReduceMeanOp, square, axes=axes, keepdims=True).result
    added = node.emit(nn.AddOp, variance, node.scalar(node.float("epsilon", 1e-4), suffix=".epsilon")).result
    normal = node.emit(nn.MulOp, centered, node.emit(nn.RsqrtOp, added).result).result
    scaled = node.emit(nn.MulOp, normal, _per_channel(node, 1)).result
    return node.emit(nn.AddOp, scaled, _per_channel(node, 2)).result


def _per_channel(node: Node, index: int) -> SSAValue:
    """A parameter in a shape that broadcasts; if it has one value for any number of channels, it is that number."""
    value = node.value(index)
    if isinstance(value.owner, nn.ExpandOp) and shape_of(value.owner.operands[0]) == ():
        return value.owner.operands[0]
    if node.layout == "nhwc":
        return value
    return node.emit(nn.UnsqueezeOp, value, axes=list(range(1, len(node.shape(0)) - 1))).result


def _training_types(node: Node) -> list[Tensor]:
    """The types of the results in training: one more than those whose rank TensorFlow knows."""
    x, statistics = tensor_of(node.value(0)), tensor_of(node.value(1))
    reserved = [tensor(statistics.element_type, [DYNAMIC])] if node.op_type == "FusedBatchNormV3" else []
    return [x, *[statistics] * 4, *reserved]


@converter("LRN")
def lrn(node: Node) -> Converted:
    """LRN over 2 * depth_radius + 1 channels, which are last. `alpha` is the factor of the sum, in `nn` that of the mean."""
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
