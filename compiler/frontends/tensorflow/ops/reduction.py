"""Reductions."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType, i64

from ....dialects import nn
from ....dialects.nn.shapes import shape_of
from ....ir.dtypes import element_type
from ..node import Converted, Node, Unmapped, converter
from ..rows import by_row


@converter("All", "Any", "Max", "Mean", "Min", "Prod", "Sum")
def reduce(node: Node) -> Converted:
    """Reduces the axes in input 1, a number or a list; without axes x is unchanged."""
    axes = node.known_ints(1)
    if not axes:
        return node.binding(0)
    if node.op_type == "Mean" and node.dtype(0).kind in "iu":
        raise Unmapped("the mean of integers is rounded")
    return by_row(node)


@converter("ArgMax", "ArgMin")
def arg(node: Node) -> Converted:
    """The index of the first largest or smallest element along the axis in input 1, in `output_type`."""
    op = nn.ArgMaxOp if node.op_type == "ArgMax" else nn.ArgMinOp
    places = node.emit(op, node.value(0), axis=int(node.number(1))).result
    element = element_type(node.type("output_type")) if "output_type" in node.attributes else i64
    if element == i64:
        return places
    return node.emit(nn.CastOp, places, result_types=[TensorType(element, shape_of(places))]).result
