"""Activations, arithmetic, comparison, cast."""

from __future__ import annotations

from math import inf

import numpy as np

from ...dialects import nn
from ...formats.tensorflow.counterparts import COUNTERPARTS
from ...ir.dtypes import dtype_named
from ..converters import Expand
from .graph import element_of
from .layer import Layer, converter


@converter(*COUNTERPARTS)
def same(op: nn.NNOp, layer: Layer) -> str:
    return layer.node(COUNTERPARTS[type(op)], *op.operands)


@converter(nn.ClipOp)
def clip(op: nn.ClipOp, layer: Layer) -> str:
    low, high = op.bounds
    x = layer.value(op.input)
    if low == -inf and high == inf:
        return layer.node("Identity", x)
    if high == inf:
        return layer.node("Maximum", x, layer.scalar(low, x, "min"))
    if low != -inf:
        x = layer.helper("Maximum", x, layer.scalar(low, x, "min"))
    return layer.node("Minimum", x, layer.scalar(high, x, "max"))


@converter(nn.LeakyReluOp)
def leaky_relu(op: nn.LeakyReluOp, layer: Layer) -> str:
    return layer.node("LeakyRelu", op.input, alpha=op.alpha.value.data)


@converter(nn.EluOp)
def elu(op: nn.EluOp, layer: Layer) -> str:
    if op.alpha.value.data != 1:
        raise Expand
    return layer.node("Elu", op.input)


_SELU_ALPHA, _SELU_GAMMA = np.float32(1.6732632423543772), np.float32(1.0507009873554805)
"""The constants of the operator Selu."""


@converter(nn.SeluOp)
def selu(op: nn.SeluOp, layer: Layer) -> str:
    if (op.alpha.value.data, op.gamma.value.data) != (_SELU_ALPHA, _SELU_GAMMA):
        raise Expand
    return layer.node("Selu", op.input)


@converter(nn.DivOp)
def div(op: nn.DivOp, layer: Layer) -> str:
    integers = dtype_named(element_of(op.lhs)).kind in "iu"
    return layer.node("TruncateDiv" if integers else "RealDiv", op.lhs, op.rhs)


@converter(nn.PowOp)
def power(op: nn.PowOp, layer: Layer) -> str:
    """Both operands have the base's type; an integer to a float power is computed in float64."""
    base, exponent = (dtype_named(element_of(v)) for v in (op.lhs, op.rhs))
    if base.kind in "iu" and exponent.kind not in "iu":
        wide = layer.node("Pow", layer.cast(op.lhs, "float64"), layer.cast(op.rhs, "float64"))
        return layer.cast(wide, base.name)
    return layer.node("Pow", op.lhs, layer.cast(op.rhs, base.name))


_PREDICATES = {
    nn.Predicate.EQ: "Equal",
    nn.Predicate.NE: "NotEqual",
    nn.Predicate.LT: "Less",
    nn.Predicate.LE: "LessEqual",
    nn.Predicate.GT: "Greater",
    nn.Predicate.GE: "GreaterEqual",
}


@converter(nn.CompareOp)
def compare(op: nn.CompareOp, layer: Layer) -> str:
    return layer.node(_PREDICATES[op.predicate.data], op.lhs, op.rhs)


@converter(nn.CastOp)
def cast_(op: nn.CastOp, layer: Layer) -> str:
    return layer.node("Cast", op.input, DstT=dtype_named(element_of(op.result)))
