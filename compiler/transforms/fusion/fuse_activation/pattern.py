"""The common parts of region patterns: the rules of the target, and common conditions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ....dialects.nn import ActivationOp, AddOp, BiasAddOp, FusedOp, NNOp, WeightedOp, constant_of
from ....dialects.nn.shapes import shape_of, text
from ....rewriting import FusionPattern, Guard, Remarks, condition, layer_of, matched_operations
from ..computing import chain_of
from ..regions import in_region, region
from .activations import Activation

M = TypeVar("M")


@dataclass(frozen=True)
class Rules:
    """The operations that a target computes as one."""

    source: str
    """The source of the rules, for remarks: `profile ascend`."""
    activations: frozenset[str]
    add: bool
    """Whether a residual add may be inside."""
    compute: WeightedOp | None = None
    """The only computing operation to fuse; None for any."""

    @staticmethod
    def of(source: str, activations: Iterable[str], add: bool) -> Rules:
        """The rules of a source; relu6 is included if clip is."""
        kinds = frozenset(activations)
        return Rules(source, kinds | {"relu6"} if "clip" in kinds else kinds, add)


class RegionPattern(FusionPattern[M]):
    """A pattern whose operations become one `nn.fused`. Nothing inside a region is matched."""

    def __init__(self, remarks: Remarks, rules: Rules, guards: Sequence[Guard] = ()):
        super().__init__(remarks, guards)
        self.rules = rules

    @abstractmethod
    def kind(self, m: M) -> str:
        """The kind of the region."""

    @condition
    def used_inside(self, m: M) -> str | None:
        """the results inside are used inside only (a graph output is a use)"""
        *inner, last = matched_operations(m)
        inside = {*inner, last}
        for op in inner:
            if (user := next((u.operation for u in op.results[0].uses if u.operation not in inside), None)) is not None:
                also = "a graph output" if isinstance(user, ReturnOp) else f"used by '{user.name}' {layer_of(user)}"
                return f"the result of {layer_of(op)} is also {also}"
        return None

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not in_region(op):
            super().match_and_rewrite(op, rewriter)

    def rewrite(self, m: M, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        parts = cast("list[NNOp]", matched_operations(m))
        for op in parts:
            if isinstance(op, ActivationOp):  # part of a larger activation: remarks about it alone do not count
                self.remarks.forget(op)
        return [region(self.kind(m), parts)]

    def outcome(self, built: Operation) -> str:
        return f"fused into {cast(FusedOp, built).kind.data} {layer_of(built)}"


class HasActivation(Protocol):
    """A match that ends in an activation."""

    @property
    def activation(self) -> Activation: ...


class ActivationConditions:
    """The conditions of a region that ends in an activation."""

    rules: Rules

    @condition
    def activation_of_target(self, m: HasActivation) -> str | None:
        """the activation is one that the target computes with the operation before it (profile, or activation-type)"""
        if m.activation.kind in self.rules.activations:
            return None
        known = ", ".join(sorted(self.rules.activations))
        return f"{m.activation.kind} is not among the activations of {self.rules.source}: {known}"


class HasResidual(Protocol):
    """A match with a residual add."""

    @property
    def compute(self) -> WeightedOp: ...

    @property
    def add(self) -> AddOp: ...

    @property
    def residual(self) -> SSAValue: ...


class ResidualConditions:
    """The conditions of a region with a residual add. It replaces the add, so the other operand is defined there."""

    rules: Rules

    @condition
    def add_of_target(self, m: HasResidual) -> str | None:
        """the target adds a residual to the accumulator (profile)"""
        return None if self.rules.add else f"{self.rules.source} adds no residual inside a computing operation"

    @condition
    def operands_differ(self, m: HasResidual) -> str | None:
        """the add does not add a value to itself"""
        return f"it adds the result of {layer_of(m.compute)} to itself" if m.add.lhs is m.add.rhs else None

    @condition
    def residual_computed(self, m: HasResidual) -> str | None:
        """the other operand is not a constant"""
        return (
            None if constant_of(m.residual) is None else "the other operand is a constant: that is a bias (--fuse-bias)"
        )

    @condition
    def shapes_identical(self, m: HasResidual) -> str | None:
        """both operands have one shape"""
        computed = m.add.rhs if m.residual is m.add.lhs else m.add.lhs
        shape, other = shape_of(computed), shape_of(m.residual)
        return None if shape == other else f"it adds {text(other)} to {text(shape)}"


def compute_before(value: SSAValue, rules: Rules) -> tuple[WeightedOp, BiasAddOp | None] | None:
    """The computing operation that produces a value, directly or through a BiasAdd, if it may be fused."""
    chain = chain_of(value)
    return chain if chain is not None and rules.compute in (None, chain[0]) else None


def residual_before(op: Operation, rules: Rules) -> tuple[WeightedOp, BiasAddOp | None, AddOp, SSAValue] | None:
    """An add of a computing operation and a residual; if both operands are candidates, the first without other uses."""
    if not isinstance(op, AddOp):
        return None
    sides = [(value, other) for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)) if compute_before(value, rules)]
    for value, residual in sorted(sides, key=lambda side: side[0].has_more_than_one_use()):
        if (chain := compute_before(value, rules)) is not None:
            return (*chain, op, residual)
    return None
