"""The view of computing operations for fusions: convolution, transposed convolution, matrix product.

Each has a weight, an optional bias, and an axis of the bias in its result. A `BiasAdd` may follow it, and operations that only
move elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, cast

import numpy as np
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from ...dialects.nn import (
    AddOp,
    BatchNormOp,
    BiasAddOp,
    DequantizeOp,
    DivOp,
    MatMulOp,
    MulOp,
    NNOp,
    SubOp,
    WeightedOp,
    constant_of,
    kinds,
)
from ...dialects.nn.shapes import known, shape_of, static, text
from ...ir.dtypes import numpy_dtype
from ...rewriting import Array, Folded, condition, layer_of, other_uses
from .channels import MOVES, Channels

COMPUTING = kinds(WeightedOp)
AFFINE = (AddOp, BatchNormOp, BiasAddOp, DivOp, MulOp, SubOp)
"""Operations that, with constants, multiply and shift each channel."""


def computing(value: SSAValue) -> WeightedOp | None:
    """The computing operation that produces a value."""
    return value.op if isinstance(value, OpResult) and isinstance(value.op, COMPUTING) else None


def weight_of(op: WeightedOp) -> SSAValue:
    """The weight of a convolution or matrix product."""
    return op.operands[1]


def with_parameters(op: WeightedOp, weight: SSAValue, bias: SSAValue | None, result_type: Attribute) -> WeightedOp:
    """A copy of `op` with another weight and bias."""
    if isinstance(op, MatMulOp):
        return op.with_operands(rhs=weight, bias=bias, result_type=result_type)
    return op.with_operands(weight=weight, bias=bias, result_type=result_type)


def channels_of(op: WeightedOp) -> Channels | str:
    """The output channels in the result. A string is the reason why there are none."""
    if (axis := op.output_axis) is None:
        return "the result has no channel axis"
    if not known(op.output_channels):
        return "the number of output channels is not known before run time"
    return Channels.of(shape_of(op.result), axis, op.output_channels)


def along_channels(channels: Channels, shape: Sequence[int], constant: Array) -> Array | str:
    """A constant operand of an elementwise operation on a value of this shape as one number per output channel, `[C]`.

    A string is the reason why it is not: its numbers must differ only along the channels, and it must not enlarge the value.
    """
    if constant.ndim > len(shape):
        return f"the constant is of rank {constant.ndim}, the result of rank {len(shape)}"
    padded = constant.reshape((1,) * (len(shape) - constant.ndim) + constant.shape)
    position: list[Array | int] = [0] * len(shape)
    for axis, length in enumerate(padded.shape):
        if length == 1:
            continue
        if (along := channels.along(axis)) is None:
            first = padded[(slice(None),) * axis + (slice(1),)]
            if length == shape[axis] and (padded == first).all():
                padded = first  # written out in full, as MLIR's arithmetic without broadcasting requires
                continue
            return f"the constant {list(constant.shape)} varies along other axes than the channels"
        if length != (there := channels.size(axis)):
            return f"the constant has {length} channels, the result {there}"
        position[axis] = along
    return np.broadcast_to(padded[tuple(position)], (channels.total,))


def folded_parameters(op: WeightedOp, layer: Operation, weight: Array | None, bias: Array | None) -> list[Folded]:
    """Constants for the folded weight and bias, if any: named after the weight, otherwise after `layer`; of the result's type."""
    dtype = numpy_dtype(cast(Any, op.result.type).element_type)
    constant = constant_of(weight_of(op))
    key = f"{layer_of(op)}.weight" if constant is None else constant.key.removesuffix(".folded")
    bias_key = f"{key.removesuffix('weight')}bias" if key.endswith("weight") else f"{layer_of(layer)}.bias"
    parts = ((key, weight, False), (bias_key, bias, True))
    return [Folded(f"{name}.folded", dtype, values, added) for name, values, added in parts if values is not None]


def constant_numbers(value: SSAValue) -> Array:
    """A constant's numbers in float64."""
    constant = constant_of(value)
    assert constant is not None, "the pattern has asked for a constant"
    return constant.array.astype(np.float64)


def summed(parts: Sequence[Array | None]) -> Array | None:
    """The sum of the present terms; None if there are none."""
    present = [p for p in parts if p is not None]
    return sum(present[1:], present[0]) if present else None


