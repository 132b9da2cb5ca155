"""Activations, arithmetic, comparison, cast."""

from __future__ import annotations

from math import inf

from ...dialects import nn
from ...ir.dtypes import dtype_named
from .graph import element_of
from .layer import TensorFlowLayer, converter


@converter(nn.ClipOp)
def clip(op: nn.ClipOp, layer: TensorFlowLayer) -> str:
    low, high = op.bounds
    x = layer.value(op.input)
    if low == -inf and high == inf:
        return layer.node("Identity", x)
    if high == inf:
        return layer.node("Maximum", x, layer.scalar(low, x, "min"))
    if low != -inf:
        x = layer.helper("Maximum", x, layer.scalar(low, x, "min"))
    return layer.node("Minimum", x, layer.scalar(high, x, "max"))


@converter(nn.PowOp)
def power(op: nn.PowOp, layer: TensorFlowLayer) -> str:
    """Pow, with both operands in the base's type; an integer to a float power is computed in float64."""
    base, exponent = (dtype_named(element_of(v)) for v in (op.lhs, op.rhs))
    if base.kind in "iu" and exponent.kind not in "iu":
        wide = layer.node("Pow", layer.cast(op.lhs, "float64"), layer.cast(op.rhs, "float64"))
        return layer.cast(wide, base.name)
    return layer.node("Pow", op.lhs, layer.cast(op.rhs, base.name))


@converter(nn.CastOp)
def cast_(op: nn.CastOp, layer: TensorFlowLayer) -> str:
    return layer.node("Cast", op.input, DstT=dtype_named(element_of(op.result)))
