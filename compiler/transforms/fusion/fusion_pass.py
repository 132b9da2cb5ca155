"""The base of the fusion passes: patterns to apply, and a report on what they left behind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import OpResult, SSAValue
from xdsl.passes import ModulePass

from ...dialects.nn import NNOp, constant_of
from ...rewriting import FusionPattern, Guard, Remarks, erase_dead_constants, layer_of, nn_ops, rewrite
from .selection import FusionOptions

Patterns = tuple[type[FusionPattern[Any]], ...]
"""Classes of patterns, in the order in which they are tried."""


@dataclass(frozen=True)
class FusionPass(FusionOptions, ModulePass, ABC):
    """A pass made of fusion patterns. What it removes but had to leave gets a remark, matched or not."""

    PATTERNS: ClassVar[Patterns]

    def patterns(self, module: ModuleOp, remarks: Remarks, guards: Sequence[Guard]) -> list[FusionPattern[Any]]:
        """The patterns for one module. Overridden where options of the pass decide how they match."""
        return [pattern(remarks, guards) for pattern in self.PATTERNS]

    @abstractmethod
    def report(self, module: ModuleOp, remarks: Remarks) -> None:
        """A remark for every operation of the kind this pass removes that is still there and has none."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        run_fusions(ctx, op, [self])


def run_fusions(ctx: Context, module: ModuleOp, passes: Sequence[FusionPass]) -> None:
    """Apply the patterns of several passes together, so that each sees what the others make; then each reports."""
    remarks = [Remarks(ctx, each.name) for each in passes]
    patterns: list[FusionPattern[Any]] = []
    for each, r in zip(passes, remarks, strict=True):
        patterns += each.patterns(module, r, each.guards(module, r.session))
    rewrite(module, *patterns)
    erase_dead_constants(module)
    for each, r in zip(passes, remarks, strict=True):
        each.report(module, r)
        r.flush()


def report_unmatched(module: ModuleOp, remarks: Remarks, *kinds: type[NNOp]) -> None:
    """A remark for each operation of these kinds on one computed value that no pattern has spoken of."""
    for op in nn_ops(module, *kinds):
        computed = [v for v in op.operands if constant_of(v) is None]
        if len(computed) == 1 and not remarks.has(op):
            remarks.missed(op, "no-producer", f"its input comes from {producer(computed[0])}, which holds no weights")


def producer(value: SSAValue) -> str:
    """What gives a value, in words."""
    if not isinstance(value, OpResult):
        return "a graph input"
    return f"'{value.op.name}' {layer_of(value.op)}"
