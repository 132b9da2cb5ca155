"""Batch norm behind a BatchToSpace that follows a convolution: the norm moves in front, then into the weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Operation, OpResult, SSAValue

from ....dialects.nn import BatchNormOp, BatchToSpaceOp, BiasAddOp
from ....dialects.nn.shapes import shape_of
from ....rewriting import Folded, FusionPattern, Roots, condition
from ..computing import (
    ChainConditions,
    Computing,
    chain_of,
    channel_axis,
    folded_affine,
    with_parameters,
)
from .norm import NormConditions, factor_and_shift


@dataclass(frozen=True)
class BatchToSpaceNorm:
    """A convolution, the batch_to_space behind it, and the batch norm behind that."""

    compute: Computing
    bias_add: BiasAddOp | None
    move: BatchToSpaceOp
    bn: BatchNormOp


class FuseBatchToSpaceNorm(ChainConditions, NormConditions, FusionPattern[BatchToSpaceNorm]):
    """batch_norm(batch_to_space(op(x, w, b))) = batch_to_space(op(x, w * k, b * k + shift)): inference batch norm is one affine
    map per channel, batch_to_space only permutes and crops the other axes (AMCT)
    """

    name = "batch-to-space-batch-norm"
    roots: ClassVar[Roots] = (BatchNormOp,)

    @condition
    def move_used_once(self, m: BatchToSpaceNorm) -> str | None:
        """the result of BatchToSpace is used once (a graph output is a use)"""
        count = m.move.result.uses.get_length()
        return None if count == 1 else f"the result of the BatchToSpace has {count} uses"

    @condition
    def channels_agree(self, m: BatchToSpaceNorm) -> str | None:
        """convolution, BatchToSpace and batch norm have their channels on the same axis"""
        rank = len(shape_of(m.bn.input))
        axes = channel_axis(m.compute), m.move.channel_axis(rank), m.bn.channel_axis(rank)
        return None if len(set(axes)) == 1 else f"their channels are on the axes {', '.join(map(str, axes))}"

    def match(self, op: Operation) -> BatchToSpaceNorm | None:
        match op:
            case BatchNormOp(input=OpResult(op=BatchToSpaceOp() as move)) if (
                chain := chain_of(move.input)
            ) is not None:
                return BatchToSpaceNorm(*chain, move, op)
            case _:
                return None

    def fold(self, m: BatchToSpaceNorm) -> Sequence[Folded]:
        return folded_affine(m, m.bn, *factor_and_shift(m.bn))

    def rewrite(self, m: BatchToSpaceNorm, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        weight, bias = folded
        compute = with_parameters(m.compute, weight, bias, m.move.input.type)
        return [compute, m.move.with_operands(input=compute.result, result_type=m.bn.result.type)]
