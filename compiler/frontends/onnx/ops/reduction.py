"""Reductions."""

from __future__ import annotations

from ....dialects.nn import ReduceOp
from ....formats.onnx.operators import ROWS
from ....formats.rows import Ints
from ..node import Converted, Node, converter
from ..rows import by_row

_AXES = {row.op_type: row.fields["axes"] for row in ROWS if issubclass(row.kind, ReduceOp)}


@converter(*_AXES)
def reduce(node: Node) -> Converted:
    """No axes, or an empty list of them, mean all axes; with `noop_with_empty_axes` none at all."""
    field = _AXES[node.op_type]
    assert isinstance(field, Ints)
    axes = node.ints_of(field, 1)
    if not axes and node.int("noop_with_empty_axes", 0):
        return node.binding(0)
    return by_row(node, axes=axes or None)
