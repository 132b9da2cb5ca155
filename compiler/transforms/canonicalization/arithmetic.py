"""Bounds (relu, relu6, clip), arithmetic with neutral numbers, and operations that undo or repeat themselves.

Adding 0.0 is not neutral: it turns -0.0 into 0.0. Adding -0.0 and subtracting 0.0 are.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ...dialects import nn
from ...dialects.nn.shapes import element_of
from ...ir.dtypes import is_float
from ...rewriting import Remarks, fused_location, layer_of
from ...runtime.kernels import Array
from .rules import give_back, rule

Bounds = tuple[float, float]

_NAMED: dict[Bounds, type[nn.ReluOp | nn.Relu6Op]] = {(0.0, inf): nn.ReluOp, (0.0, 6.0): nn.Relu6Op}


def _bounded(value: SSAValue, bounds: Bounds, op: nn.BoundOp, location: LocationAttr) -> nn.BoundOp:
    """Replaces `op` by the operation that keeps a value within bounds."""
    types = op.result_types
    if (kind := _NAMED.get(bounds)) is not None:
        return kind.make(value, origin=op.origin, result_types=types, location=location)
    low, high = (None if b in (-inf, inf) else b for b in bounds)
    return nn.ClipOp.make(value, min=low, max=high, origin=op.origin, result_types=types, location=location)


@rule(nn.ClipOp)
def name_bounds(op: nn.ClipOp, rewriter: PatternRewriter, remarks: Remarks) -> None:
    """clip(0, 6) is relu6, clip(0, inf) is relu, clip(-inf, inf) is nothing."""
    if op.bounds == (-inf, inf):
        give_back(op, op.input, rewriter, remarks, "identity", "a clip without bounds")
    elif (kind := _NAMED.get(op.bounds)) is not None:
        remarks.applied(op, "bounds", f"a clip with the bounds of {kind.name}")
        rewriter.replace(op, _bounded(op.input, op.bounds, op, op.location))


@rule(*nn.kinds(nn.BoundOp))
def merge_bounds(op: nn.BoundOp, rewriter: PatternRewriter, remarks: Remarks) -> None:
    """Bounds after bounds: the second is removed if the first are tighter, otherwise both are merged."""
    inner = op.input.owner
    if not isinstance(inner, nn.BoundOp):
        return
    (low, high), (first_low, first_high) = op.bounds, inner.bounds
    if not (low <= high and first_low <= first_high):
        return  # empty or NaN: min and max no longer commute
    merged = min(max(first_low, low), high), min(max(first_high, low), high)
    if merged == (first_low, first_high):
        give_back(op, inner.result, rewriter, remarks, "bounds", f"{layer_of(inner)} has the tighter bounds")
    elif inner.result.has_one_use():
        remarks.applied(op, "bounds", f"merged with {layer_of(inner)}")
        rewriter.replace(op, _bounded(inner.input, merged, op, fused_location(inner, op)))


class Neutral(NamedTuple):
    """The number that leaves the other operand of an operation unchanged."""

    number: float
    on_the_left: bool = False
    """Whether it is neutral as the left operand, too."""


_NEUTRAL: dict[type[nn.BinaryOp | nn.PowOp], Neutral] = {
    nn.AddOp: Neutral(-0.0, True),
    nn.SubOp: Neutral(0.0),
    nn.MulOp: Neutral(1.0, True),
    nn.DivOp: Neutral(1.0),
    nn.PowOp: Neutral(1.0),
}


@rule(*_NEUTRAL)
def remove_neutral(op: nn.BinaryOp | nn.PowOp, rewriter: PatternRewriter, remarks: Remarks) -> None:
    """`x * 1`, `x / 1`, `x ^ 1`, `x - 0`, `x + -0.0` where the constant does not change the shape."""
    neutral = _NEUTRAL[type(op)]
    pairs = [(op.lhs, op.rhs), (op.rhs, op.lhs)] if neutral.on_the_left else [(op.lhs, op.rhs)]
    for value, other in pairs:
        if value.type != op.result.type or (constant := nn.constant_of(other)) is None:
            continue
        array = constant.array
        if not array.size or not _is_all(array, neutral.number):
            continue
        if is_float(element_of(other)) and np.signbit(array).any() != np.signbit(neutral.number):
            remarks.missed(op, "exact-zero", f"{op.name} with this zero changes the sign of -0.0")
            continue
        give_back(op, value, rewriter, remarks, "neutral", f"{op.name} with {array.flat[0]} changes nothing")
        return


def _is_all(array: Array, number: float) -> bool:
    """Whether all elements equal the number; the first element already excludes most large arrays."""
    return bool(array.flat[0] == number and (array == number).all())


@rule(nn.NegOp, nn.NotOp)
def remove_involution(op: nn.NegOp | nn.NotOp, rewriter: PatternRewriter, remarks: Remarks) -> None:
    """`-(-x)`, `not not x`."""
    inner = op.input.owner
    if isinstance(inner, type(op)):
        give_back(op, inner.input, rewriter, remarks, "involution", f"{op.name} undoes {op.name}")


@rule(nn.AbsOp, nn.FloorOp, nn.CeilOp, nn.RoundOp)
def remove_repetition(op: nn.UnaryOp, rewriter: PatternRewriter, remarks: Remarks) -> None:
    """`| |x| |`, and rounding of rounded numbers."""
    if isinstance(op.input.owner, type(op)):
        give_back(op, op.input, rewriter, remarks, "repetition", f"{op.name} after {op.name} changes nothing")
