"""Lowering patterns, and the builder that they write through.

A pattern is a `Lowering`: the operation that it takes, the named conditions under which Ascend IR has it, and the `ascend`
operations to build. What has a counterpart under no condition is a row of a table, `ROWS`, from which one pattern is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar, cast, get_args, get_origin

import numpy as np
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from ...dialects.ascend import AscendOp
from ...dialects.nn import ConstantOp, NNOp, OpaqueOp, set_type
from ...rewriting import CheckedPattern, Refusal, Remarks, Roots
from .constants import Array
from .quantizer import Quantizer

_Made = TypeVar("_Made", bound=AscendOp)
Op = TypeVar("Op", bound=NNOp)
Values = Sequence[SSAValue]
"""The values that replace the results of an operation."""


class Builder:
    """Builds operations before one `nn` operation, with its location and origin; remembers them so that they can be removed.

    `quantizer` makes the integers of its quantized operands.
    """

    def __init__(self, op: NNOp, quantizer: Quantizer):
        self.op = op
        self.quantizer = quantizer
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


Source = tuple[str, str]
"""A framework, and a type of layer in it."""


def source_of(op: NNOp) -> Source | None:
    """The layer that an operation comes from. An operator of an extension has none."""
    if isinstance(op, OpaqueOp):
        return (op.framework.data, op.op_type.data) if op.domain is None or not op.domain.data else None
    return None if (origin := op.origin) is None else (origin.framework.data, origin.op_type.data)


@dataclass(frozen=True)
class Run:
    """A lowering of a module: the data that its patterns share."""

    remarks: Remarks
    quantizer: Quantizer
    takes: Callable[[NNOp], bool]
    """Whether to lower an operation."""


class Lowering(CheckedPattern[Op], Generic[Op]):
    """One way to compute an operation of `nn` in Ascend IR: conditions, and the operations that replace it.

    Subclasses define `rewrite` and conditions; their docstring is the pattern's statement. Unless they say otherwise, `name` is
    that of the class, and the roots are the class of operations in the base, `Lowering[nn.DivOp]`. Conditions change nothing.
    What `rewrite` builds is verified: a constraint of Ascend IR that fails is the refusal `ascend-constraint`.
    """

    name: ClassVar[str]
    roots: ClassVar[Roots]
    sources: ClassVar[tuple[Source, ...]] = ()
    """The layers whose operations are taken; empty: all."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = vars(cls)
        if "name" not in own:
            cls.name = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", cls.__name__).lower()
        taken = [a for base in own.get("__orig_bases__", ()) if get_origin(base) for a in get_args(base)]
        if "roots" not in own and taken and isinstance(taken[0], type):
            cls.roots = (cast("type[Operation]", taken[0]),)

    def __init__(self, run: Run | None = None):
        self.run = run

    def stands_for(self, op: NNOp) -> bool:
        """Whether an operation is of the pattern's class and source."""
        return _is_any(type(op), self.roots) and (not self.sources or source_of(op) in self.sources)

    def match(self, op: Operation) -> Op | None:
        """The operation if it has the structure of the pattern, otherwise None."""
        return cast(Op, op) if self.stands_for(cast(NNOp, op)) else None

    def rewrite(self, build: Builder, op: Op) -> Values:
        """Builds the operations; returns the values that replace the results."""
        raise NotImplementedError

    def attempt(self, op: NNOp, quantizer: Quantizer) -> Values | Refusal | None:
        """The values that replace the results of an operation, or why there are none; None if it does not match.

        A refused operation has left nothing but what the quantizer made for all.
        """
        if (found := self.match(op)) is None:
            return None
        if (refusal := self.refusal(found)) is not None:
            return refusal
        build = Builder(op, quantizer)
        try:
            return self.rewrite(build, found)
        except VerifyException as e:
            build.take_back()
            return Refusal("ascend-constraint", str(e))

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        run, op = self.run, cast(NNOp, op)
        assert run is not None
        if not run.takes(op) or (found := self.attempt(op, run.quantizer)) is None:
            return
        if isinstance(found, Refusal):
            run.remarks.missed(op, *found)
            return
        earlier = run.remarks.of(op) if run.remarks.has(op) else ()
        run.remarks.forget(op)
        for old, new in zip(op.results, found, strict=True):
            set_type(new, old.type)  # uses rely on the declared type, which may know more sizes than were inferred
            if not isinstance(new.owner, ConstantOp):  # whose name is that of its array
                new.name_hint = old.name_hint
        rewriter.replace(op, [], found)
        made = cast(NNOp, found[0].owner)
        for each in earlier:
            run.remarks.missed(made, each.rule, each.reason)
        if not earlier:
            run.remarks.applied(made, "lower", f"computed by {made.name}")


@cache
def _is_any(kind: type[NNOp], roots: Roots) -> bool:
    return issubclass(kind, roots)


Rule = Callable[[Builder, Any], Values]
"""Builds operations that compute an operation under no condition."""
Properties = Callable[[Any], Mapping[str, Any]]

ROWS: dict[tuple[type[NNOp], Source | None], Rule] = {}
"""Rules of operations that always have a counterpart, by operation and, if only some layers are meant, their source."""


def lowers(*kinds: type[Op], source: Source | None = None) -> Callable[[Callable[[Builder, Op], Values]], Rule]:
    """Adds a row to the table for each of these operations."""

    def register(rule: Callable[[Builder, Op], Values]) -> Rule:
        ROWS.update({(kind, source): rule for kind in kinds})
        return rule

    return register


def lowers_each(table: Mapping[type[NNOp], type[AscendOp] | tuple[type[AscendOp], Properties]]) -> None:
    """Adds rows for operations with the same operands in the same order: a class, whose numbers have the same names and
    defaults, or a class and a function that gives its properties.
    """

    def rule_for(kind: type[AscendOp], properties: Properties) -> Rule:
        return lambda build, op: build.add(kind, *op.operands, **properties(op)).results

    for source, row in table.items():
        ROWS[source, None] = rule_for(*row) if isinstance(row, tuple) else rule_for(row, row.like)
