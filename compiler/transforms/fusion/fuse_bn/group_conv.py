"""Batch norm after a Concat of convolutions, the form of a grouped convolution in frameworks without groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.ir import Operation, OpResult, SSAValue

from ....dialects.nn import BatchNormOp, BiasAddOp, ConcatOp, SplitOp, WeightedOp, constant_of
from ....dialects.nn.shapes import axis_of, shape_of
from ....rewriting import Folded, FusionPattern, Roots, condition, layer_of, other_uses
from ..amct_rules import amct, unlisted, unlisted_norm
from ..computing import chain_of, folded_affine, weight_of, with_parameters
from .compute import NormConditions, factor_and_shift


@dataclass(frozen=True)
class Branch:
    """A convolution that is joined with others."""

    compute: WeightedOp
    bias_add: BiasAddOp | None

    @property
    def between(self) -> list[BiasAddOp]:
        return [] if self.bias_add is None else [self.bias_add]

    @property
    def operations(self) -> list[Operation]:
        return [self.compute, *self.between]


@dataclass(frozen=True)
class ConcatNorm:
    """Joined convolutions, and the batch norm after them."""

    branches: tuple[Branch, ...]
    concat: ConcatOp
    bn: BatchNormOp
    parts: tuple[Operation, ...]
    """The operations of all branches."""


class FuseConcatNorm(NormConditions, FusionPattern[ConcatNorm]):
    """batch_norm(concat(op1, op2, ...)) = concat(op1', op2', ...): each branch takes its slice of the factors and shifts
    (AMCT's Split + N x Conv2D/Conv3D (+ BiasAdd) + Concat on the channel axis + BN; the Split does not matter)
    """

    name = "group-conv-batch-norm"
    roots: ClassVar[Roots] = (BatchNormOp,)

    @amct
    def group_of_amct(self, m: ConcatNorm) -> str | None:
        """FusedBatchNorm, V2 or V3, or one that was small operations, after Conv2D or Conv3D on each part of a Split, joined in
        order
        """
        computes = [b.compute for b in m.branches]
        parts = [compute.operands[0] for compute in computes]
        split = parts[0].owner
        if not isinstance(split, SplitOp) or parts != [*split.results]:
            return "the convolutions are not on the parts of one Split, in their order"
        return unlisted_norm(m.bn) or unlisted(("Conv2D", "Conv3D"), *computes)

    @condition
    def concat_used_once(self, m: ConcatNorm) -> str | None:
        """the results of the Concat and of each branch are used once (a graph output is a use)"""
        for op in (m.concat, *m.parts):
            if (reason := other_uses(op.results[0], layer_of(op))) is not None:
                return reason
        return None

    @condition
    def joins_channels(self, m: ConcatNorm) -> str | None:
        """the Concat joins the channels, which every branch and the batch norm have on the same axis"""
        rank = len(shape_of(m.bn.input))
        axis = axis_of(m.concat.axis.value.data, rank)
        if axis != m.bn.channel_axis(rank):
            return f"the Concat joins axis {axis}, the batch norm works on axis {m.bn.channel_axis(rank)}"
        others = [b.compute for b in m.branches if b.compute.output_axis != axis]
        return f"{layer_of(others[0])} has its channels on another axis" if others else None

    @condition
    def branches_constant(self, m: ConcatNorm) -> str | None:
        """weights and biases of all branches are constant"""
        for b in m.branches:
            for value in (weight_of(b.compute), b.compute.bias, None if b.bias_add is None else b.bias_add.bias):
                if value is not None and constant_of(value) is None:
                    return f"a parameter of {layer_of(b.compute)} is computed at run time"
        return None

    @condition
    def biases_along_channels(self, m: ConcatNorm) -> str | None:
        """each BiasAdd adds along the output channels"""
        for b in m.branches:
            if (
                b.bias_add is not None
                and b.bias_add.channel_axis(len(shape_of(b.bias_add.input))) != b.compute.output_axis
            ):
                return f"{layer_of(b.bias_add)} adds along another axis"
        return None

    def match(self, op: Operation) -> ConcatNorm | None:
        match op:
            case BatchNormOp(input=OpResult(op=ConcatOp() as concat)):
                chains = [chain_of(value) for value in concat.inputs]
            case _:
                return None
        branches = tuple(Branch(*c) for c in chains if c is not None)
        if not branches or len(branches) != len(chains):
            return None
        return ConcatNorm(branches, concat, op, tuple(p for b in branches for p in b.operations))

    def fold(self, m: ConcatNorm) -> Sequence[Folded]:
        k, shift = factor_and_shift(m.bn)
        ends = np.cumsum([b.compute.output_channels for b in m.branches])
        folded: list[Folded] = []
        for b, end in zip(m.branches, ends, strict=True):
            part = slice(end - b.compute.output_channels, end)
            folded += folded_affine(b, b.compute, k[part], shift[part])
        return folded

    def rewrite(self, m: ConcatNorm, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        pairs = zip(m.branches, folded[::2], folded[1::2], strict=True)
        computes = [
            with_parameters(b.compute, weight, bias, b.operations[-1].results[0].type) for b, weight, bias in pairs
        ]
        concat = ConcatOp.make(
            [c.result for c in computes],
            axis=m.concat.axis,
            origin=m.concat.origin,
            result_types=[m.bn.result.type],
        )
        return [*computes, concat]
