"""Reductions."""

from __future__ import annotations

from ....dialects import nn
from ..node import Converted, Node, Unmapped, converter

_REDUCTIONS: dict[str, type[nn.ReduceOp]] = {
    "All": nn.ReduceMinOp,
    "Any": nn.ReduceMaxOp,
    "Max": nn.ReduceMaxOp,
    "Mean": nn.ReduceMeanOp,
    "Min": nn.ReduceMinOp,
    "Prod": nn.ReduceProdOp,
    "Sum": nn.ReduceSumOp,
}


@converter(*_REDUCTIONS)
def reduce(node: Node) -> Converted:
    """Over the axes of input 1, a number or a list; over none, x is what it was."""
    axes = node.known_ints(1)
    if not axes:
        return node.binding(0)
    if node.op_type == "Mean" and node.dtype(0).kind in "iu":
        raise Unmapped("the mean of integers is rounded")
    return node.emit(_REDUCTIONS[node.op_type], node.value(0), axes=axes, keepdims=node.flag("keep_dims")).result
