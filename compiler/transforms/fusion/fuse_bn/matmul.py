"""Matrix product + batch norm over its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation, OpResult, SSAValue

from ....dialects.nn import BatchNormOp, MatMulOp
from ....rewriting import Array, FusionPattern, condition, constant, used_once
from .norm import PARAMETERS, factor_and_shift, folded_constants


@dataclass(frozen=True)
class MatMulBatchNorm:
    matmul: MatMulOp
    bn: BatchNormOp


class FuseMatMulBatchNorm(FusionPattern[MatMulBatchNorm]):
    """batch_norm(x @ w + b) = x @ (w * k) + (b * k + shift), k and shift per column of w (PPQ's Gemm rule)"""

    name = "matmul-batch-norm"

    matmul_used_once = used_once("matmul")
    parameters_constant = constant("matmul.rhs", "matmul.bias", *PARAMETERS)

    @condition
    def weight_is_matrix(self, m: MatMulBatchNorm) -> str | None:
        """the right operand is of rank 2"""
        rank = len(m.matmul.rhs_shape)
        return None if rank == 2 else f"the right operand is of rank {rank}"

    @condition
    def normalizes_columns(self, m: MatMulBatchNorm) -> str | None:
        """the batch norm works on the last axis of the product"""
        rank = len(m.matmul.lhs_shape)
        axis = m.bn.channel_axis(rank)
        return None if axis == rank - 1 else f"it normalizes axis {axis} of {rank}, the columns are axis {rank - 1}"

    def match(self, op: Operation) -> MatMulBatchNorm | None:
        match op:
            case BatchNormOp(input=OpResult(op=MatMulOp() as matmul)):
                return MatMulBatchNorm(matmul, op)
            case _:
                return None

    def constants(self, m: MatMulBatchNorm) -> Sequence[tuple[str, np.dtype[Any]]]:
        return folded_constants(m.matmul.rhs, m.bn)

    def fold(self, m: MatMulBatchNorm) -> tuple[Array, Array]:
        k, shift = factor_and_shift(m.bn)
        weight, bias = self.values(m.matmul.rhs), self.values(m.matmul.bias)
        assert weight is not None
        per_column = k.reshape(-1, 1) if m.matmul.transpose_b is not None else k
        return weight * per_column, shift if bias is None else bias * k + shift

    def rewrite(self, m: MatMulBatchNorm, folded: Sequence[SSAValue]) -> Operation:
        weight, bias = folded
        return m.matmul.with_operands(rhs=weight, bias=bias, result_type=m.bn.result.type)
