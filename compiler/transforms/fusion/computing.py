"""What the fusions know of computing operations: convolution, transposed convolution, matrix product.

Each has a weight and an optional bias, and an axis of its result along which the bias runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from ...dialects.nn import ConvOp, ConvTransposeOp, MatMulOp, constant_of
from ...dialects.nn.shapes import shape_of
from ...dtypes import numpy_dtype
from ...rewriting import Array, layer_of

Computing = ConvOp | ConvTransposeOp | MatMulOp
COMPUTING = (ConvOp, ConvTransposeOp, MatMulOp)

ConstantSpec = tuple[str, np.dtype[Any]]
"""Key and dtype of a folded constant."""


def computing(value: SSAValue) -> Computing | None:
    """The computing operation that produces a value."""
    return value.op if isinstance(value, OpResult) and isinstance(value.op, COMPUTING) else None


def weight_of(op: Computing) -> SSAValue:
    return op.operands[1]


def with_parameters(op: Computing, weight: SSAValue, bias: SSAValue | None, result_type: Attribute) -> Computing:
    """A copy of `op` with another weight and bias."""
    if isinstance(op, MatMulOp):
        return op.with_operands(rhs=weight, bias=bias, result_type=result_type)
    return op.with_operands(weight=weight, bias=bias, result_type=result_type)


def channel_axis(op: Computing) -> int | None:
    """The axis of the result that counts output channels; None where the right operand is a vector."""
    rank = len(shape_of(op.result))
    if isinstance(op, MatMulOp):
        return rank - 1 if len(op.rhs_shape) > 1 else None
    return op.channel_axis(rank)


def scaled_weight(op: Computing, weight: Array, factor: Array) -> Array:
    """The weight that gives `result * factor`; factor holds one number per output channel.

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

    A string says why it is none: under numpy's broadcasting it must vary along the channel axis only, and must not enlarge
    the result.
    """
    shape, axis = shape_of(op.result), channel_axis(op)
    if axis is None:
        return "the result has no channel axis"
    if constant.ndim > len(shape):
        return f"the constant is of rank {constant.ndim}, the result of rank {len(shape)}"
    padded = (1,) * (len(shape) - constant.ndim) + constant.shape
    if any(size != 1 for i, size in enumerate(padded) if i != axis):
        return f"the constant {list(constant.shape)} varies along other axes than the channels"
    if padded[axis] not in (1, op.output_channels):
        return f"the constant has {padded[axis]} channels, the result {op.output_channels}"
    return np.broadcast_to(constant.reshape(-1), (op.output_channels,))


def parameter_names(op: Computing, layer: Operation) -> tuple[ConstantSpec, ConstantSpec]:
    """Key and dtype of a folded weight and bias: named after the weight, else after `layer`; of the result's type."""
    dtype = numpy_dtype(cast(Any, op.result.type).element_type)
    constant = constant_of(weight_of(op))
    if constant is None:
        return (f"{layer_of(op)}.weight.folded", dtype), (f"{layer_of(op)}.bias.folded", dtype)
    key = constant.key.removesuffix(".folded")
    bias = f"{key.removesuffix('weight')}bias" if key.endswith("weight") else f"{layer_of(layer)}.bias"
    return (f"{key}.folded", dtype), (f"{bias}.folded", dtype)


def constant_numbers(value: SSAValue) -> Array:
    """A constant's numbers in float64."""
    constant = constant_of(value)
    assert constant is not None, "the pattern has asked for a constant"
    return constant.array.astype(np.float64)


def summed(parts: Sequence[Array | None]) -> Array | None:
    """The sum of what is there, None for nothing."""
    present = [p for p in parts if p is not None]
    return sum(present[1:], present[0]) if present else None
