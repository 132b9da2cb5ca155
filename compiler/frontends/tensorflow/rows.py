"""Nodes read by the rows of `formats/tensorflow/operators.py`."""

from __future__ import annotations

from typing import Any

from ...formats.tensorflow.operators import READ, ROWS
from ..rows import read
from .node import CONVERTERS, Converted, Node

_BY_TYPE = {row.op_type: row for row in (*ROWS, *READ)}


def by_row(node: Node, **given: Any) -> Converted:
    """The operation of the row for a node; properties that are given are not read."""
    return read(node, _BY_TYPE[node.op_type], **given)


for _op_type in _BY_TYPE:
    CONVERTERS.setdefault(_op_type, by_row)
