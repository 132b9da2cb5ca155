"""Arithmetic on the result of a computing operation with one number per channel: a factor, a divisor, a bias."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from xdsl.ir import OpResult, SSAValue

from ...dialects.nn import AddOp, BiasAddOp, DivOp, MulOp, NNOp, SubOp, constant_of
from ...dialects.nn.shapes import shape_of
from ...rewriting import Array, condition
from .channels import Channels
from .computing import (
    Chain,
    Computing,
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
    """A chain, and what the arithmetic behind it adds, subtracts, multiplies by or divides by."""

    compute: Computing
    between: tuple[NNOp, ...]
    parameter: SSAValue


def parameter_of(op: Arithmetic) -> ChainParameter | None:
    """The chain and the parameter of an operation; None if it combines values.

    A parameter is a constant, the bias of a BiasAdd, or a value that has one number per channel, as a factor that is a graph
    input. A residual and a gate vary along other axes, too.
    """
    sides = [(op.operands[0], op.operands[1])]
    if isinstance(op, AddOp | MulOp):
        sides.append((op.operands[1], op.operands[0]))
    for value, other in sides:
        if constant_of(value) is not None or (chain := chain_to(value)) is None:
            continue
        if isinstance(op, BiasAddOp) or constant_of(other) is not None or _is_parameter(*chain, value, other):
            return ChainParameter(*chain, other)
    return None


def _is_parameter(compute: Computing, between: tuple[NNOp, ...], value: SSAValue, other: SSAValue) -> bool:
    """Whether a computed operand has the shape of a parameter: it varies along output channels only."""
    shape, given = shape_of(value), shape_of(other)
    channels = followed(compute, between)
    if isinstance(channels, str) or len(given) > len(shape):
        return False
    if given == shape and (isinstance(other, OpResult) or other in compute.operands):
        return False  # a residual of one row
    return all(length == 1 or _fits(channels, i, length) for i, length in enumerate(given, len(shape) - len(given)))


def _fits(channels: Channels, axis: int, length: int) -> bool:
    return channels.along(axis) is not None and length == channels.size(axis)


class ChainArithmetic(Chain, Protocol):
    """A match with a chain and the arithmetic behind it."""

    @property
    def arithmetic(self) -> Arithmetic: ...

    @property
    def parameter(self) -> SSAValue: ...


class ParameterConditions:
    """The conditions of every fold of arithmetic with one number per channel."""

    @condition
    def parameter_constant(self, m: ChainArithmetic) -> str | None:
        """the factor, divisor or summand is constant"""
        return (
            None
            if constant_of(m.parameter) is not None
            else f"its other operand comes from {producer(m.parameter)}, not from a constant"
        )

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
