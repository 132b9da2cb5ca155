"""Matrix products: Gemm to MatMulV2, ONNX MatMul and everything batched to BatchMatMulV2, InnerProduct to FullyConnection."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects import ascend, nn
from ...dialects.nn.shapes import shape_of
from ...rewriting import condition
from .constants import Array
from .quantized import (
    Activation,
    InIntegers,
    Inputs,
    MatrixEngine,
    SymmetricWeight,
    dequantized,
    int8_behind,
    integers_behind,
    pack_in_files,
    products,
    scale_of,
    second_activation,
    stored,
)
from .rules import Builder, Lowering, Source, Values, lowers_each


class Operands(NamedTuple):
    """The operands of a product: float values, or int8 ones with an int32 bias."""

    lhs: SSAValue
    rhs: SSAValue
    bias: SSAValue | None
    zero_point: int = 0


class Product(Lowering[nn.MatMulOp]):
    """MatMulV2 of matrices, BatchMatMulV2 of more axes; a vector becomes a matrix for it"""

    RANK_OF_VECTOR: ClassVar[int] = 2

    @condition
    def matrix_rank(self, op: nn.MatMulOp) -> str | None:
        """the operands are matrices, or vectors where these become matrices"""
        return None if min(self.ranks(op)) >= 2 else "an operand is a vector"

    def ranks(self, op: nn.MatMulOp) -> tuple[int, int]:
        """The ranks of the operands that are multiplied."""
        lhs, rhs = (len(shape_of(value)) for value in (op.lhs, op.rhs))
        return self.RANK_OF_VECTOR if lhs == 1 else lhs, self.RANK_OF_VECTOR if rhs == 1 else rhs

    def make(self, build: Builder, op: nn.MatMulOp, operands: Operands) -> SSAValue:
        """The operation itself, with the source operation's transposes."""
        batched = max(len(shape_of(operands.lhs)), len(shape_of(operands.rhs))) > 2
        return _product(ascend.BatchMatMulV2Op if batched else ascend.MatMulV2Op, build, op, operands)

    def rewrite(self, build: Builder, op: nn.MatMulOp) -> Values:
        lhs, rhs = _as_matrix(build, op.lhs, 0, "row"), _as_matrix(build, op.rhs, 1, "column")
        return [_as_vector(build, op, self.make(build, op, Operands(lhs, rhs, op.bias)))]


def _product(
    kind: type[ascend.MatrixOp | ascend.FullyConnectionOp], build: Builder, op: nn.MatMulOp, operands: Operands
) -> SSAValue:
    lhs, rhs, bias, offset = operands
    return build.add(kind, lhs, rhs, bias, name=f"{build.hint}_acc", offset_x=offset, **kind.like(op)).y


class BatchedProduct(Product):
    """BatchMatMulV2, also of matrices"""

    sources: ClassVar[tuple[Source, ...]] = (
        ("onnx", "MatMul"),
        ("tensorflow", "BatchMatMul"),
        ("tensorflow", "BatchMatMulV2"),
        ("tensorflow", "BatchMatMulV3"),
    )

    def make(self, build: Builder, op: nn.MatMulOp, operands: Operands) -> SSAValue:
        return _product(ascend.BatchMatMulV2Op, build, op, operands)


class InnerProduct(Product):
    """FullyConnection; the weight is `[num_output, K]`, or with `transpose` `[K, num_output]`"""

    sources: ClassVar[tuple[Source, ...]] = (("caffe", "InnerProduct"),)

    @condition
    def inner_product(self, op: nn.MatMulOp) -> str | None:
        """a tensor of rank 2 or 3 is multiplied by a matrix"""
        return _no_inner_product(op, *self.ranks(op))

    def make(self, build: Builder, op: nn.MatMulOp, operands: Operands) -> SSAValue:
        return _product(ascend.FullyConnectionOp, build, op, operands)


def _no_inner_product(op: nn.MatMulOp, rank: int, weight_rank: int) -> str | None:
    fits = weight_rank == 2 and rank in (2, 3) and op.transpose_a is None
    return None if fits else "FullyConnection multiplies rank 2 or 3 by a matrix"


def _as_matrix(build: Builder, value: SSAValue, axis: int, name: str) -> SSAValue:
    """A vector as a matrix with an additional axis of size 1; other operands unchanged."""
    if len(shape_of(value)) != 1:
        return value
    return build.add(ascend.UnsqueezeOp, value, axes=[axis], name=f"{build.hint}_{name}").y


