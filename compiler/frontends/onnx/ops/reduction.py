"""Reductions."""

from __future__ import annotations

from ....dialects import nn
from ..node import Converted, Node, converter

_REDUCTIONS: dict[str, tuple[type[nn.ReduceOp], int]] = {
    "ReduceMax": (nn.ReduceMaxOp, 18),
    "ReduceMean": (nn.ReduceMeanOp, 18),
    "ReduceMin": (nn.ReduceMinOp, 18),
    "ReduceProd": (nn.ReduceProdOp, 18),
    "ReduceSum": (nn.ReduceSumOp, 13),
}
"""The operation, and the opset since which axes are an input instead of an attribute."""


@converter(*_REDUCTIONS)
def reduce(node: Node) -> Converted:
    """No axes, or an empty list of them, mean all axes; with `noop_with_empty_axes` none at all."""
    op, since = _REDUCTIONS[node.op_type]
    axes = node.axes(1, since)
    if not axes and node.int("noop_with_empty_axes", 0):
        return node.binding(0)
    return node.emit(op, node.value(0), axes=axes or None, keepdims=bool(node.int("keepdims", 1))).result


@converter("ArgMax", "ArgMin")
def arg(node: Node) -> Converted:
    """The first of equal elements, or the last with `select_last_index`."""
    op = nn.ArgMaxOp if node.op_type == "ArgMax" else nn.ArgMinOp
    keepdims, last = bool(node.int("keepdims", 1)), bool(node.int("select_last_index", 0))
    return node.emit(op, node.value(0), axis=node.int("axis", 0), keepdims=keepdims, last=last).result
