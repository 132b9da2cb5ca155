"""Relu, relu6 and clip, which keep values within bounds."""

from __future__ import annotations

from math import inf

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ...dialects import nn
from ...rewriting import Remarks, fused_location, layer_of
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
