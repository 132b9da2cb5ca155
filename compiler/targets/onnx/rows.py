"""Operations written by the rows of `formats/onnx/operators.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...dialects import nn
from ...dialects.nn.properties import value_of
from ...formats.onnx.operators import ROWS
from ...formats.rows import Flag, Ints, Is, Row, Word
from ..converters import Expand
from .layer import Layer, Operand, Written, converter

_BY_TYPE = {row.op_type: row for row in ROWS}
_ROWS = {kind: [row for row in ROWS if row.kind is kind] for kind in {row.kind for row in ROWS}}


@converter(*_ROWS)
def by_row(op: nn.NNOp, layer: Layer) -> Written:
    """The operator of the row for an operation; the expansion for an operation that only later opsets have."""
    return written_by_row(op, layer, op.operands)


def written_by_row(op: nn.NNOp, layer: Layer, operands: Sequence[Operand], **given: Any) -> Written:
    """The operator of the row, on these operands, with given values of properties. Raises CompileError, located."""
    row = next((row for row in _ROWS[type(op)] if _is_of(op, row)), None)
    if row is None or (layer.opset < row.since and nn.expanded(op) is not None):
        raise Expand
    layer.require(row.since, row.op_type)
    inputs, attributes = list(operands), dict[str, Any]()
    for name, field in row.fields.items():
        value = given[name] if name in given else _value(op, name)
        match field:
            case Is():
                pass
            case Ints():
                inputs += _add_list(field, value, layer, attributes)
            case Flag():
                if bool(value) != field.default:
                    layer.require(field.since, f"{row.op_type} with {field.name}")
                    attributes[field.name] = int(bool(value))
            case Word():
                attributes[field.name] = next(word for word, each in field.values.items() if each == (value or False))
            case _:
                attributes[field.name] = value
    made = layer.emit(row.op_type, inputs, attributes, layer.label, outputs=len(op.results))
    return made if len(made) > 1 else made[0]


NodeParts = tuple[str, list[Operand], dict[str, Any]]
"""Operator type, inputs and attributes of a node."""


def with_list(op_type: str, x: Operand, values: Sequence[int], layer: Layer) -> NodeParts:
    """A node with the list of integers of its row, which is an attribute or an input depending on the opset."""
    attributes: dict[str, Any] = {}
    field = next(field for field in _BY_TYPE[op_type].fields.values() if isinstance(field, Ints))
    return op_type, [x, *_add_list(field, values, layer, attributes)], attributes


def unsqueezed(x: Operand, axes: Sequence[int], layer: Layer) -> str:
    """`x` with axes of size 1, by a node beside the one with the layer's name."""
    return layer.emit(*with_list("Unsqueeze", x, axes, layer), f"{layer.label}/Unsqueeze")[0]


def _add_list(field: Ints, values: Sequence[int] | None, layer: Layer, attributes: dict[str, Any]) -> list[Operand]:
    """A list of integers as an attribute, or as an input, which is returned."""
    if values is None:
        return []
    if field.input_since is not None and layer.opset >= field.input_since:
        return [layer.ints(values, field.name)]
    attributes[field.name] = list(values) or None
    return []


def _is_of(op: nn.NNOp, row: Row) -> bool:
    return all(_value(op, name) == field.value for name, field in row.fields.items() if isinstance(field, Is))


def _value(op: nn.NNOp, name: str) -> Any:
    attribute = op.properties.get(name)
    return None if attribute is None else value_of(attribute)
