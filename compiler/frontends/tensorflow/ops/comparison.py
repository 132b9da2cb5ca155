"""Comparison, logic and selection."""

from __future__ import annotations

from ....dialects import nn
from ..node import Converted, Node, Unmapped, converter
from ..rows import by_row


@converter("Equal", "NotEqual")
def compare(node: Node) -> Converted:
    """Raises Unmapped for shapes that may not broadcast (`incompatible_shape_error`): the result is then one boolean."""
    if not node.flag("incompatible_shape_error", True):
        raise Unmapped("shapes that do not broadcast are not an error to it")
    return by_row(node)


@converter("IsNan")
def is_nan(node: Node) -> Converted:
    """Converts IsNan: NaN is the only value that does not equal itself."""
    return node.emit(nn.CompareOp, node.value(0), node.value(0), predicate="ne").result


@converter("IsFinite", "IsInf")
def is_finite_or_infinite(node: Node) -> Converted:
    """Compares magnitudes: NaN is neither below infinity nor equal to it."""
    magnitude = node.emit(nn.AbsOp, node.value(0)).result
    predicate = "lt" if node.op_type == "IsFinite" else "eq"
    return node.emit(nn.CompareOp, magnitude, node.scalar(float("inf")), predicate=predicate).result


@converter("Select")
def select(node: Node) -> Converted:
    """Operands have one shape, or there is a condition for each index of the first axis."""
    condition, rank = node.value(0), len(node.shape(1))
    if len(node.shape(0)) == 1 and rank > 1:
        condition = node.emit(nn.UnsqueezeOp, condition, axes=list(range(1, rank))).result
    return node.emit(nn.WhereOp, condition, node.value(1), node.value(2)).result
