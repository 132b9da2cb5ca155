"""The driver of rewriting: applies patterns to operations until nothing changes.

It has the order of xDSL's walker and drives xDSL's patterns, but is made for large modules: an operation is queued only if a
pattern can start from its class or nothing uses it, and the garbage collector is off. Exceptions of patterns pass
unchanged; xDSL's walker would attach the text of the whole module, including weights.
"""

from __future__ import annotations

import gc
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from operator import attrgetter
from typing import cast

from xdsl.dialects.builtin import ModuleOp, UnknownLoc
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriterListener, RewritePattern
from xdsl.rewriter import InsertPoint
from xdsl.traits import IsTerminator, Pure, SymbolOpInterface
from xdsl.transforms.dead_code_elimination import would_be_trivially_dead


def apply_patterns(module: ModuleOp, patterns: Sequence[RewritePattern], erase_dead: bool) -> bool:
    """Applies patterns until nothing changes, see `rewrite`. True if something changed."""
    driver = _Driver(module, patterns, erase_dead)
    changed = False
    with garbage_collection_off():
        while driver.sweep():
            changed = True
    return changed


def apply_once(module: ModuleOp, patterns: Sequence[RewritePattern]) -> None:
    """Visits every operation once, in program order: for patterns whose results no pattern takes. Dead operations stay."""
    by_class: dict[type[Operation], list[RewritePattern]] = {}
    rewriter = PatternRewriter(InsertPoint.at_end(module.body.block))
    with garbage_collection_off():
        for op in list(module.body.walk()):
            if (tried := by_class.get(type(op))) is None:
                tried = by_class[type(op)] = [p for p in patterns if _may_start(p, op)]
            if tried and op.parent is not None:
                _first_that_applies(tried, op, rewriter)


def _first_that_applies(patterns: Sequence[RewritePattern], op: Operation, rewriter: PatternRewriter) -> bool:
    """Tries patterns in their order until one changes something. True if one did."""
    rewriter.has_done_action = False
    rewriter.current_operation = op
    rewriter.insertion_point = InsertPoint.before(op)
    rewriter.name_hint = None
    for pattern in patterns:
        pattern.match_and_rewrite(op, rewriter)
        if rewriter.has_done_action:
            return True
    return False


@contextmanager
def garbage_collection_off() -> Generator[None]:
    """Turns off Python's garbage collector; also a decorator.

    While a pass makes many operations, the collector would walk a large module again and again. Without it, time grows
    linearly with the module; garbage of the pass is collected afterwards.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Driver:
    """The queue of operations to visit; the next one is last."""

    def __init__(self, module: ModuleOp, patterns: Sequence[RewritePattern], erase_dead: bool):
        self._module = module
        self._patterns = patterns
        self._erase_dead = erase_dead
        self._by_class: dict[type[Operation], list[RewritePattern]] = {}
        self._waiting: dict[int, Operation] = {}
        self._rewriter = PatternRewriter(InsertPoint.at_end(module.body.block))
        self._rewriter.extend_from_listener(
            PatternRewriterListener(
                operation_insertion_handler=[self._touch],
                operation_modification_handler=[self._touch],
                operation_replacement_handler=[self._hand_on],
                operation_removal_handler=[self._forget],
            )
        )

    def sweep(self) -> bool:
        """Visits every operation in order, and after each one those that its rewriting touched."""
        for op in self._module.body.walk(reverse=True, region_first=True):
            if self._patterns_of(op) or _unused(op):
                self._waiting[id(op)] = op
        changed = False
        while self._waiting:
            _, op = self._waiting.popitem()
            changed |= self._visit(op)
        return changed

    def _visit(self, op: Operation) -> bool:
        """Visits one operation. True if something changed."""
        rewriter = self._rewriter
        if self._erase_dead and _unused(op) and (_pure(type(op)) or would_be_trivially_dead(op)):
            rewriter.erase(op)
            return True
        patterns = self._patterns_of(op)
        return bool(patterns) and _first_that_applies(patterns, op, rewriter)

    def _patterns_of(self, op: Operation) -> list[RewritePattern]:
        if (patterns := self._by_class.get(type(op))) is None:
            patterns = self._by_class[type(op)] = [p for p in self._patterns if _may_start(p, op)]
        return patterns

    def _touch(self, op: Operation) -> None:
        if self._patterns_of(op):
            self._waiting.setdefault(id(op), op)

    def _hand_on(self, old: Operation, new_results: Sequence[SSAValue | None]) -> None:
        keep_location(old, new_results)
        for result in old.results:
            for use in result.uses:
                self._touch(use.operation)

    def _forget(self, op: Operation) -> None:
        """Queues producers whose results only `op` read: they may be dead now, or may match."""
        for operand in dict.fromkeys(op.operands):
            if isinstance(operand, OpResult) and all(use.operation is op for use in operand.uses):
                self._waiting.setdefault(id(operand.op), operand.op)
        for gone in op.walk():
            self._waiting.pop(id(gone), None)


def _may_start(pattern: RewritePattern, op: Operation) -> bool:
    return isinstance(op, cast("tuple[type[Operation], ...]", getattr(pattern, "roots", (Operation,))))


@cache
def _pure(kind: type[Operation]) -> bool:
    """Whether an operation has no effect except its results, as far as its class shows."""
    return kind.has_trait(Pure) and not kind.has_trait(IsTerminator) and not kind.has_trait(SymbolOpInterface)


_FIRST_USE = attrgetter("first_use")


def _unused(op: Operation) -> bool:
    return not any(map(_FIRST_USE, op.results))


def keep_location(old: Operation, new_results: Sequence[SSAValue | None]) -> None:
    """Gives the operations that replace `old` its location if they have none."""
    for value in new_results:
        owner = None if value is None else value.owner
        if isinstance(owner, Operation) and isinstance(owner.location, UnknownLoc):
            owner.location = old.location
