"""The tables of lowering rules, and the builder that rules write through.

A rule takes the builder and an `nn` operation, builds `ascend` operations before it and returns the values that replace its
results. It raises `NotLowered` if a condition fails; a VerifyException of an operation that it makes means a
constraint of Ascend IR. In both cases the operations built so far are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ...dialects.ascend import AscendOp
from ...dialects.nn import ConstantOp, NNOp, OpaqueOp
from ...dialects.nn.properties import number_defaults
from ..refusal import NotLowered
from .constants import Array, numbers_behind

_Made = TypeVar("_Made", bound=AscendOp)
_Op = TypeVar("_Op", bound=NNOp)


class Builder:
    """Builds operations before one `nn` operation, with its location and origin; remembers them so that they can be removed."""

    def __init__(self, op: NNOp):
        self.op = op
        self.made: list[Operation] = []

    @property
    def hint(self) -> str:
        """The name of the first result."""
        return self.op.results[0].name_hint or self.op.name.partition(".")[2]

    def add(
        self,
        kind: type[_Made],
        *operands: SSAValue | Sequence[SSAValue] | None,
        name: str | None = None,
        **properties: Any,
    ) -> _Made:
        """Builds an operation with the source operation's location and origin. Replacements of results keep their names."""
        made = kind.make(*operands, origin=self.op.origin, location=self.op.location, name=name, **properties)
        self._insert(made)
        return made

    def constant(self, array: Array, key: str, location: LocationAttr | None = None) -> SSAValue:
        constant = ConstantOp.of(array, key, location or self.op.location)
        self._insert(constant)
        return constant.result

    def ints(self, values: Sequence[int], what: str) -> SSAValue:
        """An index operand: a constant of int64, rank 1."""
        return self.constant(np.array(list(values), np.int64), f"{self.hint}_{what}")

    def index(self, value: int, what: str) -> SSAValue:
        """An index operand of rank 0."""
        return self.constant(np.array(value, np.int64), f"{self.hint}_{what}")

    def _insert(self, op: Operation) -> None:
        Rewriter.insert_op(op, InsertPoint.before(self.op))
        self.made.append(op)

    def take_back(self) -> None:
        for op in reversed(self.made):
            op.detach()
            op.erase()
        self.made.clear()


Rule = Callable[[Builder, Any], Sequence[SSAValue]]

Source = tuple[str, str]
"""A framework, and a type of layer in it."""
Key = tuple[type[NNOp], Source | None]
"""The operations of a rule: a class, from any source (None) or from layers of one type."""

RULES: dict[Key, Rule] = {}
"""The rules that lower operations on unchanged values."""


def keys(kinds: Sequence[type[NNOp]], sources: Sequence[Source]) -> list[Key]:
    """The keys for classes of operations, from these sources or, without sources, from everywhere."""
    return [(kind, source) for kind in kinds for source in sources or (None,)]


def keys_of(op: NNOp) -> tuple[Key, ...]:
    """The keys of an operation in the tables of rules; the operator in AMCT's table 1 for its layer is first."""
    everywhere = (type(op), None)
    source = _carried(op) if isinstance(op, OpaqueOp) else _source(op)
    return (everywhere,) if source is None else ((type(op), source), everywhere)


def _source(op: NNOp) -> Source | None:
    return None if (origin := op.origin) is None else (origin.framework.data, origin.op_type.data)


def _carried(op: OpaqueOp) -> Source | None:
    """The source of an operator of the framework itself; None for an operator of an extension."""
    return (op.framework.data, op.op_type.data) if op.domain is None or not op.domain.data else None


def lowers(
    *kinds: type[_Op], sources: Sequence[Source] = ()
) -> Callable[[Callable[[Builder, _Op], Sequence[SSAValue]]], Rule]:
    """Registers a rule for these operation classes, optionally only from some layers."""

    def register(rule: Callable[[Builder, _Op], Sequence[SSAValue]]) -> Rule:
        RULES.update(dict.fromkeys(keys(kinds, sources), rule))
        return rule

    return register


def lowers_each(table: Mapping[type[NNOp], type[AscendOp]]) -> None:
    """Registers operations with the same operands in the same order, and the same numbers; stricter rules come after."""

    def rule_for(kind: type[AscendOp]) -> Rule:
        def rule(build: Builder, op: NNOp) -> Sequence[SSAValue]:
            numbers: dict[str, Any] = {name: op.properties[name] for name in number_defaults(type(op))}
            return build.add(kind, *op.operands, **numbers).results

        return rule

    RULES.update({(source, None): rule_for(kind) for source, kind in table.items()})


def array_of(value: SSAValue, what: str) -> Array:
    """The numbers of an operand that must be constant, possibly quantized. Raises NotLowered."""
    array = numbers_behind(value)
    if array is None:
        raise NotLowered(f"constant-{what}", f"its {what} is computed at run time")
    return array
