"""A computing operation directly followed by batch norm: any rank, including grouped and depthwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Operation, SSAValue

from ....dialects.nn import BatchNormOp, BiasAddOp
from ....dialects.nn.shapes import shape_of
from ....rewriting import Folded, FusionPattern, Roots, condition
from ..computing import (
    ChainConditions,
    Computing,
    chain_of,
    channel_axis,
    folded_affine,
    trained_weight,
    with_parameters,
)
from .norm import NormConditions, factor_and_shift


@dataclass(frozen=True)
class ComputeBatchNorm:
    """A convolution or matrix product and the batch norm behind it."""

    compute: Computing
    bias_add: BiasAddOp | None
    bn: BatchNormOp


class FuseComputeBatchNorm(ChainConditions, NormConditions, FusionPattern[ComputeBatchNorm]):
    """batch_norm(op(x, w, b)) = op(x, w * k, b * k + shift), with k = scale / sqrt(variance + epsilon) per output channel and
    shift = offset - mean * k; op is conv (any rank, grouped, depthwise), conv_transpose or matmul, a BiasAdd may be
    between (AMCT, PPQ, Horizon)
    """

    name = "compute-batch-norm"
    roots: ClassVar[Roots] = (BatchNormOp,)

    @condition
    def normalizes_channels(self, m: ComputeBatchNorm) -> str | None:
        """the batch norm works on the axis of the output channels"""
        axis, channels = m.bn.channel_axis(len(shape_of(m.bn.input))), channel_axis(m.compute)
        return None if axis == channels else f"it normalizes axis {axis}, the output channels are axis {channels}"

    def match(self, op: Operation) -> ComputeBatchNorm | None:
        if not isinstance(op, BatchNormOp) or (chain := chain_of(op.input)) is None or trained_weight(chain[0]):
            return None
        return ComputeBatchNorm(*chain, op)

    def fold(self, m: ComputeBatchNorm) -> Sequence[Folded]:
        return folded_affine(m, m.bn, *factor_and_shift(m.bn))

    def rewrite(self, m: ComputeBatchNorm, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        weight, bias = folded
        return [with_parameters(m.compute, weight, bias, m.bn.result.type)]
