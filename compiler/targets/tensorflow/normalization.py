"""Normalizations and softmax. If TensorFlow has no operator for a CPU, the definition in small ones, in float32 or wider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FloatAttr

from ...dialects import nn
from ...dialects.nn.shapes import shape_of
from ..graph import source
from .convolution import has_groups
from .graph import Array, element_of
from .layer import Layer, converter, per_channel, transposed
from .movement import Axis, cut, pad_all, reshaped


def _number(attribute: FloatAttr[Any]) -> float:
    return attribute.value.data


@converter(nn.BatchNormOp)
def batch_norm(op: nn.BatchNormOp, layer: Layer) -> str:
    """FusedBatchNormV3 of images, with float32 parameters; otherwise a factor and a summand per channel, in any layout."""
    parameters = (op.scale, op.offset, op.mean, op.variance)
    images = len(shape_of(op.input)) == 4 and element_of(op.input) != "float64"
    producer = source(op.input).owner
    if isinstance(producer, nn.ConvOp) and has_groups(producer):
        images = False
    if not images or {element_of(p) for p in parameters} != {"float32"}:
        return _scaled_and_shifted(op, layer)
    attributes = {"epsilon": _number(op.epsilon), "is_training": False}
    return layer.node("FusedBatchNormV3", op.input, *parameters, **attributes)


def _scaled_and_shifted(op: nn.BatchNormOp, layer: Layer) -> str:
    rank, element = len(shape_of(op.input)), element_of(op.input)
    arrays = [nn.array_of(source(p)) for p in (op.scale, op.offset, op.mean, op.variance)]
    constants = [a.astype(np.float64) for a in arrays if a is not None]
    x = layer.wide(op.input)
    if len(constants) == 4:
        scale, offset, mean, variance = constants
        factors = scale / np.sqrt(variance + _number(op.epsilon))
        made = [_vector(layer, v, x, role) for v, role in ((factors, "factor"), (offset - mean * factors, "summand"))]
    else:
        made = _factor_and_summand(op, layer, layer.graph.elements[x])
    factor, summand = (per_channel(op, layer, v, rank) for v in made)
    return layer.cast(layer.helper("AddV2", layer.node("Mul", x, factor), summand), element)


def _vector(layer: Layer, array: Array, like: str, role: str) -> str:
    return layer.constant(array.astype(layer.graph.elements[like]), role)


def _factor_and_summand(op: nn.BatchNormOp, layer: Layer, element: str) -> list[str]:
    scale, offset, mean, variance = (layer.cast(p, element) for p in (op.scale, op.offset, op.mean, op.variance))
    epsilon = layer.scalar(_number(op.epsilon), variance, "epsilon")
    deviation = layer.helper("Sqrt", layer.helper("AddV2", variance, epsilon))
    factor = layer.helper("RealDiv", scale, deviation)
    return [factor, layer.helper("Sub", offset, layer.helper("Mul", mean, factor))]


def _standardized(layer: Layer, x: str, axes: Sequence[int], epsilon: float) -> str:
    """`(x - mean) / sqrt(variance + epsilon)` over axes."""
    over = layer.ints(axes, "axes")
    centered = layer.helper("Sub", x, layer.helper("Mean", x, over, keep_dims=True))
    variance = layer.helper("Mean", layer.helper("Square", centered), over, keep_dims=True)
    deviation = layer.helper("Sqrt", layer.helper("AddV2", variance, layer.scalar(epsilon, x, "epsilon")))
    return layer.node("RealDiv", centered, deviation)


def _affine(layer: Layer, x: str, scale: str, bias: str | None, element: str) -> str:
    wide = layer.graph.elements[x]
    y = layer.helper("Mul", x, layer.cast(scale, wide))
    y = y if bias is None else layer.helper("AddV2", y, layer.cast(bias, wide))
    return layer.cast(y, element)


def _parameters(op: nn.InstanceNormOp | nn.GroupNormOp, layer: Layer, rank: int) -> tuple[str, str]:
    scale, bias = (per_channel(op, layer, layer.value(v), rank) for v in (op.scale, op.bias))
    return scale, bias


@converter(nn.InstanceNormOp)
def instance_norm(op: nn.InstanceNormOp, layer: Layer) -> str:
    rank = len(shape_of(op.input))
    axes = [a for a in range(1, rank) if a != op.channel_axis(rank)]
    normalized = _standardized(layer, layer.wide(op.input), axes, _number(op.epsilon))
    return _affine(layer, normalized, *_parameters(op, layer, rank), element_of(op.input))


@converter(nn.GroupNormOp)
def group_norm(op: nn.GroupNormOp, layer: Layer) -> str:
    """The channel axis as two: groups and channels per group."""
    shape, x = shape_of(op.input), layer.wide(op.input)
    rank, groups, channel = len(shape), op.num_groups.value.data, op.channel_axis(len(shape))
    sizes = [Axis(i) for i in range(rank)]
    apart = reshaped(layer, x, shape, [*sizes[:channel], groups, -1, *sizes[channel + 1 :]])
    axes = [a for a in range(1, rank + 1) if a != channel]
    normalized = _standardized(layer, apart, axes, _number(op.epsilon))
    together = layer.helper("Reshape", normalized, layer.sizes(x))
    return _affine(layer, together, *_parameters(op, layer, rank), element_of(op.input))


@converter(nn.LayerNormOp)
def layer_norm(op: nn.LayerNormOp, layer: Layer) -> str:
    rank = len(shape_of(op.input))
    axes = range(op.axis.value.data % rank, rank)
    normalized = _standardized(layer, layer.wide(op.input), axes, _number(op.epsilon))
    bias = None if op.bias is None else layer.value(op.bias)
    return _affine(layer, normalized, layer.value(op.scale), bias, element_of(op.input))


@converter(nn.LRNOp)
def lrn(op: nn.LRNOp, layer: Layer) -> str:
    """LRN of images with as many channels on both sides, otherwise its definition."""
    size, alpha = op.size.value.data, _number(op.alpha) / op.size.value.data
    beta, bias = _number(op.beta), _number(op.bias)
    if len(shape_of(op.input)) == 4 and size % 2 and element_of(op.input) in ("float16", "float32"):
        attributes = {"depth_radius": size // 2, "bias": bias, "alpha": alpha, "beta": beta}
        return layer.node("LRN", op.input, **attributes)
    x = layer.wide(op.input)
    total = layer.helper("Mul", _channel_sums(op, layer, x, size), layer.scalar(alpha, x, "alpha"))
    total = layer.helper("AddV2", total, layer.scalar(bias, x, "bias"))
    divisor = layer.helper("Pow", total, layer.scalar(beta, x, "beta"))
    return layer.cast(layer.node("RealDiv", x, divisor), element_of(op.input))


def _channel_sums(op: nn.LRNOp, layer: Layer, x: str, size: int) -> str:
    """The sum of the squares of the channels around each."""
    rank, before = len(shape_of(op.input)), (size - 1) // 2
    channel = op.channel_axis(rank)
    begins, ends = [0] * rank, [0] * rank
    begins[channel], ends[channel] = before, size - 1 - before
    squares = pad_all(layer, layer.helper("Square", x), begins, ends, 0)
    taps: list[str] = []
    for i in range(size):
        slices = [slice(None)] * rank
        slices[channel] = slice(i, i + 1 - size or None)
        taps.append(cut(layer, squares, slices))
    return layer.helper("AddN", *taps)


_SOFTMAX: dict[type[nn.NNOp], str] = {nn.SoftmaxOp: "Softmax", nn.LogSoftmaxOp: "LogSoftmax"}


@converter(nn.SoftmaxOp, nn.LogSoftmaxOp)
def softmax(op: nn.SoftmaxOp | nn.LogSoftmaxOp, layer: Layer) -> str:
    """Softmax over the last axis; another axis is swapped with it."""
    rank, op_type = len(shape_of(op.input)), _SOFTMAX[type(op)]
    axis = op.axis.value.data % rank
    if axis == rank - 1:
        return layer.node(op_type, op.input)
    perm = list(range(rank))
    perm[axis], perm[-1] = perm[-1], perm[axis]
    inner = layer.node(op_type, transposed(layer, layer.value(op.input), tuple(perm)))
    return transposed(layer, inner, tuple(perm))
