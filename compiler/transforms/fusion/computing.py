"""The view of computing operations for fusions: convolution, transposed convolution, matrix product.

Each has a weight, an optional bias, and an axis of the bias in its result. A `BiasAdd` may follow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

import numpy as np
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from ...dialects.nn import (
    AddOp,
    BatchNormOp,
    BiasAddOp,
    ConvOp,
    ConvTransposeOp,
    DequantizeOp,
    DivOp,
    MatMulOp,
    MulOp,
    SubOp,
    constant_of,
)
from ...dialects.nn.shapes import shape_of
from ...ir.dtypes import numpy_dtype
from ...rewriting import Array, Folded, condition, layer_of

Computing = ConvOp | ConvTransposeOp | MatMulOp
COMPUTING = (ConvOp, ConvTransposeOp, MatMulOp)
AFFINE = (AddOp, BatchNormOp, BiasAddOp, DivOp, MulOp, SubOp)
"""Operations that, with constants, multiply and shift each channel."""


def computing(value: SSAValue) -> Computing | None:
    """The computing operation that produces a value."""
    return value.op if isinstance(value, OpResult) and isinstance(value.op, COMPUTING) else None


def weight_of(op: Computing) -> SSAValue:
    """The weight of a convolution or matrix product."""
    return op.operands[1]


def with_parameters(op: Computing, weight: SSAValue, bias: SSAValue | None, result_type: Attribute) -> Computing:
    """A copy of `op` with another weight and bias."""
    if isinstance(op, MatMulOp):
        return op.with_operands(rhs=weight, bias=bias, result_type=result_type)
    return op.with_operands(weight=weight, bias=bias, result_type=result_type)


def channel_axis(op: Computing) -> int | None:
    """The axis of the output channels in the result; None if the right operand is a vector."""
    rank = len(shape_of(op.result))
    if isinstance(op, MatMulOp):
        return rank - 1 if len(op.rhs_shape) > 1 else None
    return op.channel_axis(rank)


def scaled_weight(op: Computing, weight: Array, factor: Array) -> Array:
    """The weight that gives `result * factor`; factor has one number per output channel.

    conv `[out, in/groups, ...]`; conv_transpose `[in, out/groups, ...]`, where channel `g * out/groups + j` is column j of the
    inputs of group g; matmul `[..., K, N]`, or `[..., N, K]` under transpose_b.
    """
    if isinstance(op, MatMulOp):
        return weight * (factor[:, None] if op.transpose_b is not None else factor)
    spatial = (1,) * (weight.ndim - 2)
    if isinstance(op, ConvOp):
        return weight * factor.reshape(-1, 1, *spatial)
    groups, (inputs, per_group, *kernel) = op.group_count, weight.shape
    grouped = weight.reshape(groups, inputs // groups, per_group, *kernel)
    return (grouped * factor.reshape(groups, 1, per_group, *spatial)).reshape(weight.shape)


def along_channels(op: Computing, constant: Array) -> Array | str:
    """A constant operand of an elementwise operation on `op`'s result as one number per output channel, `[C]`.

    A string is the reason why it is not.
    """
    axis = channel_axis(op)
    if axis is None:
        return "the result has no channel axis"
    return per_channel(constant, shape_of(op.result), axis, op.output_channels)


def per_channel(constant: Array, shape: Sequence[int], axis: int, channels: int) -> Array | str:
    """A constant as one number per channel, `[C]`, when it broadcasts against a tensor of this shape.

    A string is the reason why it is not: it must vary only along the channel axis, and must not enlarge the tensor.
    """
    if constant.ndim > len(shape):
        return f"the constant is of rank {constant.ndim}, the result of rank {len(shape)}"
    padded = (1,) * (len(shape) - constant.ndim) + constant.shape
    if any(size != 1 for i, size in enumerate(padded) if i != axis):
        return f"the constant {list(constant.shape)} varies along other axes than the channels"
    if padded[axis] not in (1, channels):
        return f"the constant has {padded[axis]} channels, the result {channels}"
    return np.broadcast_to(constant.reshape(-1), (channels,))


def folded_parameters(op: Computing, layer: Operation, weight: Array | None, bias: Array | None) -> list[Folded]:
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
    """A match with a computing operation and the BiasAdd after it, if any."""

    @property
    def compute(self) -> Computing: ...

    @property
    def bias_add(self) -> BiasAddOp | None: ...


def chain_of(value: SSAValue) -> tuple[Computing, BiasAddOp | None] | None:
    """The computing operation that produces a value, directly or through a BiasAdd."""
    between = value.op if isinstance(value, OpResult) and isinstance(value.op, BiasAddOp) else None
    compute = computing(value if between is None else between.input)
    return None if compute is None else (compute, between)


def trained_behind(value: SSAValue) -> Computing | None:
    """The layer with a dequantized weight that computes a value, directly or through what adapt-qat makes part of its scales."""
    while isinstance(value, OpResult):
        if isinstance(value.op, COMPUTING):
            return value.op if trained_weight(value.op) is not None else None
        computed = [v for v in value.op.operands if constant_of(v) is None]
        if len(computed) != 1 or not isinstance(value.op, AFFINE):
            return None
        value = computed[0]
    return None


def trained_weight(op: Computing) -> DequantizeOp | None:
    """The dequantization that computes the weight, as training with quantization leaves it; None for other weights."""
    weight = weight_of(op)
    return weight.op if isinstance(weight, OpResult) and isinstance(weight.op, DequantizeOp) else None


def chain_bias(m: Chain) -> Array | None:
    """The bias of the chain in float64 `[C]`; None if it has none. Requires constants."""
    parts = [m.compute.bias, None if m.bias_add is None else m.bias_add.bias]
    return summed([None if p is None else constant_numbers(p) for p in parts])


def folded_affine(m: Chain, layer: Operation, factor: Array, shift: Array | None) -> list[Folded]:
    """The weight, and the bias if any, that give `chain * factor + shift`, both float64 `[C]`."""
    weight = scaled_weight(m.compute, constant_numbers(weight_of(m.compute)), factor)
    bias = chain_bias(m)
    return folded_parameters(m.compute, layer, weight, summed([None if bias is None else bias * factor, shift]))


class ChainConditions:
    """The conditions of every fold into a chain's weight."""

    @condition
    def result_used_once(self, m: Chain) -> str | None:
        """the results in the chain are used once (a graph output is a use)"""
        for op in (m.compute, m.bias_add):
            if op is not None and (count := op.results[0].uses.get_length()) != 1:
                return f"the result of {layer_of(op)} has {count} uses"
        return None

    @condition
    def weight_constant(self, m: Chain) -> str | None:
        """the weight is constant"""
        return None if constant_of(weight_of(m.compute)) is not None else "the weight is computed at run time"

    @condition
    def bias_constant(self, m: Chain) -> str | None:
        """the bias, of the operation and of the BiasAdd, is constant"""
        biases = (m.compute.bias, None if m.bias_add is None else m.bias_add.bias)
        computed = [b for b in biases if b is not None and constant_of(b) is None]
        return "the bias is computed at run time" if computed else None

    @condition
    def bias_along_channels(self, m: Chain) -> str | None:
        """the BiasAdd adds along the output channels"""
        if m.bias_add is None:
            return None
        axis, channels = m.bias_add.channel_axis(len(shape_of(m.bias_add.input))), channel_axis(m.compute)
        return (
            None if axis == channels else f"the BiasAdd adds along axis {axis}, the output channels are axis {channels}"
        )