def _as_vector(build: Builder, op: nn.MatMulOp, y: SSAValue) -> SSAValue:
    """The product without the axes that were added to its vectors."""
    rank = len(shape_of(y))
    vectors = zip((op.lhs, op.rhs), (rank - 2, rank - 1), strict=True)
    added = [axis for value, axis in vectors if len(shape_of(value)) == 1]
    return build.add(ascend.SqueezeOp, y, axis=added).y if added else y


class DequantizedProduct(Product, MatrixEngine[nn.MatMulOp], InIntegers[nn.MatMulOp]):
    """A product of integers, then AscendDequant."""

    def scales(self, op: nn.MatMulOp) -> Array:
        return products(self.params(op).scales(), scale_of(op.rhs))

    def product(self, build: Builder, op: nn.MatMulOp, lhs: Activation, rhs: SSAValue) -> Values:
        """AscendDequant of the product of integers."""
        scales, (integers, floats) = self.scales(op), integers_behind(op.bias)
        row, column = _as_matrix(build, lhs.value, 0, "row"), _as_matrix(build, rhs, 1, "column")
        accumulator = self.make(build, op, Operands(row, column, integers, lhs.zero_point))
        # a vector of scales means axis 1, which is the columns of a product of rank 2 only
        result_rank = len(shape_of(accumulator))
        full = (1,) * (result_rank - 1) + (-1,) if scales.size > 1 and result_rank > 2 else (-1,)
        y = dequantized(build, accumulator, np.reshape(stored(op, scales), full))
        y = y if floats is None else build.add(ascend.AddOp, y, floats).y
        return [_as_vector(build, op, y)]


class IntegerProduct(DequantizedProduct, SymmetricWeight[nn.MatMulOp]):
    """The product of int8 by an int8 weight, then AscendDequant"""

    PER: ClassVar[str] = "output column"

    def channels(self, op: nn.MatMulOp) -> int | None:
        return columns(op)

    def rewrite(self, build: Builder, op: nn.MatMulOp) -> Values:
        (activation,) = self.activations(build, op)
        values = self.product(build, op, activation, int8_behind(build, op.rhs))
        pack_in_files(build, op.rhs)
        return values


def columns(op: nn.MatMulOp) -> int:
    """The axis of the right operand that counts columns of the product."""
    rank = len(shape_of(op.rhs))
    return rank - 2 if op.transpose_b is not None else rank - 1


class IntegerBatchedProduct(BatchedProduct, IntegerProduct):
    """BatchMatMulV2 of int8 by an int8 weight, then AscendDequant"""


class IntegerInnerProduct(InnerProduct, IntegerProduct):
    """FullyConnection of int8, then AscendDequant"""


class OfLayer(Product):
    """A product by the operation of its layer."""

    @condition
    def inner_product(self, op: nn.MatMulOp) -> str | None:
        """a layer InnerProduct multiplies a tensor of rank 2 or 3 by a matrix"""
        return _no_inner_product(op, *self.ranks(op)) if _INNER.stands_for(op) else None

    def make(self, build: Builder, op: nn.MatMulOp, operands: Operands) -> SSAValue:
        return next(each for each in (_INNER, _BATCHED, _ANY) if each.stands_for(op)).make(build, op, operands)


_INNER, _BATCHED, _ANY = InnerProduct(), BatchedProduct(), Product()


class ProductOfInputs(OfLayer, DequantizedProduct):
    """The product of two int8 inputs, then AscendDequant; a bias is added in float (AMCT)"""

    def inputs(self, op: nn.MatMulOp) -> Inputs:
        return [("activation", nn.dequantize_of(value)) for value in (op.lhs, op.rhs)]

    def match(self, op: Operation) -> nn.MatMulOp | None:
        if not isinstance(op, nn.MatMulOp) or nn.dequantize_of(op.lhs) is None:
            return None
        return None if second_activation(op) is None else op

    @condition
    def symmetric_activation(self, op: nn.MatMulOp) -> str | None:
        """the zero points of both inputs are 0"""
        points = any(each is not None and each.qparams.data.zero_points() for _, each in self.inputs(op))
        return "it multiplies two inputs, and their zero points are not both 0" if points else None

    def rewrite(self, build: Builder, op: nn.MatMulOp) -> Values:
        lhs, rhs = self.activations(build, op)
        return self.product(build, op, lhs, rhs.value)


lowers_each({nn.BiasAddOp: (ascend.BiasAddOp, lambda op: {"data_format": "NHWC" if op.channels_last else "NCHW"})})

IN_INTEGERS = (ProductOfInputs, IntegerBatchedProduct, IntegerInnerProduct, IntegerProduct)
IN_FLOATS = (BatchedProduct, InnerProduct, Product)
