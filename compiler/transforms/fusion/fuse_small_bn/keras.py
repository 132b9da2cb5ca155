"""The four sequences that `tf.keras.layers.BatchNormalization(fused=False)` leaves in a frozen graph."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from xdsl.ir import Operation, SSAValue

from ....dialects import nn
from ....rewriting import Roots
from .deviation import Factor, factor_of
from .expressions import bare, is_expression, maker, numbers
from .norm import SmallNorm, SmallNormPattern, Statistics, Step, steps_to


class Shift(NamedTuple):
    """`offset - mean * factor`."""

    offset: SSAValue | None
    mean: SSAValue


class FuseKerasNorm(SmallNormPattern):
    """x * r + (offset - mean * r) and x * r + (-mean) * r, with r = rsqrt(variance + epsilon) or that times the scale, are
    batch norms with and without offset and scale (AMCT, tf.keras.layers.BatchNormalization with fused=False)
    """

    name = "keras-batch-norm"
    roots: ClassVar[Roots] = (nn.AddOp,)

    def match(self, op: Operation) -> SmallNorm | None:
        if not isinstance(op, nn.AddOp):
            return None
        match steps_to(op, 2):
            case [Step(op=nn.MulOp(), parameter=factor) as scaled, Step(parameter=shift) as shifted] if (
                factor_of(factor) is not None and _shift(shift, factor) is not None
            ):
                return SmallNorm.of((scaled, shifted))
            case _:
                return None

    def statistics(self, m: SmallNorm) -> Statistics:
        factor, shift = _parts(m)
        one, zero = np.ones(1), np.zeros(1)
        return Statistics(
            scale=one if factor.scale is None else numbers(factor.scale),
            offset=zero if shift.offset is None else numbers(shift.offset),
            mean=numbers(shift.mean),
            variance=numbers(factor.deviation.variance),
        )

    def epsilon(self, m: SmallNorm) -> float:
        return _parts(m)[0].deviation.epsilon_number


def _parts(m: SmallNorm) -> tuple[Factor, Shift]:
    scaled, shifted = m.steps
    factor, shift = factor_of(scaled.parameter), _shift(shifted.parameter, scaled.parameter)
    assert factor is not None
    assert shift is not None
    return factor, shift


def _shift(value: SSAValue, factor: SSAValue) -> Shift | None:
    match maker(value):
        case nn.SubOp(lhs=offset, rhs=product) if (mean := _other_factor(product, factor)) is not None:
            return Shift(offset, mean)
        case nn.MulOp():
            match maker(negated) if (negated := _other_factor(value, factor)) is not None else None:
                case nn.NegOp(input=mean):
                    return Shift(None, mean)
                case _:
                    return None
        case _:
            return None


def _other_factor(product: SSAValue, factor: SSAValue) -> SSAValue | None:
    """The other operand of a product with `factor`, in either order."""
    match maker(product):
        case nn.MulOp(lhs=lhs, rhs=rhs):
            for one, other in ((lhs, rhs), (rhs, lhs)):
                if bare(other) is bare(factor) and is_expression(one):
                    return one
            return None
        case _:
            return None
