"""Removes unused operations."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation
from xdsl.transforms.dead_code_elimination import is_trivially_dead


def erase_dead(candidates: Iterable[Operation]) -> None:
    """Erases candidates that are pure and unused, and operations that only they used.

    Candidates in program order need one step each: the last one is visited first.
    """
    stack = list(candidates)
    while stack:
        op = stack.pop()
        if op.parent is None or not op.results or not is_trivially_dead(op):
            continue
        stack.extend(owner for operand in op.operands if isinstance(owner := operand.owner, Operation))
        op.detach()
        op.erase()
