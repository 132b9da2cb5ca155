"""Batch norm behind a convolution over one axis, as TensorFlow writes it: with a Squeeze between, behind which --fuse-bias
takes a BiasAdd away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Operation, SSAValue

from ....dialects.nn import BatchNormOp, SqueezeOp
from ....rewriting import Folded, FusionPattern, Roots
from ..computing import ChainConditions, Computing, folded_affine, with_parameters
from ..squeezed import SqueezedConditions, squeezed
from .norm import NormConditions, factor_and_shift


@dataclass(frozen=True)
class SqueezeNorm:
    """A convolution, the squeeze behind it, and the batch norm behind that."""

    compute: Computing
    squeeze: SqueezeOp
    bn: BatchNormOp
    bias_add: None = None
    """A chain may have a BiasAdd before the squeeze; this one never has."""

    @property
    def per_channel(self) -> BatchNormOp:
        return self.bn


class FuseSqueezeNorm(SqueezedConditions, ChainConditions, NormConditions, FusionPattern[SqueezeNorm]):
    """batch_norm(squeeze(op(x, w, b))) = squeeze(op(x, w * k, b * k + shift)): how Conv1D + BN is written"""

    name = "squeeze-batch-norm"
    roots: ClassVar[Roots] = (BatchNormOp,)

    def match(self, op: Operation) -> SqueezeNorm | None:
        if not isinstance(op, BatchNormOp) or (found := squeezed(op.input)) is None:
            return None
        return SqueezeNorm(*found, op)

    def fold(self, m: SqueezeNorm) -> Sequence[Folded]:
        return folded_affine(m, m.bn, *factor_and_shift(m.bn))

    def rewrite(self, m: SqueezeNorm, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        weight, bias = folded
        compute = with_parameters(m.compute, weight, bias, m.squeeze.input.type)
        return [compute, m.squeeze.with_operands(input=compute.result, result_type=m.bn.result.type)]
