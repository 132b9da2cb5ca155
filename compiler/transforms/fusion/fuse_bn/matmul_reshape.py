"""Matrix product, reshape to an image, batch norm, reshape back: a batch norm for images behind a dense layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Operation, OpResult, SSAValue

from ....dialects.nn import BatchNormOp, BiasAddOp, MatMulOp, ReshapeOp
from ....dialects.nn.shapes import DYNAMIC, shape_of, text
from ....rewriting import Folded, FusionPattern, Roots, condition
from ..computing import (
    ChainConditions,
    Computing,
    chain_of,
    folded_affine,
    with_parameters,
)
from .norm import NormConditions, factor_and_shift


@dataclass(frozen=True)
class ReshapeNorm:
    """A matrix product, and a batch norm between two reshapes behind it."""

    compute: Computing
    bias_add: BiasAddOp | None
    to_image: ReshapeOp
    bn: BatchNormOp
    back: ReshapeOp


class FuseReshapeNorm(ChainConditions, NormConditions, FusionPattern[ReshapeNorm]):
    """reshape(batch_norm(reshape(x @ w [+ b]))) = x @ (w * k) + (b * k + shift), where the image's channels are the columns:
    [B, 1, 1, N] or [B, N, 1, 1], B known or not (AMCT's MatMul+BN)
    """

    name = "matmul-reshape-batch-norm"
    roots: ClassVar[Roots] = (ReshapeOp,)

    @condition
    def reshapes_used_once(self, m: ReshapeNorm) -> str | None:
        """the results of the first reshape and of the batch norm are used once (a graph output is a use)"""
        for what, op in (("first reshape", m.to_image), ("batch norm", m.bn)):
            if (count := op.result.uses.get_length()) != 1:
                return f"the result of the {what} has {count} uses"
        return None

    @condition
    def columns_are_channels(self, m: ReshapeNorm) -> str | None:
        """the columns of the product are the channels of the image, with nothing behind them"""
        image = shape_of(m.to_image.result)
        axis, columns = m.bn.channel_axis(len(image)), m.compute.output_channels
        if image[axis] != columns or any(size != 1 for size in image[axis + 1 :]):
            return f"the image is {text(image)} with its channels on axis {axis}, the product has {columns} columns"
        return None

    @condition
    def shape_comes_back(self, m: ReshapeNorm) -> str | None:
        """the second reshape gives the shape of the product"""
        product, result = shape_of(m.compute.result), shape_of(m.back.result)
        # one unknown size follows from the others, the number of elements being the same
        if product == result and product.count(DYNAMIC) <= 1:
            return None
        return f"the second reshape gives {text(result)}, the product is {text(product)}"

    def match(self, op: Operation) -> ReshapeNorm | None:
        match op:
            case ReshapeOp(input=OpResult(op=BatchNormOp(input=OpResult(op=ReshapeOp() as to_image)) as bn)):
                chain = chain_of(to_image.input)
            case _:
                return None
        if chain is None or not isinstance(chain[0], MatMulOp):
            return None
        return ReshapeNorm(*chain, to_image, bn, op)

    def fold(self, m: ReshapeNorm) -> Sequence[Folded]:
        return folded_affine(m, m.bn, *factor_and_shift(m.bn))

    def rewrite(self, m: ReshapeNorm, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        weight, bias = folded
        return [with_parameters(m.compute, weight, bias, m.back.result.type)]
