"""Rows: each describes how an operator of a format, which is an operation of `nn` with the same operands, is read and written.

Fields say how properties stand in the file. Numbers whose default and name are those of the attribute need none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..dialects.nn import NNOp
from ..dialects.nn.properties import number_defaults


@dataclass(frozen=True)
class Number:
    """A real number."""

    name: str
    default: float


@dataclass(frozen=True)
class Int:
    """An integer; without a default it must be there."""

    name: str
    default: int | None = None


@dataclass(frozen=True)
class Flag:
    """An attribute of 0 or 1; `since` is the first version of the format that has the attribute."""

    name: str
    default: bool
    since: int = 1


@dataclass(frozen=True)
class Word:
    """A text of several, with the property's value for each."""

    name: str
    default: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Ints:
    """A list of integers: an attribute, or from a version on a separate input, after the others."""

    name: str
    input_since: int | None = None
    required: bool = False


@dataclass(frozen=True)
class Axis:
    """An axis, which files count from the start: 0 is the first."""

    name: str
    default: int


@dataclass(frozen=True)
class Layout:
    """The position of channels. Files are written in the layout that is the default, without this attribute."""


@dataclass(frozen=True)
class Is:
    """A property with a fixed value; operations with other values are other operators, or none."""

    value: Any


Field = Number | Int | Flag | Word | Ints | Axis | Layout | Is


@dataclass(frozen=True)
class Row:
    """An operator, for which `fields` has the properties of the operation by name.

    `since` is the first version that has it, `only` the values that further attributes must have. What `fits` is false for is
    written as its expansion.
    """

    kind: type[NNOp]
    op_type: str
    fields: Mapping[str, Field]
    since: int
    only: Mapping[str, float]
    fits: Callable[[Any], bool]
    places: Mapping[str, int]
    """The inputs of lists that are inputs, after the operands."""


def row(
    kind: type[NNOp],
    op_type: str,
    *,
    since: int = 1,
    only: Mapping[str, float] | None = None,
    fits: Callable[[Any], bool] = lambda _: True,
    **fields: Field,
) -> Row:
    """A row, with the numbers of the operation."""
    numbers: dict[str, Field] = {name: Number(name, default) for name, default in number_defaults(kind).items()}
    lists = [name for name, field in fields.items() if isinstance(field, Ints)]
    places = {name: place for place, name in enumerate(lists, len(kind.get_irdl_definition().operands))}
    return Row(kind, op_type, {**numbers, **fields}, since, only or {}, fits, places)