class Chain(Protocol):
    """A match with a computing operation and the operations after it: those that move elements, and a BiasAdd at most."""

    @property
    def compute(self) -> WeightedOp: ...

    @property
    def between(self) -> Sequence[NNOp]: ...


LONGEST = 16
"""The number of operations that are followed from a value to the computing operation before it."""


def chain_to(value: SSAValue) -> tuple[WeightedOp, tuple[NNOp, ...]] | None:
    """The computing operation that produces a value, through operations that move elements and one BiasAdd."""
    between: list[NNOp] = []
    while isinstance(value, OpResult) and not isinstance(value.op, COMPUTING):
        op = value.op
        again = isinstance(op, BiasAddOp) and any(isinstance(each, BiasAddOp) for each in between)
        if not isinstance(op, (*MOVES, BiasAddOp)) or again or len(between) == LONGEST:
            return None
        between.insert(0, op)
        value = op.input
    compute = computing(value)
    return None if compute is None else (compute, tuple(between))


def followed(compute: WeightedOp, between: Sequence[NNOp]) -> Channels | str:
    """The output channels after these operations. A string is the reason why they cannot be followed."""
    if isinstance(channels := channels_of(compute), str):
        return channels
    for op in between:
        if isinstance(op, MOVES):
            if (moved := channels.behind(op)) is None:
                before, after = shape_of(op.operands[0]), shape_of(op.results[0])
                joins = "joins or cuts" if static((*before, *after)) else "may join or cut"
                return f"'{op.name}' {layer_of(op)} {joins} the channels, {channels.place()}: {text(before)} to {text(after)}"
            channels = moved
    return channels


def rebuilt(m: Chain, weight: SSAValue, bias: SSAValue | None, result_type: Attribute) -> list[Operation]:
    """The operations of a chain with another weight and bias; the last one has this result type. A BiasAdd is left out."""
    moves = [op for op in m.between if isinstance(op, MOVES)]
    types = [*(op.results[0].type for op in (m.compute, *moves)[:-1]), result_type]
    built: list[Operation] = [with_parameters(m.compute, weight, bias, types[0])]
    for op, type_ in zip(moves, types[1:], strict=True):
        built.append(op.with_operands(input=built[-1].results[0], result_type=type_))
    return built


def producer(value: SSAValue) -> str:
    """The producer of a value, in words."""
    if not isinstance(value, OpResult):
        return "a graph input"
    foreign = "" if value.op.name.startswith("nn.") else " (--standard-to-nn)"
    return f"'{value.op.name}' {layer_of(value.op)}{foreign}"


def computed_by(value: SSAValue) -> str:
    """The source of a value that is not a constant of nn, in words."""
    return f"is computed at run time: it comes from {producer(value)}"


def chain_of(value: SSAValue) -> tuple[WeightedOp, BiasAddOp | None] | None:
    """The computing operation that produces a value, directly or through a BiasAdd."""
    between = value.op if isinstance(value, OpResult) and isinstance(value.op, BiasAddOp) else None
    compute = computing(value if between is None else between.input)
    return None if compute is None else (compute, between)


class TrainedLayers:
    """The layers with dequantized weights that compute values, directly or through operations that adapt-qat makes part
    of their scales.

    What fusion rewrites does not change the layer after a value, so every operation is looked at once.
    """

    def __init__(self) -> None:
        self._behind: dict[SSAValue, WeightedOp | None] = {}

    def behind(self, value: SSAValue) -> WeightedOp | None:
        """The layer that computes a value; None if there is none."""
        path: list[SSAValue] = []
        while value not in self._behind:
            path.append(value)
            op = value.op if isinstance(value, OpResult) else None
            if isinstance(op, COMPUTING) and trained_weight(op) is not None:
                self._behind[value] = op
            elif isinstance(op, AFFINE) and (computed := single_input(op)) is not None:
                value = computed
            else:
                self._behind[value] = None
        layer = self._behind[value]
        self._behind.update(dict.fromkeys(path, layer))
        return layer


