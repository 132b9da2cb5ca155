"""Convolution + batch norm, of any rank, grouped and depthwise included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation, OpResult, SSAValue

from ....dialects.nn import BatchNormOp, ConvOp
from ....rewriting import Array, FusionPattern, condition, constant, used_once
from .norm import PARAMETERS, factor_and_shift, folded_constants


@dataclass(frozen=True)
class ConvBatchNorm:
    conv: ConvOp
    bn: BatchNormOp


class FuseConvBatchNorm(FusionPattern[ConvBatchNorm]):
    """batch_norm(conv(x, w, b)) = conv(x, w * k, b * k + shift), k and shift per output channel (AMCT, PPQ, Horizon)"""

    name = "conv-batch-norm"

    conv_used_once = used_once("conv")
    parameters_constant = constant("conv.weight", "conv.bias", *PARAMETERS)

    @condition
    def normalizes_channels(self, m: ConvBatchNorm) -> str | None:
        """the batch norm works on the axis of the convolution's output channels"""
        if m.conv.layout != m.bn.layout:
            return f"it normalizes {m.bn.layout.data}, the convolution gives {m.conv.layout.data}"
        return None

    def match(self, op: Operation) -> ConvBatchNorm | None:
        match op:
            case BatchNormOp(input=OpResult(op=ConvOp() as conv)):
                return ConvBatchNorm(conv, op)
            case _:
                return None

    def constants(self, m: ConvBatchNorm) -> Sequence[tuple[str, np.dtype[Any]]]:
        return folded_constants(m.conv.weight, m.bn)

    def fold(self, m: ConvBatchNorm) -> tuple[Array, Array]:
        k, shift = factor_and_shift(m.bn)
        weight, bias = self.values(m.conv.weight), self.values(m.conv.bias)
        assert weight is not None
        per_output = k.reshape(-1, *[1] * (weight.ndim - 1))
        return weight * per_output, shift if bias is None else bias * k + shift

    def rewrite(self, m: ConvBatchNorm, folded: Sequence[SSAValue]) -> Operation:
        weight, bias = folded
        return m.conv.with_operands(weight=weight, bias=bias, result_type=m.bn.result.type)
