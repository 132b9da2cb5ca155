"""Transposed convolution + batch norm, grouped included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation, OpResult, SSAValue

from ....dialects.nn import BatchNormOp, ConvTransposeOp
from ....rewriting import Array, FusionPattern, condition, constant, used_once
from .norm import PARAMETERS, factor_and_shift, folded_constants


@dataclass(frozen=True)
class ConvTransposeBatchNorm:
    conv: ConvTransposeOp
    bn: BatchNormOp


class FuseConvTransposeBatchNorm(FusionPattern[ConvTransposeBatchNorm]):
    """batch_norm(conv_transpose(x, w, b)) = conv_transpose(x, w * k, b * k + shift); w is [in, out/groups, ...] (Horizon, PPQ)"""

    name = "conv-transpose-batch-norm"

    conv_used_once = used_once("conv")
    parameters_constant = constant("conv.weight", "conv.bias", *PARAMETERS)

    @condition
    def normalizes_channels(self, m: ConvTransposeBatchNorm) -> str | None:
        """the batch norm works on the axis of the convolution's output channels"""
        if m.conv.layout != m.bn.layout:
            return f"it normalizes {m.bn.layout.data}, the convolution gives {m.conv.layout.data}"
        return None

    def match(self, op: Operation) -> ConvTransposeBatchNorm | None:
        match op:
            case BatchNormOp(input=OpResult(op=ConvTransposeOp() as conv)):
                return ConvTransposeBatchNorm(conv, op)
            case _:
                return None

    def constants(self, m: ConvTransposeBatchNorm) -> Sequence[tuple[str, np.dtype[Any]]]:
        return folded_constants(m.conv.weight, m.bn)

    def fold(self, m: ConvTransposeBatchNorm) -> tuple[Array, Array]:
        k, shift = factor_and_shift(m.bn)
        weight, bias = self.values(m.conv.weight), self.values(m.conv.bias)
        assert weight is not None
        groups, spatial = m.conv.group_count, weight.shape[2:]
        grouped = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], *spatial)
        per_output = k.reshape(groups, 1, weight.shape[1], *[1] * len(spatial))
        return (grouped * per_output).reshape(weight.shape), shift if bias is None else bias * k + shift

    def rewrite(self, m: ConvTransposeBatchNorm, folded: Sequence[SSAValue]) -> Operation:
        weight, bias = folded
        return m.conv.with_operands(weight=weight, bias=bias, result_type=m.bn.result.type)
