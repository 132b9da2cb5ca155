"""The standard deviation inside a batch norm of small operations: `sqrt(variance + epsilon)` and its reciprocal."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from xdsl.ir import SSAValue

from ....dialects import nn
from ....dialects.nn.shapes import shape_of
from .expressions import bare, maker, numbers


class Deviation(NamedTuple):
    """`sqrt(variance + epsilon)`."""

    variance: SSAValue
    epsilon: SSAValue | None

    @property
    def epsilon_number(self) -> float:
        return 0.0 if self.epsilon is None else float(numbers(self.epsilon).reshape(()))


class Factor(NamedTuple):
    """`scale / sqrt(variance + epsilon)`."""

    deviation: Deviation
    scale: SSAValue | None


def deviation_of(value: SSAValue) -> Deviation | None:
    """The parts of `sqrt(variance + epsilon)`."""
    match maker(value):
        case nn.SqrtOp(input=total):
            return _parts(total)
        case _:
            return None


def factor_of(value: SSAValue) -> Factor | None:
    """The parts of `rsqrt(variance + epsilon)` or of its product with the scale, in either order."""
    match maker(value):
        case nn.RsqrtOp(input=total):
            return Factor(_parts(total), None)
        case nn.MulOp(lhs=lhs, rhs=rhs):
            for inverse, scale in ((lhs, rhs), (rhs, lhs)):
                if (found := factor_of(inverse)) is not None and found.scale is None:
                    return Factor(found.deviation, scale)
            return None
        case _:
            return None


def _parts(total: SSAValue) -> Deviation:
    """Splits a sum into variance and epsilon, its single number; without one the whole sum is the variance."""
    match maker(total):
        case nn.AddOp(lhs=lhs, rhs=rhs):
            for variance, epsilon in ((lhs, rhs), (rhs, lhs)):
                if prod(shape_of(epsilon)) == 1:
                    return Deviation(bare(variance), epsilon)
            return Deviation(total, None)
        case _:
            return Deviation(bare(total), None)
