"""Operations with an integer kernel: functions from their operands' contents to the kernel and its slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from xdsl.ir import Operation

from ..dialects import nn
from ..dialects.nn import QParams
from ..dialects.nn.shapes import DYNAMIC, shape_of
from .integer_values import IntegerValues
from .kernels import Kernel, quantized as kernels
from .kernels.quantized import Result, Sums
from .program import Row


class Chain(NamedTuple):
    """An integer kernel and the slots of its operands."""

    kernel: Kernel
    operands: tuple[int, ...]


def _conv(values: IntegerValues, row: Row, result: Result) -> Chain | None:
    op = cast(nn.ConvOp, row.op)
    x = values.activations(row.operands[:1])
    if x is None or (weight := values.weight(x[0], *row.operands[1:], axis=0)) is None:
        return None
    return Chain(kernels.quantized_conv(op, x[0].params, weight, result), (x[0].slot,))


def _product(values: IntegerValues, row: Row, result: Result) -> Chain | None:
    """Returns None for a product with a bias that is not a Gemm: the bias is added in float."""
    op, bias = cast(nn.MatMulOp, row.op), row.operands[2:]
    if bias and not _is_gemm(op):
        return None
    if (found := _sums(values, row, bias)) is None:
        return None
    sums, x, weight, slots = found
    return Chain(kernels.quantized_product(sums, x, weight, result), slots)


def float_product(values: IntegerValues, row: Row) -> Chain | None:
    """A matrix product whose result is not quantized: sums are integers, the result is float."""
    op, bias = cast(nn.MatMulOp, row.op), row.operands[2:]
    if (found := _sums(values, row, bias if _is_gemm(op) else ())) is None:
        return None
    sums, x, weight, slots = found
    product = kernels.float_product(sums, x, weight)
    return Chain(product, slots) if _is_gemm(op) or not bias else Chain(kernels.biased(product), (*slots, *bias))


def _sums(
    values: IntegerValues, row: Row, bias: Sequence[int]
) -> tuple[Sums, QParams, QParams, tuple[int, ...]] | None:
    """Sums, parameters and operands of a matrix product, whose second operand is a weight or an activation."""
    op = cast(nn.MatMulOp, row.op)
    if (x := values.activations(row.operands[:1])) is None:
        return None
    axis = (0 if op.transpose_b is not None else 1) if len(shape_of(op.rhs)) == 2 else None
    if (weight := values.weight(x[0], row.operands[1], *bias, axis=axis)) is not None:
        return kernels.matmul_sums(op, x[0].params, weight), x[0].params, weight.params, (x[0].slot,)
    if bias or (both := values.activations(row.operands[:2])) is None:
        return None
    a, b = both
    return kernels.matmul_of_activations(op, a.params, b.params), a.params, b.params, (a.slot, b.slot)


def _is_gemm(op: nn.MatMulOp) -> bool:
    """Whether onnxruntime fuses a product and its bias: a known number of rows times a matrix."""
    rows = shape_of(op.lhs)
    return len(shape_of(op.rhs)) == 2 and (len(rows) == 2 or DYNAMIC not in rows)


def _pairs(make: Callable[[QParams, QParams, Result], Kernel]) -> Callable[[IntegerValues, Row, Result], Chain | None]:
    def chain(values: IntegerValues, row: Row, result: Result) -> Chain | None:
        if (both := values.activations(row.operands)) is None:
            return None
        a, b = both
        return Chain(make(a.params, b.params, result), (a.slot, b.slot))

    return chain


def _alone(make: Callable[[Any, QParams, Result], Kernel]) -> Callable[[IntegerValues, Row, Result], Chain | None]:
    def chain(values: IntegerValues, row: Row, result: Result) -> Chain | None:
        if (x := values.activations(row.operands)) is None:
            return None
        return Chain(make(row.op, x[0].params, result), (x[0].slot,))

    return chain


def _average_pool(values: IntegerValues, row: Row, result: Result) -> Chain | None:
    if not cast(nn.AveragePoolOp, row.op).has_integer_kernel:
        return None
    return _alone(kernels.quantized_average_pool)(values, row, result)


def _reduced_mean(values: IntegerValues, row: Row, result: Result) -> Chain | None:
    if not cast(nn.ReduceMeanOp, row.op).averages_space:
        return None
    return _alone(kernels.quantized_global_average_pool)(values, row, result)


CHAINS: dict[type[Operation], Callable[[IntegerValues, Row, Result], Chain | None]] = {
    nn.ConvOp: _conv,
    nn.MatMulOp: _product,
    nn.AddOp: _pairs(kernels.quantized_add),
    nn.MulOp: _pairs(kernels.quantized_mul),
    nn.AveragePoolOp: _average_pool,
    nn.GlobalAveragePoolOp: _alone(kernels.quantized_global_average_pool),
    nn.ReduceMeanOp: _reduced_mean,
}
"""Operations with an integer kernel."""
