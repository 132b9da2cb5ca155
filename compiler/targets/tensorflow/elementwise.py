"""Activations, arithmetic, comparison, cast."""

from __future__ import annotations

from math import inf, pi, sqrt

import numpy as np

from ...dialects import nn
from ...formats.tensorflow.counterparts import COUNTERPARTS
from ...ir.dtypes import dtype_named
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
    if op.alpha.value.data == 1:
        return layer.node("Elu", op.input)
    return _bent(layer, layer.value(op.input), op.alpha.value.data)


_SELU_ALPHA, _SELU_GAMMA = np.float32(1.6732632423543772), np.float32(1.0507009873554805)
"""The constants of the operator Selu."""


@converter(nn.SeluOp)
def selu(op: nn.SeluOp, layer: Layer) -> str:
    alpha, gamma = op.alpha.value.data, op.gamma.value.data
    if (alpha, gamma) == (_SELU_ALPHA, _SELU_GAMMA):
        return layer.node("Selu", op.input)
    x = layer.value(op.input)
    return layer.helper("Mul", _bent(layer, x, alpha), layer.scalar(gamma, x, "gamma"))


def _bent(layer: Layer, x: str, alpha: float) -> str:
    """`x` where positive, `alpha * (exp(x) - 1)` elsewhere."""
    zero = layer.scalar(0, x, "zero")
    below = layer.helper("Expm1", layer.helper("Minimum", x, zero))
    below = layer.helper("Mul", below, layer.scalar(alpha, x, "alpha"))
    return layer.node("SelectV2", layer.helper("Greater", x, zero), x, below)


@converter(nn.PReluOp)
def prelu(op: nn.PReluOp, layer: Layer) -> str:
    below = layer.helper("Less", op.input, layer.scalar(0, op.input, "zero"))
    return layer.node("SelectV2", below, layer.helper("Mul", op.input, op.slope), op.input)


@converter(nn.HardSigmoidOp)
def hard_sigmoid(op: nn.HardSigmoidOp, layer: Layer) -> str:
    y = _hard_sigmoid(layer, layer.wide(op.input), op.alpha.value.data, op.beta.value.data)
    return layer.cast(y, element_of(op.input))


@converter(nn.HardSwishOp)
def hard_swish(op: nn.HardSwishOp, layer: Layer) -> str:
    x = layer.wide(op.input)
    return layer.cast(layer.helper("Mul", x, _hard_sigmoid(layer, x, 1 / 6, 0.5)), element_of(op.input))


def _hard_sigmoid(layer: Layer, x: str, alpha: float, beta: float) -> str:
    y = layer.helper("AddV2", layer.helper("Mul", x, layer.scalar(alpha, x, "alpha")), layer.scalar(beta, x, "beta"))
    y = layer.helper("Maximum", y, layer.scalar(0, x, "zero"))
    return layer.node("Minimum", y, layer.scalar(1, x, "one"))


@converter(nn.MishOp)
def mish(op: nn.MishOp, layer: Layer) -> str:
    x = layer.wide(op.input)
    return layer.cast(layer.node("Mul", x, layer.helper("Tanh", layer.helper("Softplus", x))), element_of(op.input))


@converter(nn.GeluOp)
def gelu(op: nn.GeluOp, layer: Layer) -> str:
    """Gelu in the steps of `tf.nn.gelu`."""
    x = layer.wide(op.input)

    def number(value: float, role: str) -> str:
        return layer.scalar(value, x, role)

    if op.tanh_approximation is None:
        bent = layer.helper("Erf", layer.helper("Mul", x, number(1 / sqrt(2), "sqrt_half")))
    else:
        cube = layer.helper("Mul", layer.helper("Square", x), x)
        inner = layer.helper("AddV2", x, layer.helper("Mul", cube, number(0.044715, "cubic")))
        bent = layer.helper("Tanh", layer.helper("Mul", inner, number(sqrt(2 / pi), "slope")))
    weight = layer.helper("Mul", layer.helper("AddV2", bent, number(1, "one")), number(0.5, "half"))
    return layer.cast(layer.node("Mul", x, weight), element_of(op.input))


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
