"""Arithmetic on constants that a frontend left as operations: recognized by structure, evaluated in float64.

The standard deviation inside a batch norm is one: `sqrt(variance + epsilon)` and its reciprocal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np
from xdsl.ir import Operation, OpResult, SSAValue

from ....dialects import nn
from ....dialects.nn.shapes import element_of, shape_of, static
from ....ir.dtypes import is_float
from ....rewriting import Array
from ..computing import constant_numbers

MAX_DEPTH = 10
"""Parameter arithmetic of a batch norm is 7 operations deep at most: reshape, add, rsqrt, multiply, multiply, subtract, cast."""


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


_ARITHMETIC: Mapping[type[Operation], Callable[..., Any]] = {
    nn.AddOp: np.add,
    nn.SubOp: np.subtract,
    nn.MulOp: np.multiply,
    nn.DivOp: np.divide,
    nn.PowOp: np.power,
    nn.NegOp: np.negative,
    nn.SqrtOp: np.sqrt,
    nn.RsqrtOp: _rsqrt,
    nn.ReciprocalOp: np.reciprocal,
}

_SAME_NUMBERS = (nn.CastOp, nn.ReshapingOp)
"""Operations that keep the numbers and their order."""


def is_expression(value: SSAValue, depth: int = MAX_DEPTH) -> bool:
    """Whether a value is a constant, or computed from constants by few operations."""
    if not isinstance(value, OpResult):
        return False
    op = value.op
    if type(op) is nn.ConstantOp:
        return True
    if depth == 0 or not static(shape_of(value)) or not is_float(element_of(value)):
        return False
    if isinstance(op, _SAME_NUMBERS):
        return is_expression(op.operands[0], depth - 1)
    return type(op) in _ARITHMETIC and all(is_expression(operand, depth - 1) for operand in op.operands)


def numbers(value: SSAValue) -> Array:
    """The float64 numbers of an expression. Casts do not round."""
    assert isinstance(value, OpResult)
    op = value.op
    if isinstance(op, nn.ConstantOp):
        return constant_numbers(value)
    if isinstance(op, _SAME_NUMBERS):
        return numbers(op.input).reshape(shape_of(value))
    return _ARITHMETIC[type(op)](*map(numbers, op.operands))


def operations(*values: SSAValue | None) -> list[Operation]:
    """The operations of expressions, without constants and duplicates."""
    found: dict[Operation, None] = {}
    rest = [v for v in values if v is not None]
    while rest:
        value = rest.pop()
        if isinstance(value, OpResult) and not isinstance(value.op, nn.ConstantOp) and value.op not in found:
            found[value.op] = None
            rest.extend(value.op.operands)
    return list(found)


def bare(value: SSAValue) -> SSAValue:
    """The value before casts and reshapes."""
    while isinstance(value, OpResult) and isinstance(value.op, _SAME_NUMBERS):
        value = value.op.input
    return value


def maker(value: SSAValue) -> Operation | None:
    """The operation that produces a value, before casts and reshapes."""
    value = bare(value)
    return value.op if isinstance(value, OpResult) else None


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
