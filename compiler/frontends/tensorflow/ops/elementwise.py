"""Activations, arithmetic and cast."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from ....dialects import nn
from ....ir.dtypes import element_type
from ...shapes import exact
from ..node import Constant, Converted, Node, Unmapped, converter


@converter("Round")
def round_(node: Node) -> Converted:
    """Rounds halves to even; integers stay unchanged."""
    return node.binding(0) if _whole(node) else node.emit(nn.RoundOp, node.value(0)).result


@converter("Square")
def square(node: Node) -> Converted:
    x = node.value(0)
    return node.emit(nn.MulOp, x, x).result


@converter("SquaredDifference")
def squared_difference(node: Node) -> Converted:
    d = node.emit(nn.SubOp, node.value(0), node.value(1)).result
    return node.emit(nn.MulOp, d, d).result


@converter("Expm1")
def expm1(node: Node) -> Converted:
    """`exp(x) - 1`, which near 0 is exact to the rounding of 1."""
    return node.emit(nn.SubOp, node.emit(nn.ExpOp, node.value(0)).result, node.scalar(1)).result


@converter("Log1p")
def log1p(node: Node) -> Converted:
    """`log(x + 1)`, which near 0 is exact to the rounding of 1."""
    return node.emit(nn.LogOp, node.emit(nn.AddOp, node.value(0), node.scalar(1)).result).result


@converter("Erfc")
def erfc(node: Node) -> Converted:
    """`1 - erf(x)`, which for large x is exact to the rounding of 1."""
    return node.emit(nn.SubOp, node.scalar(1), node.emit(nn.ErfOp, node.value(0)).result).result


@converter("Sign")
def sign(node: Node) -> Converted:
    """1 above 0, -1 below, otherwise x itself: 0 or NaN."""
    if _unsigned(node):
        raise Unmapped("its result has no sign")
    result, zero = node.value(0), node.scalar(0, suffix=".zero")
    for predicate, value in (("gt", 1), ("lt", -1)):
        beyond = node.emit(nn.CompareOp, node.value(0), zero, predicate=predicate).result
        result = node.emit(nn.WhereOp, beyond, node.scalar(value, suffix=f".{predicate}"), result).result
    return result


@converter("AddN", "AccumulateNV2")
def add_n(node: Node) -> Converted:
    """Converts AddN: any number of inputs, from left to right."""
    result = node.value(0)
    for i in range(1, len(node.inputs)):
        result = node.emit(nn.AddOp, result, node.value(i)).result
    return result


@converter("DivNoNan", "MulNoNan")
def no_nan(node: Node) -> Converted:
    """0 if the second input is 0."""
    op = nn.DivOp if node.op_type == "DivNoNan" else nn.MulOp
    zero = node.scalar(0, suffix=".zero")
    is_zero = node.emit(nn.CompareOp, node.value(1), zero, predicate="eq").result
    return node.emit(nn.WhereOp, is_zero, zero, node.emit(op, node.value(0), node.value(1)).result).result


@converter("FloorDiv")
def floor_div(node: Node) -> Converted:
    """The quotient rounded down; for integers the truncated one, corrected if truncation rounded up."""
    quotient = node.emit(nn.DivOp, node.value(0), node.value(1)).result
    if not _whole(node):
        return node.emit(nn.FloorOp, quotient).result
    if _unsigned(node):
        return quotient
    return node.emit(nn.AddOp, quotient, _correction(node, _remainder(node, quotient))).result


@converter("FloorMod")
def floor_mod(node: Node) -> Converted:
    """The remainder of FloorDiv, with the divisor's sign."""
    remainder = _truncated_remainder(node)
    if _unsigned(node):
        return remainder
    taken = node.emit(nn.MulOp, _correction(node, remainder), node.value(1)).result
    return node.emit(nn.SubOp, remainder, taken).result


@converter("Mod", "TruncateMod")
def truncate_mod(node: Node) -> Converted:
    """The remainder of TruncateDiv, with the dividend's sign."""
    return _truncated_remainder(node)


def _truncated_remainder(node: Node) -> SSAValue:
    if not _whole(node):
        raise Unmapped("the remainder of floats is exact, one by their quotient is not")
    return _remainder(node, node.emit(nn.DivOp, node.value(0), node.value(1)).result)


def _remainder(node: Node, quotient: SSAValue) -> SSAValue:
    return node.emit(nn.SubOp, node.value(0), node.emit(nn.MulOp, quotient, node.value(1)).result).result


def _correction(node: Node, remainder: SSAValue) -> SSAValue:
    """-1 if truncation rounded up, otherwise 0: the remainder is not 0, and its sign differs from the divisor's.

    For a divisor that is known to be positive, such as a size, it uses arithmetic that keeps shapes known.
    """
    zero, divisor = node.scalar(0, suffix=".zero"), node.array(1)
    minus_one = node.scalar(-1, suffix=".correction")
    if divisor is not None and (divisor > 0).all():
        return node.emit(nn.MaxOp, node.emit(nn.MinOp, remainder, zero).result, minus_one).result
    negative = [node.emit(nn.CompareOp, v, zero, predicate="lt").result for v in (remainder, node.value(1))]
    differ = node.emit(nn.CompareOp, *negative, predicate="ne").result
    left = node.emit(nn.CompareOp, remainder, zero, predicate="ne").result
    rounded_up = node.emit(nn.AndOp, differ, left).result
    return node.emit(nn.WhereOp, rounded_up, minus_one, zero).result


def _whole(node: Node) -> bool:
    return node.dtype(0).kind in "iu"


def _unsigned(node: Node) -> bool:
    return node.dtype(0).kind == "u"


@converter("ClipByValue")
def clip_by_value(node: Node) -> Converted:
    """Known bounds become properties."""
    x, bounds = node.value(0), [node.array(i) for i in (1, 2)]
    if all(b is not None and b.size == 1 and exact(b) for b in bounds):
        low, high = (float(node.number(i)) for i in (1, 2))
        if (low, high) == (0.0, 6.0):
            return node.emit(nn.Relu6Op, x).result
        return node.emit(nn.ClipOp, x, min=low, max=high).result
    return node.emit(nn.MaxOp, node.emit(nn.MinOp, x, node.value(2)).result, node.value(1)).result


@converter("Cast")
def cast(node: Node) -> Converted:
    """Floats to integers truncate."""
    target = node.type("DstT")
    if target == node.dtype(0):
        return node.binding(0)
    found = node.binding(0)
    if isinstance(found, Constant) and found.array.dtype == np.int32 and found.array.ndim == 1 and target.kind == "f":
        with np.errstate(over="ignore"):
            return Constant(node.layer.name, found.array.astype(target), integers=found)
    return node.emit(nn.CastOp, node.value(0), result_types=[TensorType(element_type(target), node.shape(0))]).result
