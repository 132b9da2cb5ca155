"""Activations, arithmetic, comparison, cast."""

from __future__ import annotations

from math import inf, pi, sqrt
from typing import Any, cast

from onnx import helper
from xdsl.dialects.builtin import FloatAttr

from ...dialects import nn
from ...dialects.nn.properties import number_defaults
from ...dialects.nn.shapes import element_of
from ...formats.onnx.counterparts import COUNTERPARTS
from ...ir.dtypes import numpy_dtype
from .float_layers import summand
from .layer import Layer, converter
from .steps import Steps


@converter(*COUNTERPARTS)
def same(op: nn.NNOp, layer: Layer) -> str:
    attributes = {name: cast("FloatAttr[Any]", op.properties[name]).value.data for name in number_defaults(type(op))}
    return layer.node(COUNTERPARTS[type(op)], *op.operands, **attributes)


@converter(nn.AddOp)
def add(op: nn.AddOp, layer: Layer) -> str:
    return layer.node("Add", *(summand(x, layer) for x in op.operands))


@converter(nn.Relu6Op)
def relu6(op: nn.Relu6Op, layer: Layer) -> str:
    return layer.node("Clip", op.input, layer.scalar(0, op.input, "min"), layer.scalar(6, op.input, "max"))


@converter(nn.ClipOp)
def clip(op: nn.ClipOp, layer: Layer) -> str:
    low, high = op.bounds
    return layer.node(
        "Clip",
        op.input,
        None if low == -inf else layer.scalar(low, op.input, "min"),
        None if high == inf else layer.scalar(high, op.input, "max"),
    )


@converter(nn.HardSwishOp)
def hard_swish(op: nn.HardSwishOp, layer: Layer) -> str:
    """HardSwish came with opset 14; before, its definition."""
    if layer.opset >= 14:
        return layer.node("HardSwish", op.input)
    steps = Steps(layer, op.input)
    x = steps.take(op.input)
    return steps.rounded(layer.node("Mul", x, layer.helper("HardSigmoid", x, alpha=1 / 6, beta=0.5)))


@converter(nn.MishOp)
def mish(op: nn.MishOp, layer: Layer) -> str:
    """Mish came with opset 18; before, its definition."""
    if layer.opset >= 18:
        return layer.node("Mish", op.input)
    steps = Steps(layer, op.input)
    x = steps.take(op.input)
    return steps.rounded(layer.node("Mul", x, layer.helper("Tanh", layer.helper("Softplus", x))))


@converter(nn.GeluOp)
def gelu(op: nn.GeluOp, layer: Layer) -> str:
    """Gelu came with opset 20; before, its definition, in the order of the operator's function body."""
    if layer.opset >= 20:
        return layer.node("Gelu", op.input, approximate="none" if op.tanh_approximation is None else "tanh")

    steps = Steps(layer, op.input)
    x = steps.take(op.input)
    if op.tanh_approximation is None:
        bent = layer.helper("Erf", layer.helper("Mul", x, steps.number(1 / sqrt(2), "sqrt_half")))
    else:
        cube = layer.helper("Pow", x, steps.number(3, "three"))
        inner = layer.helper("Add", x, layer.helper("Mul", cube, steps.number(0.044715, "cubic")))
        bent = layer.helper("Tanh", layer.helper("Mul", inner, steps.number(sqrt(2 / pi), "slope")))
    weight = layer.helper("Mul", layer.helper("Add", bent, steps.number(1, "one")), steps.number(0.5, "half"))
    return steps.rounded(layer.node("Mul", x, weight))


@converter(nn.RsqrtOp)
def rsqrt(op: nn.RsqrtOp, layer: Layer) -> str:
    steps = Steps(layer, op.input)
    return steps.rounded(layer.node("Reciprocal", layer.helper("Sqrt", steps.take(op.input))))


_PREDICATES = {
    nn.Predicate.EQ: "Equal",
    nn.Predicate.LT: "Less",
    nn.Predicate.LE: "LessOrEqual",
    nn.Predicate.GT: "Greater",
    nn.Predicate.GE: "GreaterOrEqual",
}


@converter(nn.CompareOp)
def compare(op: nn.CompareOp, layer: Layer) -> str:
    if (predicate := op.predicate.data) is nn.Predicate.NE:
        return layer.node("Not", layer.helper("Equal", op.lhs, op.rhs))
    op_type = _PREDICATES[predicate]
    if op_type.endswith("OrEqual"):
        layer.require(12, op_type)
    return layer.node(op_type, op.lhs, op.rhs)


@converter(nn.CastOp)
def cast_(op: nn.CastOp, layer: Layer) -> str:
    dtype = numpy_dtype(element_of(op.result))
    return layer.node("Cast", op.input, to=helper.np_dtype_to_tensor_dtype(dtype))
