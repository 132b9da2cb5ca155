"""Activations, arithmetic, comparison, cast."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, cast

from onnx import helper
from xdsl.dialects.builtin import FloatAttr

from ...dialects import nn
from ...dialects.nn.properties import number_defaults
from ...dialects.nn.shapes import element_of
from ...formats.onnx.counterparts import COUNTERPARTS
from ...ir.dtypes import numpy_dtype
from ..converters import Expand
from .float_layers import summand
from .layer import Layer, Written, converter


@converter(*COUNTERPARTS)
def same(op: nn.NNOp, layer: Layer) -> str:
    attributes = {name: cast("FloatAttr[Any]", op.properties[name]).value.data for name in number_defaults(type(op))}
    return layer.node(COUNTERPARTS[type(op)], *op.operands, **attributes)


@converter(nn.AddOp)
def add(op: nn.AddOp, layer: Layer) -> str:
    return layer.node("Add", *(summand(x, layer) for x in op.operands))


@converter(nn.ClipOp)
def clip(op: nn.ClipOp, layer: Layer) -> str:
    low, high = op.bounds
    return layer.node(
        "Clip",
        op.input,
        None if low == -inf else layer.scalar(low, op.input, "min"),
        None if high == inf else layer.scalar(high, op.input, "max"),
    )


@converter(nn.HardSwishOp, nn.MishOp)
def since_an_opset(op: nn.UnaryOp, layer: Layer) -> Written:
    if layer.opset < _SINCE[type(op)]:
        raise Expand
    return same(op, layer)


_SINCE: Mapping[type[nn.UnaryOp], int] = {nn.HardSwishOp: 14, nn.MishOp: 18}


@converter(nn.GeluOp)
def gelu(op: nn.GeluOp, layer: Layer) -> str:
    if layer.opset < 20:
        raise Expand
    return layer.node("Gelu", op.input, approximate="none" if op.tanh_approximation is None else "tanh")


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
