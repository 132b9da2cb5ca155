"""Bounds (relu, relu6, clip), prelu, arithmetic with neutral numbers, and operations that undo or repeat themselves.

Adding 0.0 is not neutral: it turns -0.0 into 0.0. Adding -0.0 and subtracting 0.0 are.
"""

from __future__ import annotations

from math import inf
from typing import ClassVar, NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from ...dialects import nn
from ...dialects.nn.shapes import element_of
from ...ir.dtypes import is_float, numpy_dtype
from ...rewriting import Remarks, Roots, StepPattern, condition, fused_location, layer_of, rewrites
from ...runtime.kernels import Array
from .identities import give_back

Bounds = tuple[float, float]

_NAMED: dict[Bounds, type[nn.ReluOp | nn.Relu6Op]] = {(0.0, inf): nn.ReluOp, (0.0, 6.0): nn.Relu6Op}


def _bounded(value: SSAValue, bounds: Bounds, op: nn.BoundOp, location: LocationAttr) -> nn.BoundOp:
    """Replaces `op` by the operation that keeps a value within bounds."""
    types = op.result_types
    if (kind := _NAMED.get(bounds)) is not None:
        return kind.make(value, origin=op.origin, result_types=types, location=location)
    low, high = (None if b in (-inf, inf) else b for b in bounds)
    return nn.ClipOp.make(value, min=low, max=high, origin=op.origin, result_types=types, location=location)


@rewrites(nn.ClipOp)
def name_bounds(op: nn.ClipOp, rewriter: PatternRewriter, remarks: Remarks) -> None:
    """clip(0, 6) is relu6, clip(0, inf) is relu, clip(-inf, inf) is nothing."""
    if op.bounds == (-inf, inf):
        give_back(op, op.input, rewriter, remarks, "identity", "a clip without bounds")
    elif (kind := _NAMED.get(op.bounds)) is not None:
        remarks.applied(op, "bounds", f"a clip with the bounds of {kind.name}")
        rewriter.replace(op, _bounded(op.input, op.bounds, op, op.location))


@rewrites(*nn.kinds(nn.BoundOp))
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


@rewrites(nn.AddOp, nn.SubOp)
def name_prelu(op: nn.AddOp | nn.SubOp, rewriter: PatternRewriter, remarks: Remarks) -> None:
    """`relu(x) + a (x - |x|) / 2` and `relu(x) - a relu(-x)`, as which TensorFlow stores its layers, are prelu for
    finite numbers; of infinity the first one makes NaN.
    """
    for positive, product in [(op.lhs, op.rhs), (op.rhs, op.lhs)][: 2 if isinstance(op, nn.AddOp) else 1]:
        relu = positive.owner
        if not isinstance(relu, nn.ReluOp) or not positive.has_one_use() or op.result.type != relu.input.type:
            continue
        if (slope := _negative_slope(product, relu.input)) is None:
            continue
        array = (slope if isinstance(op, nn.AddOp) else -slope).astype(numpy_dtype(element_of(op.result)))
        remarks.applied(op, "prelu", "arithmetic that gives another slope to negative numbers")
        constant = nn.ConstantOp.of(array, f"{layer_of(op)}.slope", op.location)
        rewriter.insert(constant, InsertPoint.before(op))
        types = op.result_types
        rewriter.replace(
            op, nn.PReluOp.make(relu.input, constant.result, origin=op.origin, result_types=types, location=op.location)
        )
        return


def _negative_slope(product: SSAValue, x: SSAValue) -> Array | None:
    """The factor of negative `x` in a product that is 0 for all others, float64; None for another product. All constants but
    one are powers of two, so that multiplying them rounds nothing.
    """
    slope, whole, open_factors = np.float64(1), list[Array](), [product]
    found = False
    while open_factors:
        value = open_factors.pop()
        op = value.owner
        if (constant := nn.constant_of(value)) is not None:
            array = constant.array.astype(np.float64)
            whole += [array] if (np.abs(np.frexp(array)[0]) != 0.5).any() else []
            slope = slope * array
        elif not value.has_one_use():
            return None
        elif isinstance(op, nn.MulOp):
            open_factors += op.operands
        elif isinstance(op, nn.NegOp):
            slope, open_factors = -slope, [*open_factors, op.input]
        elif found or (factor := _negative_part(op, x)) is None:
            return None
        else:
            slope, found = factor * slope, True
    return np.asarray(slope) if found and len(whole) < 2 and np.isfinite(slope).all() else None


def _negative_part(op: object, x: SSAValue) -> int | None:
    """What an operation gives for negative `x`, in units of it, if it gives 0 for others."""
    match op:
        case nn.SubOp() if op.lhs is x and isinstance(op.rhs.owner, nn.AbsOp) and op.rhs.owner.input is x:
            return 2
        case nn.ReluOp() if isinstance(op.input.owner, nn.NegOp) and op.input.owner.input is x:
            return -1
        case _:
            return None


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


_WithNumber = tuple[nn.BinaryOp | nn.PowOp, SSAValue, Array]
"""An operation, its operand, and the constant that leaves it unchanged."""


class RemoveNeutral(StepPattern[_WithNumber]):
    """`x * 1`, `x / 1`, `x ^ 1`, `x - 0`, `x + -0.0` where the constant does not change the shape."""

    name = "remove-neutral"
    roots: ClassVar[Roots] = (*_NEUTRAL,)

    @condition
    def exact_zero(self, m: _WithNumber) -> str | None:
        """a zero keeps the sign of -0.0: 0.0 that is subtracted, -0.0 that is added"""
        op, value, array = m
        inexact = is_float(element_of(value)) and np.signbit(array).any() != np.signbit(_NEUTRAL[type(op)].number)
        return f"{op.name} with this zero changes the sign of -0.0" if inexact else None

    def match(self, op: Operation) -> _WithNumber | None:
        op, (lhs, rhs) = cast(nn.BinaryOp, op), op.operands
        neutral, found = _NEUTRAL[type(op)], list[_WithNumber]()
        for value, other in [(lhs, rhs), (rhs, lhs)] if neutral.on_the_left else [(lhs, rhs)]:
            if value.type == op.result.type and (constant := nn.constant_of(other)) is not None:
                array = constant.array
                found += [(op, value, array)] if array.size and _is_all(array, neutral.number) else []
        return next((m for m in found if self.refusal(m) is None), next(iter(found), None))

    def rewrite(self, m: _WithNumber, rewriter: PatternRewriter) -> None:
        op, value, array = m
        give_back(op, value, rewriter, self.remarks, "neutral", f"{op.name} with {array.flat[0]} changes nothing")


def _is_all(array: Array, number: float) -> bool:
    """Whether all elements equal the number; the first element already excludes most large arrays."""
    return bool(array.flat[0] == number and (array == number).all())


@rewrites(nn.NegOp, nn.NotOp)
def remove_involution(op: nn.NegOp | nn.NotOp, rewriter: PatternRewriter, remarks: Remarks) -> None:
    """`-(-x)`, `not not x`."""
    inner = op.input.owner
    if isinstance(inner, type(op)):
        give_back(op, inner.input, rewriter, remarks, "involution", f"{op.name} undoes {op.name}")


@rewrites(nn.AbsOp, nn.FloorOp, nn.CeilOp, nn.RoundOp)
def remove_repetition(op: nn.UnaryOp, rewriter: PatternRewriter, remarks: Remarks) -> None:
    """`| |x| |`, and rounding of rounded numbers."""
    if isinstance(op.input.owner, type(op)):
        give_back(op, op.input, rewriter, remarks, "repetition", f"{op.name} after {op.name} changes nothing")