def single_input(op: Operation) -> SSAValue | None:
    """The only operand that is not a constant; None if there are several or none."""
    computed = [v for v in op.operands if constant_of(v) is None]
    return computed[0] if len(computed) == 1 else None


def trained_weight(op: WeightedOp) -> DequantizeOp | None:
    """The dequantization that computes the weight after training with quantization; None for other weights."""
    weight = weight_of(op)
    return weight.op if isinstance(weight, OpResult) and isinstance(weight.op, DequantizeOp) else None


def chain_bias(m: Chain) -> Array | None:
    """The bias of the chain in float64 `[C]`; None if it has none. Requires constants along the channels."""
    biases = [None if m.compute.bias is None else constant_numbers(m.compute.bias)]
    for op, before in _bias_adds(m):
        biases.append(constant_numbers(op.bias)[positions(m.compute, before, bias_axis(op))])
    return summed(biases)


def _bias_adds(m: Chain) -> Iterator[tuple[BiasAddOp, Sequence[NNOp]]]:
    """Yields the BiasAdd of a chain, if there is one, and the operations before it."""
    return ((op, m.between[:i]) for i, op in enumerate(m.between) if isinstance(op, BiasAddOp))


def bias_axis(op: BiasAddOp | BatchNormOp) -> int:
    """The axis along which an operation has its parameters."""
    return op.channel_axis(len(shape_of(op.input)))


def positions(compute: WeightedOp, between: Sequence[NNOp], axis: int) -> Array:
    """The position of each output channel along an axis after these operations, `[C]`. Requires `misplaced` to be None."""
    channels = followed(compute, between)
    along = None if isinstance(channels, str) else channels.along(axis)
    assert along is not None, "the pattern has asked for the axis"
    return along


def misplaced(compute: WeightedOp, between: Sequence[NNOp], axis: int) -> str | None:
    """The reason why an axis after these operations is not one of output channels; None also if they cannot be followed."""
    channels = followed(compute, between)
    if isinstance(channels, str) or channels.along(axis) is not None:
        return None
    if channels.counted(axis):
        return f"axis {axis}, which does not contain the output channels alone"
    return f"axis {axis}, the output channels are {channels.place()}"


def folded_affine(m: Chain, layer: Operation, factor: Array, shift: Array | None) -> list[Folded]:
    """The weight, and the bias if any, that give `chain * factor + shift`, both float64 `[C]`."""
    weight = constant_numbers(weight_of(m.compute)) * factor[m.compute.weight_outputs()]
    bias = chain_bias(m)
    return folded_parameters(m.compute, layer, weight, summed([None if bias is None else bias * factor, shift]))


class ChainConditions:
    """The conditions of every fold into the operation at the start of a chain."""

    def outcome(self, built: Operation) -> str:
        chain = chain_to(built.results[0])
        return f"fused into {layer_of(built if chain is None else chain[0])}"

    @condition
    def result_used_once(self, m: Chain) -> str | None:
        """the results in the chain are used once (a graph output is a use)"""
        for op in (m.compute, *m.between):
            if (reason := other_uses(op.results[0], layer_of(op))) is not None:
                return reason
        return None

    @condition
    def bias_constant(self, m: Chain) -> str | None:
        """the bias, of the operation and of the BiasAdd, is constant"""
        biases = (m.compute.bias, *(op.bias for op in m.between if isinstance(op, BiasAddOp)))
        computed = [b for b in biases if b is not None and constant_of(b) is None]
        return f"the bias {computed_by(computed[0])}" if computed else None

    @condition
    def bias_along_channels(self, m: Chain) -> str | None:
        """the BiasAdd adds along the output channels"""
        found = next((misplaced(m.compute, before, bias_axis(op)) for op, before in _bias_adds(m)), None)
        return None if found is None else f"the BiasAdd adds along {found}"

    @condition
    def channels_followed(self, m: Chain) -> str | None:
        """the operations between keep the output channels apart from everything else"""
        channels = followed(m.compute, m.between)
        return channels if isinstance(channels, str) else None


class WeightCondition:
    """The condition of every fold into a chain's weight."""

    @condition
    def weight_constant(self, m: Chain) -> str | None:
        """the weight is constant"""
        weight = weight_of(m.compute)
        return None if constant_of(weight) is not None else f"the weight {computed_by(weight)}"
