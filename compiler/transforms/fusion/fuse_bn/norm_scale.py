"""Folds a factor or shift per channel after a batch norm into its scale and offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import Operation, OpResult, SSAValue

from ....dialects.nn import AddOp, ArithmeticOp, BatchNormOp, DivOp, MulOp, constant_of, kinds
from ....dialects.nn.shapes import element_of, shape_of
from ....ir.dtypes import numpy_dtype
from ....rewriting import Array, Condition, Folded, FusionPattern, Roots, condition, layer_of, used_once
from ..amct_rules import amct
from ..channels import Channels
from ..computing import along_channels, bias_axis, constant_numbers
from ..parameter import is_parameter, not_constant, sides_of
from .compute import NormConditions


@dataclass(frozen=True)
class NormScale:
    """A batch norm, and the arithmetic with a constant after it."""

    bn: BatchNormOp
    follower: ArithmeticOp
    operand: SSAValue


class FuseNormScale(NormConditions, FusionPattern[NormScale]):
    """batch_norm(x) * c and batch_norm(x) + c are batch norms with scale * c, offset * c, or with offset + c; c is a scalar or
    one number per channel (AMCT's BatchNormalization+Mul and +Add for ONNX; division and subtraction go beyond)
    """

    name = "batch-norm-scale"
    roots: ClassVar[Roots] = kinds(ArithmeticOp)

    norm_used_once: Condition[Any] = used_once("bn")

    @amct
    def scale_of_amct(self, m: NormScale) -> str | None:
        """none: AMCT has this fusion for ONNX"""
        return "AMCT fuses it for ONNX, not for TensorFlow"

    @condition
    def parameter_constant(self, m: NormScale) -> str | None:
        """the factor, divisor or summand is constant"""
        return not_constant(m.operand)

    @condition
    def runs_along_channels(self, m: NormScale) -> str | None:
        """the constant broadcasts along the channels only"""
        found = _along(m)
        return found if isinstance(found, str) else None

    def match(self, op: Operation) -> NormScale | None:
        if not isinstance(op, ArithmeticOp):
            return None
        for value, operand in sides_of(op):
            norm = value.op if isinstance(value, OpResult) and isinstance(value.op, BatchNormOp) else None
            if norm is None:
                continue
            if constant_of(operand) is not None or is_parameter(_channels(norm), shape_of(norm.result), operand):
                return NormScale(norm, op, operand)
        return None

    def fold(self, m: NormScale) -> Sequence[Folded]:
        scale, offset = constant_numbers(m.bn.scale), constant_numbers(m.bn.offset)
        c = _along(m)
        assert not isinstance(c, str), "the pattern has asked for it"
        scale, offset = _combined(m.follower, scale, offset, c)
        rows = (("scale", m.bn.scale, scale, False), ("offset", m.bn.offset, offset, True))
        return [
            Folded(_key(m.bn, name, value), numpy_dtype(element_of(value)), numbers, added)
            for name, value, numbers, added in rows
        ]

    def rewrite(self, m: NormScale, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        scale, offset = folded
        return [m.bn.with_operands(scale=scale, offset=offset, result_type=m.follower.result.type)]


def _combined(op: Operation, scale: Array, offset: Array, c: Array) -> tuple[Array, Array]:
    match op:
        case MulOp():
            return scale * c, offset * c
        case DivOp():
            return scale / c, offset / c
        case AddOp():
            return scale, offset + c
        case _:
            return scale, offset - c


def _along(m: NormScale) -> Array | str:
    """The constant as one number per channel, `[C]`, or the reason why it is not."""
    return along_channels(_channels(m.bn), shape_of(m.bn.result), constant_numbers(m.operand))


def _channels(norm: BatchNormOp) -> Channels:
    return Channels.of(shape_of(norm.result), bias_axis(norm), shape_of(norm.scale)[0])


def _key(norm: BatchNormOp, name: str, value: SSAValue) -> str:
    constant = constant_of(value)
    key = f"{layer_of(norm)}.{name}" if constant is None else constant.key
    return f"{key.removesuffix('.folded')}.folded"
