"""Arithmetic on the result of a computing operation with one number per channel: a factor, a divisor, a bias."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from xdsl.ir import OpResult, SSAValue

from ...dialects.nn import AddOp, BiasAddOp, DivOp, MulOp, NNOp, SubOp, WeightedOp, constant_of
from ...dialects.nn.shapes import shape_of
from ...rewriting import Array, condition
from .channels import Channels
from .computing import (
    Chain,
    along_channels,
    bias_axis,
    chain_to,
    constant_numbers,
    followed,
    misplaced,
    positions,
    producer,
)

Arithmetic = AddOp | BiasAddOp | DivOp | MulOp | SubOp


class ChainParameter(NamedTuple):
    """A chain, and the parameter that the arithmetic after it adds, subtracts, multiplies by or divides by."""

    compute: WeightedOp
    between: tuple[NNOp, ...]
    parameter: SSAValue


def parameter_of(op: Arithmetic) -> ChainParameter | None:
    """The chain and the parameter of an operation; None if it combines values.

    A parameter is a constant, the bias of a BiasAdd, or a value that has one number per channel, as a factor that is a graph
    input. A residual and a gate vary along other axes, too.
    """
    for value, other in sides_of(op):
        if constant_of(value) is not None or (chain := chain_to(value)) is None:
            continue
        if isinstance(op, BiasAddOp) or constant_of(other) is not None or _is_parameter(*chain, value, other):
            return ChainParameter(*chain, other)
    return None


def sides_of(op: NNOp) -> list[tuple[SSAValue, SSAValue]]:
    """Pairs of operands that may be the value and the parameter. A constant is not divided, nor subtracted from."""
    first, second = op.operands
    if isinstance(op, BiasAddOp) or (isinstance(op, SubOp | DivOp) and constant_of(first) is not None):
        return [(first, second)]
    return [(first, second), (second, first)]


def _is_parameter(compute: WeightedOp, between: tuple[NNOp, ...], value: SSAValue, other: SSAValue) -> bool:
    """Whether a computed operand has the shape of a parameter: it varies along output channels only."""
    channels = followed(compute, between)
    if isinstance(channels, str) or other in compute.operands:
        return False
    return is_parameter(channels, shape_of(value), other)


def is_parameter(channels: Channels, shape: Sequence[int], other: SSAValue) -> bool:
    """Whether an operand next to a value with these channels is a parameter: a smaller graph input, or one number per channel."""
    given = shape_of(other)
    if isinstance(other, OpResult) and given == tuple(shape):
        return False  # a residual of one row
    if not isinstance(other, OpResult) and given != tuple(shape):
        return True
    first = len(shape) - len(given)
    return first >= 0 and all(length == 1 or _fits(channels, i, length) for i, length in enumerate(given, first))


def _fits(channels: Channels, axis: int, length: int) -> bool:
    return channels.along(axis) is not None and length == channels.size(axis)


class ChainArithmetic(Chain, Protocol):
    """A match with a chain and the arithmetic after it."""

    @property
    def arithmetic(self) -> Arithmetic: ...

    @property
    def parameter(self) -> SSAValue: ...


def not_constant(parameter: SSAValue) -> str | None:
    """The reason why a parameter cannot be folded; None for a constant."""
    if constant_of(parameter) is not None:
        return None
    return f"its other operand comes from {producer(parameter)}, not from a constant"


class ParameterConditions:
    """The conditions of every fold of arithmetic with one number per channel."""

    @condition
    def parameter_constant(self, m: ChainArithmetic) -> str | None:
        """the factor, divisor or summand is constant"""
        return not_constant(m.parameter)

    @condition
    def runs_along_channels(self, m: ChainArithmetic) -> str | None:
        """the constant broadcasts along the output channels only"""
        if isinstance(m.arithmetic, BiasAddOp):
            found = misplaced(m.compute, m.between, bias_axis(m.arithmetic))
            return None if found is None else f"it adds along {found}"
        channels = followed(m.compute, m.between)
        if isinstance(channels, str):
            return None  # a condition of its own
        found = along_channels(channels, _shape(m), constant_numbers(m.parameter))
        return found if isinstance(found, str) else None


def operand_along(m: ChainArithmetic) -> Array:
    """The constant as one number per output channel, float64 `[C]`. Requires the conditions."""
    numbers = constant_numbers(m.parameter)
    if isinstance(m.arithmetic, BiasAddOp):
        return numbers[positions(m.compute, m.between, bias_axis(m.arithmetic))]
    channels = followed(m.compute, m.between)
    assert not isinstance(channels, str), "the pattern has asked for it"
    along = along_channels(channels, _shape(m), numbers)
    assert not isinstance(along, str), "the pattern has asked for it"
    return along


def _shape(m: ChainArithmetic) -> tuple[int, ...]:
    """The shape of the value that the arithmetic changes."""
    return shape_of(m.between[-1].results[0] if m.between else m.compute.result)
