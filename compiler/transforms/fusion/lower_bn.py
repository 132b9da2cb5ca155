"""`--lower-bn`: a batch norm that could not be folded becomes a product and a sum. Not part of `--fuse-all`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ...dialects.nn import AddOp, BatchNormOp, MulOp
from ...dialects.nn.shapes import element_of, shape_of
from ...ir.dtypes import numpy_dtype
from ...rewriting import Folded, FusionPattern, Remarks, Roots, layer_of
from .fuse_bn.compute import NormConditions, factor_and_shift
from .fusion_pass import FusionPass, Patterns


@dataclass(frozen=True)
class LoneNorm:
    """A batch norm that was not folded."""

    bn: BatchNormOp


class LowerNorm(NormConditions, FusionPattern[LoneNorm]):
    """batch_norm(x) = x * k + shift with constants of one number per channel, at any rank (PPQ makes a 1x1 depthwise convolution
    of it, in two dimensions only)
    """

    name = "batch-norm-multiply-add"
    roots: ClassVar[Roots] = (BatchNormOp,)

    def match(self, op: Operation) -> LoneNorm | None:
        return LoneNorm(op) if isinstance(op, BatchNormOp) else None

    def fold(self, m: LoneNorm) -> Sequence[Folded]:
        k, shift = factor_and_shift(m.bn)
        rank = len(shape_of(m.bn.input))
        behind = rank - 1 - m.bn.channel_axis(rank)
        dtype = numpy_dtype(element_of(m.bn.input))
        rows = (("factor", k, False), ("shift", shift, True))
        return [
            Folded(f"{layer_of(m.bn)}.{name}", dtype, each.reshape(-1, *(1,) * behind), added)
            for name, each, added in rows
        ]

    def rewrite(self, m: LoneNorm, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        factor, shift = folded
        type_ = m.bn.result.type
        product = MulOp.make(m.bn.input, factor, result_types=[type_])
        return [product, AddOp.make(product.result, shift, origin=m.bn.origin, result_types=[type_])]

    def outcome(self, built: Operation) -> str:
        return "is one product and one sum per channel"


@dataclass(frozen=True)
class LowerBnPass(FusionPass):
    """Turns the remaining batch norms into a product and a sum with constants per channel."""

    name = "lower-bn"

    PATTERNS: ClassVar[Patterns] = (LowerNorm,)

    def report(self, module: ModuleOp, remarks: Remarks) -> None:
        """Does nothing: the pattern itself has a remark for every batch norm."""
