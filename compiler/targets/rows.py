"""Writes operations by rows: `formats/rows.py` describes rows, and each format has its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..dialects.nn import NNOp
from ..dialects.nn.properties import value_of
from ..dialects.nn.shapes import axis_of, shape_of
from ..formats.rows import Axis, Flag, Ints, Is, Layout, Row, Word
from .converters import Expand


class Rows:
    """The rows of a format, by the operation."""

    def __init__(self, rows: Sequence[Row]):
        self._rows: dict[type[NNOp], list[tuple[Row, Mapping[str, Any]]]] = {}
        for row in rows:
            fixed = {name: field.value for name, field in row.fields.items() if isinstance(field, Is)}
            self._rows.setdefault(row.kind, []).append((row, fixed))

    @property
    def kinds(self) -> Sequence[type[NNOp]]:
        return [*self._rows]

    def of(self, op: NNOp) -> Row:
        """The first row that fits an operation. Raises Expand if there is none."""
        for row, fixed in self._rows[type(op)]:
            if all(_value(op, name) == value for name, value in fixed.items()) and row.fits(op):
                return row
        raise Expand


def attributes_of(
    op: NNOp, row: Row, given: Mapping[str, Any], add_list: Callable[[Ints, Sequence[int] | None], Mapping[str, Any]]
) -> dict[str, Any]:
    """The attributes of the operator, flags only where they differ from the default; `add_list` takes lists of integers."""
    attributes: dict[str, Any] = dict(row.only)
    for name, field in row.fields.items():
        value = given[name] if name in given else _value(op, name)
        match field:
            case Is() | Layout():
                pass
            case Axis():
                attributes[field.name] = axis_of(value, len(shape_of(op.results[0])))
            case Ints():
                attributes.update(add_list(field, value))
            case Flag():
                if bool(value) != field.default:
                    attributes[field.name] = bool(value)
            case Word():
                attributes[field.name] = next(word for word, each in field.values.items() if each == (value or False))
            case _:
                attributes[field.name] = value
    return attributes


def _value(op: NNOp, name: str) -> Any:
    attribute = op.properties.get(name)
    return None if attribute is None else value_of(attribute)
