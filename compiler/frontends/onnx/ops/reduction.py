"""Reductions."""

from __future__ import annotations

from ....dialects.nn import ReduceOp
from ....formats.onnx.operators import ROWS
from ..node import Converted, Node, converter
from ..rows import by_row, list_of


@converter(*(row.op_type for row in ROWS if issubclass(row.kind, ReduceOp)))
def reduce(node: Node) -> Converted:
    """Converts a reduction. No axes, or an empty list of them, mean all axes; with `noop_with_empty_axes` none at all."""
    axes = list_of(node, "axes")
    if not axes and node.int("noop_with_empty_axes", 0):
        return node.binding(0)
    return by_row(node, axes=axes or None)
