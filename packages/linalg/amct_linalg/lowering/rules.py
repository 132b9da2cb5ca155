"""The table of lowering rules, by class of operation.

A rule takes the builder, the operation and its operands as linalg has them, and returns the values that replace the results.
The operation gives the facts: an operation of `ascend` may be given by its meaning in `nn`, whose own operands stand for others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from xdsl.ir import SSAValue

from amct_opt.dialects.nn import NNOp

from .build import Builder

Rule = Callable[..., Sequence[SSAValue]]
RULES: dict[type[NNOp], Rule] = {}

_Op = TypeVar("_Op", bound=NNOp)


def lowers(*kinds: type[Any]) -> Callable[[Callable[..., SSAValue]], Callable[..., SSAValue]]:
    """Registers a rule for operations with one result."""

    def register(rule: Callable[..., SSAValue]) -> Callable[..., SSAValue]:
        def run(build: Builder, op: NNOp, *operands: SSAValue) -> Sequence[SSAValue]:
            return [rule(build, op, *operands)]

        RULES.update(dict.fromkeys(kinds, run))
        return rule

    return register


def lowers_to_many(*kinds: type[Any]) -> Callable[[Rule], Rule]:
    """Registers a rule for operations with several results."""

    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return register
