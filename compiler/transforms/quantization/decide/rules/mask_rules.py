"""Rules that keep masks out of ranges: attention masks scores by adding or choosing -10000, the lowest float or -inf."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from .....dialects import nn
from ..sites import Site
from .layer_rules import rule

_SCORES = (nn.MovingOp, nn.BinaryOp, nn.CastOp, nn.WhereOp, nn.ReduceMaxOp)
"""Operations that scale, bias, mask and move scores and masks, or take the largest one."""


@rule("softmax-input")
def feeds_more_than_softmax(site: Site) -> str | None:
    """not only a Softmax, which takes floats, reads the result, be it directly or by way of what scales, masks and moves it"""
    if not _only_feeds_softmax(site.owner.results[0], site.softmax_only):
        return None
    return "it only feeds Softmax, which takes floats; masked scores (-10000, -inf) would widen its range"


def _only_feeds_softmax(value: SSAValue, known: dict[SSAValue, bool]) -> bool:
    """The answer for a value; `known` keeps those for all values after it."""
    waiting = [value]
    while waiting:
        current = waiting[-1]
        further = None if current in known else _scores_from(current)
        if further and (unknown := [v for v in further if v not in known]):
            waiting += unknown
            continue
        known.setdefault(current, further is not None and all(known[v] for v in further))
        waiting.pop()
    return known[value]


def _scores_from(value: SSAValue) -> list[SSAValue] | None:
    """The results of what moves, scales and masks a value; None if nothing reads it, or something else than this and Softmax."""
    readers = [use.operation for use in value.uses]
    others = [op for op in readers if not _is_softmax(op)]
    if not readers or not all(isinstance(op, (*_SCORES, nn.PointOp)) for op in others):
        return None
    return [result for op in others for result in op.results]


def _is_softmax(op: Operation) -> bool:
    return isinstance(op, nn.SoftmaxOp | nn.LogSoftmaxOp) or (isinstance(op, nn.ExpOp) and _begins_softmax(op))


@rule("softmax-part")
def ends_no_softmax(site: Site) -> str | None:
    """the division is not that of a Softmax in small operations, `exp(x) / sum(exp(x))`, which takes floats"""
    op = site.compute
    if not isinstance(op, nn.DivOp) or not _ends_softmax(op):
        return None
    return "it is the last step of a Softmax in small operations, which takes floats"


def _begins_softmax(exponential: nn.ExpOp) -> bool:
    """Whether only a sum and a division by this sum read an exponential."""
    readers = [use.operation for use in exponential.result.uses]
    ends = [r for r in readers if isinstance(r, nn.DivOp) and _ends_softmax(r)]
    return bool(ends) and all(isinstance(r, nn.ReduceSumOp) or r in ends for r in readers)


def _ends_softmax(division: nn.DivOp) -> bool:
    total = division.rhs.owner
    if not isinstance(division.lhs.owner, nn.ExpOp) or not isinstance(total, nn.ReduceSumOp):
        return False
    return total.input is division.lhs
