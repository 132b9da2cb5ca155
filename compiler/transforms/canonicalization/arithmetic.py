"""Arithmetic with neutral numbers, and operations that undo or repeat themselves.

Adding 0.0 is not neutral: it turns -0.0 into 0.0. Adding -0.0 and subtracting 0.0 are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from xdsl.pattern_rewriter import PatternRewriter

from ...dialects import nn
from ...dialects.nn.shapes import element_of
from ...ir.dtypes import is_float
from ...rewriting import Remarks
from ...runtime.kernels import Array
from .rules import give_back, rule


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
