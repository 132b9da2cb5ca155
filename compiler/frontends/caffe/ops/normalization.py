"""BatchNorm, Scale, Bias, LRN."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from ....dialects import nn
from ....dialects.nn.shapes import shape_of
from ..node import Constant, Converted, Node, Unmapped, converter, enum_name


@converter("BatchNorm")
def batch_norm(node: Node) -> Converted:
    """`(x - mean) / sqrt(variance + eps)`; the blobs contain sums, the third one their divisor: 0 means infinity."""
    p = node.proto.batch_norm_param
    if not (p.use_global_stats if p.HasField("use_global_stats") else not node.trains):
        raise Unmapped("it normalizes by the statistics of the batch")
    channels = node.size(1) if len(node.shape(0)) > 1 else 1
    mean, variance, count = node.parameters(mean=(channels,), variance=(channels,), factor=(1,))
    factor = float(count.array.reshape(()))
    scale = 0.0 if factor == 0 else 1.0 / factor
    parameters = [
        node.constant(np.ones(channels, np.float32), ".scale"),
        node.constant(np.zeros(channels, np.float32), ".offset"),
        node.sink.value(_times(mean, scale)),
        node.sink.value(_times(variance, scale)),
    ]
    return node.emit(nn.BatchNormOp, node.value(0), *parameters, epsilon=p.eps).result


def _times(constant: Constant, factor: float) -> Constant:
    with np.errstate(over="ignore"):
        return Constant(constant.key, (constant.array * np.float64(factor)).astype(np.float32))


@converter("Scale", bottoms=(1, 2))
def scale(node: Node) -> Converted:
    """`x * factor + bias` along `num_axes` axes from `axis` on; the factor is a blob, or the second bottom."""
    p = node.proto.scale_param
    if len(node.inputs) == 2:
        axis, factor = _from_bottom(node, p.axis)
        bias = _constants(node, axis, len(node.shape(1)), "bias") if p.bias_term else []
    else:
        axis = node.axis(p.axis)
        factor, *bias = _constants(node, axis, p.num_axes, "scale", *["bias"] * p.bias_term)
    scaled = node.emit(nn.MulOp, node.value(0), factor).result
    return node.emit(nn.AddOp, scaled, bias[0]).result if bias else scaled


@converter("Bias", bottoms=(1, 2))
def bias(node: Node) -> Converted:
    """`x + bias` along `num_axes` axes from `axis` on; the bias is a blob, or the second bottom."""
    p = node.proto.bias_param
    if len(node.inputs) == 2:
        addend = _from_bottom(node, p.axis)[1]
    else:
        (addend,) = _constants(node, node.axis(p.axis), p.num_axes, "bias")
    return node.emit(nn.AddOp, node.value(0), addend).result


def _from_bottom(node: Node, given: int) -> tuple[int, SSAValue]:
    """The axis, and the second bottom reshaped with trailing axes of size 1 to broadcast against the first."""
    rank, own = len(node.shape(0)), len(node.shape(1))
    axis = node.axis(given) if own else 0  # a scalar broadcasts along every axis
    if axis + own > rank:
        raise node.error(f"multiplies or adds {own} axes from axis {axis} on of a blob of rank {rank}")
    behind = rank - axis - own
    if not behind:
        return axis, node.value(1)
    return axis, node.emit(nn.UnsqueezeOp, node.value(1), axes=list(range(own, own + behind))).result


def _constants(node: Node, axis: int, count: int, *names: str) -> list[SSAValue]:
    """Blobs along `count` axes from `axis` on (-1: all of them), in a shape that broadcasts."""
    x = node.shape(0)
    end = len(x) if count == -1 else axis + count
    if not axis <= end <= len(x):
        raise node.error(f"has num_axes {count} from axis {axis} on of a blob of rank {len(x)}")
    constants = node.parameters(**dict.fromkeys(names, x[axis:end]))
    return [node.row(c, axis, len(x)) for c in constants]


@converter("LRN")
def lrn(node: Node) -> Converted:
    p = node.proto.lrn_param
    if p.local_size % 2 == 0:
        raise node.error(f"has local_size {p.local_size}, but it needs an odd one")
    if enum_name(p, "norm_region") == "WITHIN_CHANNEL":
        return _within_channel(node, p.local_size, p.alpha, p.beta)
    return node.emit(nn.LRNOp, node.value(0), size=p.local_size, alpha=p.alpha, beta=p.beta, bias=p.k).result


def _within_channel(node: Node, size: int, alpha: float, beta: float) -> Converted:
    """`x * (1 + alpha * mean of squares in a window)^-beta`; the mean counts the padding, `k` is not used."""
    x = node.value(0)
    if len(shape_of(x)) != 4:
        raise node.error(f"reads a blob of rank {len(shape_of(x))}, but it needs rank 4")
    squares = node.emit(nn.MulOp, x, x).result
    pads = [(size - 1) // 2] * 4
    mean = node.emit(
        nn.AveragePoolOp, squares, kernel=[size, size], pads=pads if any(pads) else None, count_include_pad=any(pads)
    ).result
    power = node.emit(nn.PowOp, node.scaled(mean, alpha, 1.0), node.scalar(-beta, ".beta")).result
    return node.emit(nn.MulOp, x, power).result
