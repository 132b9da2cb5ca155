"""Nodes read by the rows of `formats/onnx/operators.py`."""

from __future__ import annotations

from typing import Any

from ...formats.onnx.operators import READ, ROWS
from ...formats.rows import Ints
from ..rows import read
from .node import CONVERTERS, Converted, Node

_BY_TYPE = {row.op_type: row for row in (*ROWS, *READ)}


def by_row(node: Node, **given: Any) -> Converted:
    """The operation of the row for a node; properties that are given are not read."""
    return read(node, _BY_TYPE[node.op_type], **given)


def list_of(node: Node, name: str) -> list[int] | None:
    """The list of integers in the row's attribute or input for a property; None if absent."""
    row = _BY_TYPE[node.op_type]
    field = row.fields[name]
    assert isinstance(field, Ints)
    return node.ints_of(field, row.places[name])


for _op_type in _BY_TYPE:
    CONVERTERS.setdefault(("", _op_type), by_row)
