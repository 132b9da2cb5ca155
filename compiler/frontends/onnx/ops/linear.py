"""Gemm and MatMulInteger."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from ....dialects import nn
from ....dialects.nn.shapes import known
from ....formats.onnx.tensors import Array
from ..node import Constant, Converted, Node, Unmapped, converter


@converter("Gemm")
def gemm(node: Node) -> Converted:
    """`alpha * A' * B' + beta * C`. alpha goes into a constant B, beta into a constant C; C as one row becomes the bias.

    A constant C is `[N]`, `[1, N]`, or one number; any other C is added afterwards.
    """
    alpha, beta = node.float("alpha", 1.0), node.float("beta", 1.0)
    if len(node.shape(0)) != 2 or len(node.shape(1)) != 2:
        raise node.error(f"needs matrices, not tensors of rank {len(node.shape(0))} and {len(node.shape(1))}")
    if node.dtype(0).kind in "iu" and not (alpha.is_integer() and beta.is_integer()):
        raise Unmapped("it scales integers by a fraction")
    columns = node.shape(1)[0 if node.int("transB", 0) else 1]
    folded = _scaled(node, 1, alpha)
    bias = _row(node, beta, columns) if node.has(2) and (folded or alpha == 1.0) else None
    product = node.emit(
        nn.MatMulOp,
        node.value(0),
        folded or node.value(1),
        bias,
        transpose_a=bool(node.int("transA", 0)),
        transpose_b=bool(node.int("transB", 0)),
    ).result
    if alpha != 1.0 and folded is None:
        product = node.emit(nn.MulOp, product, _scalar(node, alpha)).result
    if not node.has(2) or bias is not None or beta == 0.0:
        return product
    return node.emit(nn.AddOp, product, _addend(node, beta)).result


@converter("MatMulInteger")
def matmul_integer(node: Node) -> Converted:
    """Products with one zero point for each operand; those with one for each row or column are carried."""
    points = [node.known(i) if node.has(i) else np.zeros((), np.int8) for i in (2, 3)]
    if any(each.size != 1 for each in points):
        raise Unmapped("it has a zero point for each row or column")
    if min(len(node.shape(0)), len(node.shape(1))) < 2:
        raise Unmapped("it multiplies a vector")
    lhs, rhs = (int(each.item()) for each in points)
    return node.emit(nn.MatMulIntegerOp, node.value(0), node.value(1), lhs_zero_point=lhs, rhs_zero_point=rhs).result


def _scaled(node: Node, index: int, factor: float) -> SSAValue | None:
    """A constant input times a factor; None if it is not constant."""
    binding = node.binding(index)
    if not isinstance(binding, Constant):
        return None
    if factor == 1.0:
        return node.sink.value(binding)
    return node.sink.value(Constant(binding.key, _times(binding.array, factor)))


def _times(array: Array, factor: float) -> Array:
    return array * np.asarray(factor, array.dtype)


def _scalar(node: Node, value: float) -> SSAValue:
    return node.constant(np.asarray(value, node.dtype(0)), ".factor")


def _row(node: Node, beta: float, columns: int) -> SSAValue | None:
    """C as a bias `[N]`, if it is the same for every row."""
    binding, shape = node.binding(2), node.shape(2)
    if beta == 0.0:
        return None
    if isinstance(binding, Constant):
        if len(shape) > 2 or (len(shape) == 2 and shape[0] != 1) or (shape and shape[-1] not in (1, columns)):
            return None
        array = binding.array if beta == 1.0 else _times(binding.array, beta)
        row = np.broadcast_to(array.reshape(-1), (columns,))
        return node.sink.value(Constant(binding.key, row) if row is not binding.array else binding)
    return node.value(2) if beta == 1.0 and shape == (columns,) and known(columns) else None


def _addend(node: Node, beta: float) -> SSAValue:
    scaled = _scaled(node, 2, beta)
    if scaled is not None:
        return scaled
    if beta == 1.0:
        return node.value(2)
    return node.emit(nn.MulOp, node.value(2), _scalar(node, beta)).result
