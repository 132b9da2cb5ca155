"""The table of canonicalization rules: functions by operation class, run by one pattern."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from ...rewriting import Remarks

Rule = Callable[[Any, PatternRewriter, Remarks], None]
"""Visits one operation, and rewrites it or leaves it. A rule makes the module smaller or simpler, never the reverse: rules
end because no two undo each other."""

_Op = TypeVar("_Op", bound=Operation)

_FAMILIES = ("identities", "reshapes", "transposes", "arithmetic", "pads", "dilation")

_RULES: dict[type[Operation], list[Rule]] = {}


def rule(
    *ops: type[_Op],
) -> Callable[[Callable[[_Op, PatternRewriter, Remarks], None]], Callable[[_Op, PatternRewriter, Remarks], None]]:
    """Registers a rule for these operation classes. The rules of a class are tried in order of registration."""

    def register(
        function: Callable[[_Op, PatternRewriter, Remarks], None],
    ) -> Callable[[_Op, PatternRewriter, Remarks], None]:
        for op in ops:
            _RULES.setdefault(op, []).append(function)
        return function

    return register


def rules_of(op: type[Operation]) -> list[Rule]:
    """The rules for operations of this class."""
    for family in _FAMILIES:
        import_module(f".{family}", __package__)
    return _RULES.get(op, [])


def give_back(
    op: Operation, value: SSAValue, rewriter: PatternRewriter, remarks: Remarks, rule: str, reason: str
) -> None:
    """Replaces the one result of `op` by an existing value, unless their types know different sizes."""
    if op.results[0].type != value.type:
        return
    remarks.applied(op, rule, reason)
    rewriter.replace(op, [], [value])


class Canonicalization(RewritePattern):
    """Applies the first rule of an operation's class that changes something."""

    def __init__(self, remarks: Remarks):
        self._remarks = remarks
        self._rules: dict[type[Operation], list[Rule]] = {}

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        kind = type(op)
        if (rules := self._rules.get(kind)) is None:
            rules = self._rules[kind] = rules_of(kind)
        for each in rules:
            each(op, rewriter, self._remarks)
            if rewriter.has_done_action:
                return
