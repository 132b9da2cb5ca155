"""Conversion of nodes by rows: `formats/rows.py` describes rows, and each format has its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue
from xdsl.irdl import OptOperandDef, VarOperandDef

from ..formats.rows import Axis, Flag, Int, Ints, Is, Layout, Number, Row
from .building import Converted, Unmapped


def read(node: Any, row: Row, **given: Any) -> Converted:
    """The operation of a row for a node; properties that are given are not read. Raises Unmapped and CompileError."""
    for name, value in row.only.items():
        if node.float(name, value) != value:
            raise Unmapped(f"its {name} is not {value:g}")
    rest = {name: _property(node, row, name) for name in row.fields if name not in given}
    results: Sequence[SSAValue] = node.emit(row.kind, *_operands(node, row), **rest, **given).results
    return results if len(results) > 1 else results[0]


def _operands(node: Any, row: Row) -> list[SSAValue | Sequence[SSAValue] | None]:
    operands: list[SSAValue | Sequence[SSAValue] | None] = []
    for i, (_, definition) in enumerate(row.kind.get_irdl_definition().operands):
        if isinstance(definition, OptOperandDef):
            operands.append(node.optional(i))
        elif isinstance(definition, VarOperandDef):
            operands.append([node.value(j) for j in range(i, len(node.inputs))])
        else:
            operands.append(node.value(i))
    return operands


def _property(node: Any, row: Row, name: str) -> Any:
    match field := row.fields[name]:
        case Is():
            return field.value
        case Number():
            return node.float(field.name, field.default)
        case Int():
            return node.required_int(field.name) if field.default is None else node.int(field.name, field.default)
        case Flag():
            return node.flag(field.name, field.default)
        case Ints():
            return node.ints_of(field, row.places[name])
        case Axis():
            return node.axis_of(field.name, field.default)
        case Layout():
            return node.layout
        case _:
            return field.values[node.choice(field.name, field.default, field.values)]
