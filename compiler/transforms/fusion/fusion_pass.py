"""The base of the fusion passes: patterns to apply, and remarks on operations that remain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ...dialects.nn import ArithmeticOp, DivOp, NNOp, SubOp, constant_of
from ...ir.layer_names import LayerNames
from ...rewriting import FusionPattern, Guard, Remarks, erase_dead_constants, layer_of, nn_ops, rewrite
from .amct_rules import warn_if_idle
from .computing import TrainedLayers, chain_to, producer, trained_weight
from .selection import FusionOptions, type_names

Patterns = tuple[type[FusionPattern[Any]], ...]
"""Classes of patterns, in the order in which they are tried."""


@dataclass(frozen=True)
class FusionPass(FusionOptions, ModulePass, ABC):
    """A pass made of fusion patterns. Operations that it removes in general but had to leave get a remark, matched or not."""

    PATTERNS: ClassVar[Patterns]

    def patterns(self, module: ModuleOp, remarks: Remarks, guards: Sequence[Guard]) -> list[FusionPattern[Any]]:
        """The patterns for one module. Overridden where options of the pass decide how they match."""
        return [pattern(remarks, guards) for pattern in self.PATTERNS]

    @abstractmethod
    def report(self, module: ModuleOp, remarks: Remarks) -> None:
        """Adds a remark for every remaining operation of the kind that this pass removes, unless it has one."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        with needless_skips_noted(ctx, op, self, self.name):
            self.fuse(ctx, op)

    def fuse(self, ctx: Context, op: ModuleOp) -> None:
        """Applies the patterns. Overridden if their order matters."""
        run_fusions(ctx, op, [self])


@contextmanager
def needless_skips_noted(ctx: Context, module: ModuleOp, options: FusionOptions, name: str) -> Generator[None]:
    """Adds a remark, after fusion by the pass of that name, for each skipped layer that would not have been fused anyway.

    A name or a type that matches nothing in the module gets a warning.
    """
    remarks, names = Remarks(ctx, name), LayerNames.of(module)
    warn_if_idle(module, remarks.session)
    types = dict.fromkeys(t for op in module.walk() if isinstance(op, NNOp) for t in type_names(op))
    for unknown in (t for t in options.skip_types if t not in types):
        meant = get_close_matches(unknown, types, 3)
        hint = f": did you mean {', '.join(meant)}?" if meant else ""
        remarks.session.warn(f"skip-types names '{unknown}', which is not the type of an operation of the model{hint}")
    remarks.session.skip_fusion = frozenset(names.expanded(remarks.session.skip_fusion))
    remarks.session.fusions_skipped.clear()
    yield
    for setting, skipped in options.skipped(remarks.session).items():
        for layer in skipped:
            if not (found := names.find_inside(layer)):
                unknown = f"{setting} names '{layer}', which is not a layer or module of the model"
                remarks.session.warn(f"{unknown}: {names.hint(layer)}")
            elif remarks.session.fusions_skipped.isdisjoint(names.expanded([layer])):
                remarks.note(
                    found[0], "skip-fusion", f"{layer} is one of {setting}, but nothing is fused with it anyway"
                )
    remarks.flush()


def run_fusions(ctx: Context, module: ModuleOp, passes: Sequence[FusionPass], whole: str = "") -> None:
    """Applies the patterns of several passes together, so that each sees the results of the others; then each reports.

    Patterns that are registered for the pass that runs them all, `whole`, come first.
    """
    remarks = [Remarks(ctx, each.name) for each in passes]
    of_all = Remarks(ctx, whole)
    patterns: list[FusionPattern[Any]] = [
        each(of_all, passes[0].guards(module, of_all.session)) for each in of_all.session.patterns_of(whole)
    ]
    for each, r in zip(passes, remarks, strict=True):
        guards = each.guards(module, r.session)
        added = (pattern(r, guards) for pattern in r.session.patterns_of(each.name))
        patterns += [*added, *each.patterns(module, r, guards)]
    rewrite(module, *patterns)
    erase_dead_constants(module)
    of_all.flush()
    for each, r in zip(passes, remarks, strict=True):
        each.report(module, r)
        r.flush()


def report_unmatched(module: ModuleOp, remarks: Remarks, *kinds: type[NNOp]) -> None:
    """Adds a remark for each operation of these kinds without a remark of a pattern, unless it combines two values.

    What follows a layer with quantized weights is not missed: it is left for adapt-qat.
    """
    trained = TrainedLayers()
    for op in nn_ops(module, *kinds):
        computed = [v for v in op.operands if constant_of(v) is None]
        if not computed or remarks.has(op) or (len(computed) > 1 and isinstance(op, ArithmeticOp)):
            continue
        if (layer := trained.behind(computed[0])) is not None:
            remarks.note(op, "trained", f"--adapt-qat makes it part of the scales of {layer_of(layer)}")
        else:
            remarks.missed(op, *_why_unmatched(op, computed[0]))


_CONSTANT_FIRST: Mapping[type[NNOp], str] = {
    DivOp: "it divides a constant by the result of {}, which is not a factor of its weights",
    SubOp: "it subtracts the result of {} from a constant, which is not a bias of it",
}


def _why_unmatched(op: NNOp, value: SSAValue) -> tuple[str, str]:
    """Rule and reason for an operation on a value and constants that no pattern folds."""
    comes = f"its input comes from {producer(value)}"
    if (chain := chain_to(value)) is None:
        return "no-producer", f"{comes}, which has no weights"
    if trained_weight(chain[0]) is not None:
        return "trained", f"{comes}, after {layer_of(chain[0])}, whose weight is quantized"
    if (what := _CONSTANT_FIRST.get(type(op))) is not None and op.operands[1] is value:
        return "constant-first", what.format(producer(value))
    return "no-pattern", f"{comes}, and nothing folds '{op.name}' into that"
