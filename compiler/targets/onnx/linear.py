"""Matrix multiplication and bias."""

from __future__ import annotations

from ...dialects import nn
from ...dialects.nn.shapes import shape_of
from .float_layers import factor, weighted_input
from .layer import OnnxLayer, Operand, converter


@converter(nn.MatMulOp)
def matmul(op: nn.MatMulOp, layer: OnnxLayer) -> str:
    """Gemm for two matrices with transposes or a bias; otherwise MatMul between transposes and an Add."""
    plain = op.bias is None and op.transpose_a is None and op.transpose_b is None
    x = weighted_input(op, layer)
    weight = factor(op, x, layer)
    if plain:
        return layer.node("MatMul", x, weight)
    if len(shape_of(op.lhs)) == len(shape_of(op.rhs)) == 2:
        return layer.node(
            "Gemm",
            x,
            weight,
            op.bias,
            transA=None if op.transpose_a is None else 1,
            transB=None if op.transpose_b is None else 1,
        )
    lhs = x if op.transpose_a is None else transposed(x, len(shape_of(op.lhs)), layer)
    rhs = weight if op.transpose_b is None else transposed(weight, len(shape_of(op.rhs)), layer)
    product = layer.node("MatMul", lhs, rhs)
    return product if op.bias is None else layer.helper("Add", product, op.bias)


@converter(nn.MatMulIntegerOp)
def matmul_integer(op: nn.MatMulIntegerOp, layer: OnnxLayer) -> str:
    lhs, rhs = op.lhs_zero_point.value.data, op.rhs_zero_point.value.data
    points = [(lhs, op.lhs)] if lhs or rhs else []
    points += [(rhs, op.rhs)] if rhs else []
    return layer.node("MatMulInteger", op.lhs, op.rhs, *(layer.scalar(n, of, "zero_point") for n, of in points))


def transposed(value: Operand, rank: int, layer: OnnxLayer) -> str:
    """The matrices of a value, transposed."""
    return layer.helper("Transpose", value, perm=[*range(rank - 2), rank - 1, rank - 2])
