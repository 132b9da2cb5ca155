"""Batch norm in its textbook form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from xdsl.ir import Operation

from ....dialects import nn
from ....rewriting import Array, Roots
from .deviation import Factor, deviation_of, factor_of
from .expressions import numbers
from .norm import SmallNorm, SmallNormPattern, Statistics, Step, followed_by, steps_to

_CONTINUED_BY: Mapping[tuple[type[Operation], ...], tuple[type[Operation], ...]] = {
    (): (nn.MulOp, nn.AddOp),
    (nn.MulOp,): (nn.AddOp,),
    (nn.AddOp,): (),
    (nn.MulOp, nn.AddOp): (),
}
"""For each run of operations after the quotient, the operations that may follow it."""

_LONGEST = 4


class FuseWrittenNorm(SmallNormPattern):
    """(x - mean) / sqrt(variance + epsilon) [* scale] [+ offset] is a batch norm; also with * rsqrt(variance + epsilon) in place
    of the quotient (beyond AMCT)
    """

    name = "written-batch-norm"
    roots: ClassVar[Roots] = (nn.AddOp, nn.MulOp, nn.DivOp)

    def match(self, op: Operation) -> SmallNorm | None:
        steps = steps_to(op, _LONGEST)
        at = next((i for i, step in enumerate(steps) if _factor(step) is not None), 0)
        tail = tuple(type(step.op) for step in steps[at + 1 :])
        if at == 0 or not isinstance(steps[at - 1].op, nn.SubOp) or tail not in _CONTINUED_BY:
            return None
        return None if followed_by(op, *_CONTINUED_BY[tail]) else SmallNorm.of(steps[at - 1 :])

    def statistics(self, m: SmallNorm) -> Statistics:
        center, quotient, *tail = m.steps
        factor = _factor(quotient)
        assert factor is not None
        scales = [numbers(s.parameter) for s in tail if isinstance(s.op, nn.MulOp)]
        offsets = [numbers(s.parameter) for s in tail if isinstance(s.op, nn.AddOp)]
        return Statistics(
            scale=_product([*scales, *([] if factor.scale is None else [numbers(factor.scale)])]),
            offset=offsets[0] if offsets else np.zeros(1),
            mean=numbers(center.parameter),
            variance=numbers(factor.deviation.variance),
        )

    def epsilon(self, m: SmallNorm) -> float:
        factor = _factor(m.steps[1])
        assert factor is not None
        return factor.deviation.epsilon_number


def _factor(step: Step) -> Factor | None:
    """The factor of a step, if it is the standard deviation."""
    match step.op:
        case nn.DivOp():
            deviation = deviation_of(step.parameter)
            return None if deviation is None else Factor(deviation, None)
        case nn.MulOp():
            return factor_of(step.parameter)
        case _:
            return None


def _product(factors: Sequence[Array]) -> Array:
    product = np.ones(1)
    for each in factors:
        product = product * each.reshape(-1)
    return product
