"""Batch norm in front of a computing operation: its factors go to the input channels, its shifts into the bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from xdsl.ir import Operation, OpResult, SSAValue

from ....dialects.nn import BatchNormOp, ConvOp, ConvTransposeOp, MatMulOp, constant_of
from ....dialects.nn.shapes import shape_of
from ....rewriting import Array, Condition, Folded, FusionPattern, Roots, condition, used_once
from ..computing import (
    Computing,
    constant_numbers,
    folded_parameters,
    summed,
    weight_of,
    with_parameters,
)
from .compute import NormConditions, factor_and_shift


@dataclass(frozen=True)
class NormCompute:
    """A batch norm and the convolution or matrix product behind it."""

    bn: BatchNormOp
    compute: Computing


class FuseNormCompute(NormConditions, FusionPattern[NormCompute]):
    """op(batch_norm(x), w, b) = op(x, w * k, b + sum(w * shift)), k and shift per input channel; op is conv, matmul, or
    conv_transpose with a window of one element (AMCT's BN+Scale+Conv for Caffe; matrix products and groups go beyond)
    """

    name = "batch-norm-compute"
    roots: ClassVar[Roots] = (ConvOp, ConvTransposeOp, MatMulOp)

    norm_used_once: Condition[Any] = used_once("bn")

    @condition
    def weights_constant(self, m: NormCompute) -> str | None:
        """weight and bias are constant"""
        for name, value in (("weight", weight_of(m.compute)), ("bias", m.compute.bias)):
            if value is not None and constant_of(value) is None:
                return f"the {name} is computed at run time"
        return None

    @condition
    def normalizes_input_channels(self, m: NormCompute) -> str | None:
        """the batch norm works on the axis that is summed over: the input channels, the columns of the left matrix"""
        rank = len(shape_of(m.bn.result))
        axis, channels = m.bn.channel_axis(rank), _input_axis(m.compute, rank)
        return None if axis == channels else f"it normalizes axis {axis}, the input channels are axis {channels}"

    @condition
    def one_matrix(self, m: NormCompute) -> str | None:
        """the right operand of a matrix product is one matrix, so that the shifts make one bias"""
        if not isinstance(m.compute, MatMulOp):
            return None
        shape = shape_of(weight_of(m.compute))
        return None if len(shape) == 2 else f"the right operand is of rank {len(shape)}"

    @condition
    def shift_meets_no_border(self, m: NormCompute) -> str | None:
        """the shifts are zero, or every result sums all weights: no padding, and a transposed convolution takes one element"""
        if isinstance(m.compute, MatMulOp) or not factor_and_shift(m.bn)[1].any():
            return None
        if isinstance(m.compute, ConvTransposeOp):
            return None if _is_pointwise(m.compute) else "the windows of a transposed convolution differ at its borders"
        pads = m.compute.resolved_pads(m.compute.spatial(shape_of(m.compute.input)))
        if pads is None:
            return "the padding is not known before run time"
        return f"it pads by {list(pads)} with zeros, which the shift would have to move" if any(pads) else None

    def match(self, op: Operation) -> NormCompute | None:
        match op:
            case ConvOp() | ConvTransposeOp() | MatMulOp():
                match op.operands[0]:
                    case OpResult(op=BatchNormOp() as bn):
                        return NormCompute(bn, op)
                    case _:
                        return None
            case _:
                return None

    def fold(self, m: NormCompute) -> Sequence[Folded]:
        k, shift = factor_and_shift(m.bn)
        weight = constant_numbers(weight_of(m.compute))
        bias = _shift_sum(m.compute, weight, shift) if shift.any() else None
        return folded_parameters(
            m.compute,
            m.compute,
            weight * _along_inputs(m.compute, weight, k),
            summed([self.values(m.compute.bias), bias]),
        )

    def rewrite(self, m: NormCompute, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        weight, *bias = folded
        copy = with_parameters(m.compute, weight, bias[0] if bias else None, m.compute.result.type)
        copy.operands[0] = m.bn.input
        return [copy]


def _input_axis(op: Computing, rank: int) -> int:
    """The axis of the first operand that the operation sums over."""
    if isinstance(op, MatMulOp):
        return rank - (1 if op.transpose_a is None else 2)
    return op.channel_axis(rank)


def _along_inputs(op: Computing, weight: Array, per_channel: Array) -> Array:
    """One number per input channel, in a shape that broadcasts against the weight.

    conv `[out, in/groups, ...]`: outputs of group g read the inputs of group g; conv_transpose `[in, ...]`; matmul `[K, N]`, or
    `[N, K]` under transpose_b.
    """
    spatial = (1,) * (weight.ndim - 2)
    if isinstance(op, MatMulOp):
        return per_channel if op.transpose_b is not None else per_channel[:, None]
    if isinstance(op, ConvTransposeOp):
        return per_channel.reshape(-1, 1, *spatial)
    by_group = per_channel.reshape(op.group_count, -1)
    return np.repeat(by_group, weight.shape[0] // op.group_count, axis=0).reshape(*weight.shape[:2], *spatial)


def _shift_sum(op: Computing, weight: Array, shift: Array) -> Array:
    """The sum that a shift of the inputs adds to each output channel, `[C]`."""
    products = weight * _along_inputs(op, weight, shift)
    if isinstance(op, MatMulOp):
        return products.sum(axis=1 if op.transpose_b is not None else 0)
    if isinstance(op, ConvOp):
        return products.reshape(len(products), -1).sum(axis=1)
    groups, (inputs, per_group) = op.group_count, products.shape[:2]
    return products.reshape(groups, inputs // groups, per_group).sum(axis=1).reshape(-1)


def _is_pointwise(op: ConvTransposeOp) -> bool:
    """Whether each result of a transposed convolution comes from exactly one position."""
    ones = set(op.kernel_shape) | set(op.stride_list) == {1}
    return ones and not any(op.output_padding_list) and op.output_shape is None
