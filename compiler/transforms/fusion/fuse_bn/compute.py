"""A computing operation directly followed by batch norm: any rank, grouped and depthwise included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue

from ....dialects.nn import BatchNormOp
from ....dialects.nn.shapes import shape_of
from ....rewriting import Array, FusionPattern, condition, constant, used_once
from ..computing import (
    Computing,
    ConstantSpec,
    channel_axis,
    computing,
    constant_numbers,
    parameter_names,
    scaled_weight,
    weight_of,
    with_parameters,
)


@dataclass(frozen=True)
class ComputeBatchNorm:
    compute: Computing
    bn: BatchNormOp


class FuseComputeBatchNorm(FusionPattern[ComputeBatchNorm]):
    """batch_norm(op(x, w, b)) = op(x, w * k, b * k + shift), with k = scale / sqrt(variance + epsilon) per output channel and
    shift = offset - mean * k; op is conv (any rank, grouped, depthwise), conv_transpose or matmul (AMCT, PPQ, Horizon)
    """

    name = "compute-batch-norm"

    result_used_once = used_once("compute")
    parameters_constant = constant("compute.bias", "bn.scale", "bn.offset", "bn.mean", "bn.variance")

    @condition
    def weight_constant(self, m: ComputeBatchNorm) -> str | None:
        """the weight is constant"""
        return None if self.values(weight_of(m.compute)) is not None else "the weight is computed at run time"

    @condition
    def normalizes_channels(self, m: ComputeBatchNorm) -> str | None:
        """the batch norm works on the axis of the output channels"""
        axis, channels = m.bn.channel_axis(len(shape_of(m.bn.input))), channel_axis(m.compute)
        return None if axis == channels else f"it normalizes axis {axis}, the output channels are axis {channels}"

    def match(self, op: Operation) -> ComputeBatchNorm | None:
        if not isinstance(op, BatchNormOp) or (compute := computing(op.input)) is None:
            return None
        return ComputeBatchNorm(compute, op)

    def constants(self, m: ComputeBatchNorm) -> Sequence[ConstantSpec]:
        return parameter_names(m.compute, m.bn)

    def fold(self, m: ComputeBatchNorm) -> tuple[Array, Array]:
        k, shift = factor_and_shift(m.bn)
        bias = self.values(m.compute.bias)
        weight = scaled_weight(m.compute, constant_numbers(weight_of(m.compute)), k)
        return weight, shift if bias is None else bias * k + shift

    def rewrite(self, m: ComputeBatchNorm, folded: Sequence[SSAValue]) -> Operation:
        weight, bias = folded
        return with_parameters(m.compute, weight, bias, m.bn.result.type)


def factor_and_shift(norm: BatchNormOp) -> tuple[Array, Array]:
    """`k = scale / sqrt(variance + epsilon)` and `offset - mean * k`, float64 `[C]`.

    A variance of -epsilon or less gives NaN or Inf, which no fold accepts.
    """
    scale, offset, mean, variance = map(constant_numbers, norm.operands[1:])
    k = scale / np.sqrt(variance + norm.epsilon.value.data)
    return k, offset - mean * k
