"""Activations, arithmetic on single elements, Eltwise."""

from __future__ import annotations

from math import log

import numpy as np

from ....dialects import nn
from ....dialects.nn.shapes import merge_shape
from ..node import MANY, Converted, Node, converter, enum_name


@converter("ReLU")
def relu(node: Node) -> Converted:
    slope = node.proto.relu_param.negative_slope
    if slope == 0.0:
        return node.emit(nn.ReluOp, node.value(0)).result
    return node.emit(nn.LeakyReluOp, node.value(0), alpha=slope).result


@converter("Clip")
def clip(node: Node) -> Converted:
    p = node.proto.clip_param
    if not p.HasField("min") or not p.HasField("max"):
        raise node.error("needs min and max")
    if (p.min, p.max) == (0.0, 6.0):
        return node.emit(nn.Relu6Op, node.value(0)).result
    return node.emit(nn.ClipOp, node.value(0), min=p.min, max=p.max).result


@converter("PReLU")
def prelu(node: Node) -> Converted:
    """A slope for each channel, or one for all."""
    rank = len(node.shape(0))
    shape = () if node.proto.prelu_param.channel_shared else (node.size(1),)
    (slope,) = node.parameters(slope=shape)
    return node.emit(nn.PReluOp, node.value(0), node.row(slope, 1, rank) if shape else node.sink.value(slope)).result


@converter("Power")
def power(node: Node) -> Converted:
    """`(shift + scale * x)^power`."""
    p = node.proto.power_param
    x = node.scaled(node.value(0), p.scale, p.shift)
    return x if p.power == 1.0 else node.emit(nn.PowOp, x, node.scalar(p.power, ".power")).result


@converter("Exp")
def exp(node: Node) -> Converted:
    """`base^(shift + scale * x)`; base -1 stands for e."""
    p = node.proto.exp_param
    _check_base(node, p.base)
    x = node.scaled(node.value(0), p.scale, p.shift)
    if p.base != -1.0:
        x = node.scaled(x, log(p.base))
    return node.emit(nn.ExpOp, x).result


@converter("Log")
def log_(node: Node) -> Converted:
    """The logarithm of `shift + scale * x` to a base; -1 stands for e."""
    p = node.proto.log_param
    _check_base(node, p.base)
    result = node.emit(nn.LogOp, node.scaled(node.value(0), p.scale, p.shift)).result
    return result if p.base == -1.0 else node.scaled(result, 1.0 / log(p.base))


def _check_base(node: Node, base: float) -> None:
    if base != -1.0 and not (base > 0.0 and np.isfinite(base)):
        raise node.error(f"has base {base}, but it needs a positive one, or -1 for e")
    if base == 1.0 and node.op_type == "Log":
        raise node.error("has base 1, to which there is no logarithm")


@converter("Threshold")
def threshold(node: Node) -> Converted:
    """1 above the threshold, 0 elsewhere."""
    x = node.value(0)
    above = node.emit(nn.CompareOp, x, node.scalar(node.proto.threshold_param.threshold, ".threshold"), predicate="gt")
    return node.emit(nn.CastOp, above.result, result_types=[x.type]).result


_ELTWISE: dict[str, type[nn.BinaryOp]] = {"PROD": nn.MulOp, "SUM": nn.AddOp, "MAX": nn.MaxOp}


@converter("Eltwise", bottoms=(2, MANY))
def eltwise(node: Node) -> Converted:
    """Combines any number of blobs of one shape, from left to right; in a sum each may have a coefficient."""
    p = node.proto.eltwise_param
    kind, count = enum_name(p, "operation"), len(node.inputs)
    if p.coeff and (kind == "PROD" or len(p.coeff) != count):
        raise node.error(f"has {len(p.coeff)} coefficients for a {kind} of {count} bottoms")
    coefficients = list(p.coeff) if p.coeff and kind == "SUM" else [1.0] * count
    for i in range(1, count):
        merge_shape(node.shape(0), node.shape(i), f"sizes of bottom 0 and {i}")
    values = [node.scaled(node.value(i), c) for i, c in enumerate(coefficients)]
    result = values[0]
    for value in values[1:]:
        result = node.emit(_ELTWISE[kind], result, value).result
    return result
