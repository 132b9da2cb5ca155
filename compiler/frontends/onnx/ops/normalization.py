"""Normalizations and softmax."""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from ....dialects import nn
from ....dialects.nn.shapes import DYNAMIC, axis_of, known
from ..node import Constant, Converted, Node, Unmapped, converter
from ..rows import by_row


@converter("BatchNormalization")
def batch_normalization(node: Node) -> Converted:
    """Inference only: `training_mode` (opset 14), or a use of the statistics (before), is training."""
    if node.int("training_mode", 0) or any(node.uses_output(i) for i in range(1, 5)):
        raise Unmapped("it computes the statistics of training")
    if not node.int("spatial", 1):
        raise Unmapped("it normalizes each element on its own (spatial = 0)")
    if len(node.shape(0)) < 2:
        raise Unmapped("its input has no axis of channels")
    return by_row(node)


@converter("GroupNormalization")
def group_normalization(node: Node) -> Converted:
    """Scale and bias are given per group before opset 21, per channel since."""
    if node.int("stash_type", 1) != 1:
        raise Unmapped("it computes in another type than float32 (stash_type)")
    groups = node.required_int("num_groups")
    if len(node.shape(0)) < 2:
        raise node.error("has an input without an axis of channels")
    channels = node.shape(0)[1]
    scale, bias = (_per_channel(node, i, channels, groups) for i in (1, 2))
    epsilon = node.float("epsilon", 1e-5)
    return node.emit(nn.GroupNormOp, node.value(0), scale, bias, num_groups=groups, epsilon=epsilon).result


def _per_channel(node: Node, index: int, channels: int, groups: int) -> SSAValue:
    if node.version >= 21 or node.shape(index) == (channels,):
        return node.value(index)
    binding = node.binding(index)
    if not isinstance(binding, Constant) or groups < 1 or not known(channels):
        raise Unmapped("its scale and bias per group are not known")
    return node.sink.value(Constant(binding.key, np.repeat(binding.array, channels // groups)))


@converter("LayerNormalization")
def layer_normalization(node: Node) -> Converted:
    if node.uses_output(1) or node.uses_output(2):
        raise Unmapped("its mean and deviation are used")
    if node.int("stash_type", 1) != 1:
        raise Unmapped("it computes in another type than float32 (stash_type)")
    return by_row(node)


_SOFTMAX: dict[str, type[nn.SoftmaxOp | nn.LogSoftmaxOp]] = {"Softmax": nn.SoftmaxOp, "LogSoftmax": nn.LogSoftmaxOp}


@converter(*_SOFTMAX)
def softmax(node: Node) -> Converted:
    """Along one axis since opset 13; before, over all axes from `axis` on at once."""
    op, shape = _SOFTMAX[node.op_type], node.shape(0)
    if node.version >= 13:
        return by_row(node)
    axis = axis_of(node.int("axis", 1), len(shape)) if shape else 0
    if all(d == 1 for d in shape[axis + 1 :]):
        return node.emit(op, node.value(0), axis=axis - len(shape) if axis == len(shape) - 1 else axis).result
    flat = node.emit(nn.FlattenOp, node.value(0), axis=axis).result
    result = node.emit(op, flat, axis=-1).result
    if shape.count(DYNAMIC) <= 1 and prod(d for d in shape if known(d)):
        return node.emit(nn.ReshapeOp, result, to=[d if known(d) else -1 for d in shape]).result
    sizes = node.emit(nn.ShapeOp, node.value(0)).result
    return node.emit(nn.ReshapeOp, result, sizes, result_types=[node.value(0).type]).result
