"""Nodes read by the rows of `formats/onnx/operators.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue
from xdsl.irdl import OptOperandDef, VarOperandDef

from ...formats.onnx.operators import ROWS
from ...formats.rows import Field, Flag, Int, Ints, Is, Number, Row
from .node import Converted, Node, Unmapped, converter

_BY_TYPE = {row.op_type: row for row in ROWS}


def by_row(node: Node, **given: Any) -> Converted:
    """The operation of the row for a node; properties that are given are not read. Raises Unmapped and CompileError."""
    row = _BY_TYPE[node.op_type]
    for name, value in row.only.items():
        if node.float(name, value) != value:
            raise Unmapped(f"its {name} is not {value:g}")
    rest = {name: _property(node, row, field) for name, field in row.fields.items() if name not in given}
    results = node.emit(row.kind, *_operands(node, row), **rest, **given).results
    return results if len(results) > 1 else results[0]


def _operands(node: Node, row: Row) -> list[SSAValue | Sequence[SSAValue] | None]:
    operands: list[SSAValue | Sequence[SSAValue] | None] = []
    for i, (_, definition) in enumerate(row.kind.get_irdl_definition().operands):
        if isinstance(definition, OptOperandDef):
            operands.append(node.optional(i))
        elif isinstance(definition, VarOperandDef):
            operands.append([node.value(j) for j in range(i, len(node.inputs))])
        else:
            operands.append(node.value(i))
    return operands


def _property(node: Node, row: Row, field: Field) -> Any:
    match field:
        case Is():
            return field.value
        case Number():
            return node.float(field.name, field.default)
        case Int():
            return node.required_int(field.name) if field.default is None else node.int(field.name, field.default)
        case Flag():
            return bool(node.int(field.name, field.default))
        case Ints():
            return node.ints_of(field, len(row.kind.get_irdl_definition().operands))
        case _:
            return field.values[node.choice(field.name, field.default, field.values)]


for _op_type in _BY_TYPE:
    converter(_op_type)(by_row)
