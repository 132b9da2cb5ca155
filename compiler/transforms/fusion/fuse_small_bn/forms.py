"""The forms of a batch norm in small operations: the textbook one, those of Keras, and the rest of one after constant folding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from xdsl.ir import Operation, OpResult, SSAValue

from ....dialects import nn
from ....dialects.nn.shapes import shape_of
from ....rewriting import Array, Guard, Remarks, Roots, condition, layer_of
from ..amct_rules import amct
from ..computing import TrainedLayers
from .expressions import Factor, bare, deviation_of, factor_of, is_expression, maker, numbers
from .norm import SmallNorm, SmallNormPattern, Statistics, Step, channel_axis, followed_by, steps_to

_CONTINUED_BY: Mapping[tuple[type[Operation], ...], tuple[type[Operation], ...]] = {
    (): (nn.MulOp, nn.AddOp),
    (nn.MulOp,): (nn.AddOp,),
    (nn.AddOp,): (),
    (nn.MulOp, nn.AddOp): (),
}
"""Operations that may follow a run of operations after the quotient, by run."""

_LONGEST = 4


class FuseWrittenNorm(SmallNormPattern):
    """(x - mean) / sqrt(variance + epsilon) [* scale] [+ offset] is a batch norm; also with * rsqrt(variance + epsilon) in place
    of the quotient (beyond AMCT)
    """

    name = "written-batch-norm"
    roots: ClassVar[Roots] = (nn.AddOp, nn.MulOp, nn.DivOp)

    @amct
    def form_of_amct(self, m: SmallNorm) -> str | None:
        """none: AMCT knows the form of Keras"""
        return "AMCT knows the form of Keras, x * r + (offset - mean * r)"

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


def _per_channel(step: Step) -> bool:
    return bool(shape_of(step.parameter))


_SUMS = (nn.AddOp, nn.SubOp)
_PRODUCTS = (nn.MulOp, nn.DivOp)


class FuseAffineNorm(SmallNormPattern):
    """x * k + c and (x - c1) * k + c2, and every longer run of products, quotients, sums and differences with constants of one
    number per channel, are batch norms with mean 0, variance 1, epsilon 0 (what grappler and --fold-constants leave of one;
    beyond AMCT)
    """

    name = "affine-batch-norm"
    roots: ClassVar[Roots] = nn.kinds(nn.ArithmeticOp)

    def __init__(self, remarks: Remarks, guards: Sequence[Guard] = (), qat: str = ""):
        super().__init__(remarks, guards, qat)
        self._trained = TrainedLayers()

    @amct
    def form_of_amct(self, m: SmallNorm) -> str | None:
        """a product and a sum of one number per channel each, all that is left of Keras's form once constants are computed"""
        if [type(step.op) for step in m.steps] == [nn.MulOp, nn.AddOp] and all(map(_per_channel, m.steps)):
            return None
        return "AMCT knows the form of Keras, of which a product and a sum per channel would be left"

    @condition
    def no_layer_norm(self, m: SmallNorm) -> str | None:
        """the input is not standardized at run time: then these are the scale and offset of a layer or instance norm"""
        if not isinstance(m.input, OpResult):
            return None
        producer = m.input.op
        standardizing = isinstance(producer, _PRODUCTS) and not any(map(is_expression, producer.operands))
        if standardizing or isinstance(producer, nn.MomentsOp):
            return f"its input is standardized at run time by '{producer.name}' {layer_of(producer)}"
        return None

    def match(self, op: Operation) -> SmallNorm | None:
        if not isinstance(op, _SUMS + _PRODUCTS) or followed_by(op, *_SUMS, *_PRODUCTS):
            return None
        steps = steps_to(op)
        kinds = [type(step.op) for step in steps]
        if not any(issubclass(k, _SUMS) for k in kinds) or not any(issubclass(k, _PRODUCTS) for k in kinds):
            return None
        found = SmallNorm.of(steps)
        if self._trained.behind(found.input) is not None:
            return None  # adapt-qat makes these factors and shifts part of scales and biases
        # numbers that are not a batch norm's are not a missed batch norm either
        runs_along_channels = any(step.size > 1 for step in steps) and isinstance(channel_axis(found), int)
        return found if runs_along_channels else None

    def statistics(self, m: SmallNorm) -> Statistics:
        factor, shift = np.ones(1), np.zeros(1)
        for step in m.steps:
            number = numbers(step.parameter).reshape(-1)
            match step.op:
                case nn.AddOp():
                    shift = shift + number
                case nn.SubOp():
                    shift = shift - number
                case nn.MulOp():
                    factor, shift = factor * number, shift * number
                case _:
                    factor, shift = factor / number, shift / number
        return Statistics(factor, shift, np.zeros(1), np.ones(1))
