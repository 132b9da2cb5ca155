"""Copies of an operation with other operands, result types or properties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from xdsl.ir import Attribute, SSAValue

from ..dialects.nn import NNOp
from ..dialects.nn.properties import attribute_of

_Op = TypeVar("_Op", bound=NNOp)


def rebuilt(op: _Op, operands: Sequence[SSAValue], result_types: Sequence[Attribute], **properties: Any) -> _Op:
    """The same operation on these operands; properties given as Python values replace the old ones, None removes one.

    Attributes, location, origin and name hints stay.
    """
    changed = {name: attribute_of(type(op), name, value) for name, value in properties.items()}
    new = type(op).from_parts(operands, result_types, {**op.properties, **changed}, dict(op.attributes))
    new.location = op.location
    for result, old in zip(new.results, op.results, strict=True):
        result.name_hint = old.name_hint
    return new
