"""A computing operation followed by batch norm, directly or after operations that move elements; its factors and shifts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from xdsl.ir import Operation, OpResult, SSAValue

from ....dialects.nn import (
    BatchNormOp,
    BiasAddOp,
    MatMulOp,
    NNOp,
    ReshapingOp,
    WeightedOp,
    constant_of,
    kinds,
)
from ....dialects.nn.shapes import DYNAMIC, shape_of
from ....rewriting import Array, Folded, FusionPattern, Roots, condition
from ..amct_rules import CONVOLUTIONS, amct, apart, type_of, unlisted, unlisted_norm
from ..computing import (
    ChainConditions,
    WeightCondition,
    bias_axis,
    chain_to,
    constant_numbers,
    folded_affine,
    misplaced,
    positions,
    rebuilt,
    trained_weight,
    with_parameters,
)


def factor_and_shift(norm: BatchNormOp) -> tuple[Array, Array]:
    """`k = scale / sqrt(variance + epsilon)` and `offset - mean * k`, float64 `[C]`.

    A variance of -epsilon or less gives NaN or Inf, which no fold accepts.
    """
    scale, offset, mean, variance = map(constant_numbers, norm.operands[1:])
    with np.errstate(all="ignore"):
        k = scale / np.sqrt(variance + norm.epsilon.value.data)
        return k, offset - mean * k


class NormConditions:
    """The conditions of every fold of a batch norm. Frontends carry batch norms in training mode as opaque, so none of them
    comes here.
    """

    @condition
    def parameters_constant(self, m: Any) -> str | None:
        """scale, offset, mean and variance of the batch norm are constant"""
        for name, value in zip(("scale", "offset", "mean", "variance"), m.bn.operands[1:], strict=True):
            if constant_of(value) is None:
                return f"its {name} is computed at run time"
        return None


_TO_SPACE = ("BatchToSpace", "BatchToSpaceND")


@dataclass(frozen=True)
class ComputeBatchNorm:
    """A convolution or matrix product and the batch norm after it."""

    compute: WeightedOp
    between: tuple[NNOp, ...]
    bn: BatchNormOp


@dataclass(frozen=True)
class ReshapedBatchNorm(ComputeBatchNorm):
    """A chain with its batch norm, and the operation after the norm that restores the original shape."""

    back: ReshapingOp


class FuseComputeBatchNorm(ChainConditions, WeightCondition, NormConditions, FusionPattern[ComputeBatchNorm]):
    """batch_norm(op(x, w, b)) = op(x, w * k, b * k + shift), with k = scale / sqrt(variance + epsilon) per output channel and
    shift = offset - mean * k; op is conv (any rank, grouped, depthwise), conv_transpose or matmul. A BiasAdd may be between, and
    operations that move elements and keep the channels apart: they stay, after op (AMCT, also through BatchToSpace; PPQ; Horizon)
    """

    name = "compute-batch-norm"
    roots: ClassVar[Roots] = (BatchNormOp,)

    @amct
    def norm_of_amct(self, m: ComputeBatchNorm) -> str | None:
        """FusedBatchNorm, V2 or V3, or one that was small operations, after Conv2D, Conv3D or DepthwiseConv2dNative, with nothing
        but a BiasAdd and BatchToSpace between
        """
        if isinstance(m.compute, MatMulOp):
            return "AMCT folds it into MatMul only between two Reshape, the second of which gives the shape of MatMul"
        between = [op for op in m.between if type_of(op) not in _TO_SPACE]
        return unlisted_norm(m.bn) or unlisted(CONVOLUTIONS, m.compute) or apart(between)

    @condition
    def normalizes_channels(self, m: ComputeBatchNorm) -> str | None:
        """the batch norm works on the output channels"""
        found = misplaced(m.compute, m.between, bias_axis(m.bn))
        return None if found is None else f"it normalizes {found}"

    def match(self, op: Operation) -> ComputeBatchNorm | None:
        found = norm_behind(op)
        return None if found is None or _way_back(found) is not None else found

    def fold(self, m: ComputeBatchNorm) -> Sequence[Folded]:
        k, shift = factor_and_shift(m.bn)
        along = positions(m.compute, m.between, bias_axis(m.bn))
        return folded_affine(m, m.bn, k[along], shift[along])

    def rewrite(self, m: ComputeBatchNorm, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        weight, bias = folded
        return rebuilt(m, weight, bias, m.bn.result.type)


class FuseReshapedBatchNorm(FuseComputeBatchNorm):
    """reshape(batch_norm(reshape(op(x, w, b)))) = op(x, w * k, b * k + shift), where the second reshape gives the shape of op's
    result: no reshape is left. Squeeze, Unsqueeze and Flatten are reshapes, too (AMCT's MatMul+BN)
    """

    name = "reshaped-batch-norm"
    roots: ClassVar[Roots] = kinds(ReshapingOp)

    @amct
    def norm_of_amct(self, m: ComputeBatchNorm) -> str | None:
        """FusedBatchNorm, V2 or V3 between two Reshape after MatMul, with nothing but a BiasAdd between"""
        first, *more = [op for op in m.between if not isinstance(op, BiasAddOp)]
        reshapes = unlisted(("Reshape",), first, cast(ReshapedBatchNorm, m).back)
        return unlisted_norm(m.bn) or unlisted(("MatMul",), m.compute) or reshapes or apart(more)

    def match(self, op: Operation) -> ReshapedBatchNorm | None:
        if not isinstance(op, ReshapingOp) or not isinstance(op.input, OpResult):
            return None
        found = norm_behind(op.input.op)
        if found is None or _way_back(found) is not op:
            return None
        return ReshapedBatchNorm(found.compute, found.between, found.bn, op)

    def subject(self, m: ComputeBatchNorm, root: Operation) -> Operation:
        return m.bn

    def rewrite(self, m: ComputeBatchNorm, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        weight, bias = folded
        return [with_parameters(m.compute, weight, bias, cast(ReshapedBatchNorm, m).back.result.type)]


def norm_behind(op: Operation) -> ComputeBatchNorm | None:
    """A batch norm and the operation with weights before it; None for other operations, and after trained weights."""
    if not isinstance(op, BatchNormOp) or (chain := chain_to(op.input)) is None or trained_weight(chain[0]):
        return None
    return ComputeBatchNorm(*chain, op)


def _way_back(m: ComputeBatchNorm) -> ReshapingOp | None:
    """The only reader of the batch norm, if it undoes the reshapes in front of it."""
    reader = m.bn.result.get_user_of_unique_use()
    moves = [op for op in m.between if not isinstance(op, BiasAddOp)]
    if not isinstance(reader, ReshapingOp) or not moves or not all(isinstance(op, ReshapingOp) for op in moves):
        return None
    before, after = shape_of(m.compute.result), shape_of(reader.result)
    # one unknown size follows from the others, the number of elements being the same
    return reader if before == after and before.count(DYNAMIC) <= 1 else None
