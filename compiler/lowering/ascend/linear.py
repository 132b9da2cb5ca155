"""Matrix products: Gemm to MatMulV2, ONNX MatMul and everything batched to BatchMatMulV2, InnerProduct to FullyConnection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.nn.shapes import shape_of
from ..refusal import require
from .quantized import (
    QUANTIZED_RULES,
    Activation,
    QuantizedRule,
    Weight,
    bias_of,
    dequantization_scale,
    dequantized,
    stored,
    stored_as_int8,
    weight_of,
)
from .rules import RULES, Builder, Rule, Source, keys_of, lowers


class Operands(NamedTuple):
    """The operands of a product: float values, or int8 ones with an int32 bias."""

    lhs: SSAValue
    rhs: SSAValue
    bias: SSAValue | None
    zero_point: int = 0

    @property
    def ranks(self) -> tuple[int, int]:
        return len(shape_of(self.lhs)), len(shape_of(self.rhs))


Multiply = Callable[[Builder, nn.MatMulOp, Operands], SSAValue]


def _matrices_or_batches(build: Builder, op: nn.MatMulOp, operands: Operands) -> SSAValue:
    return (_batches if max(operands.ranks) > 2 else _matrices)(build, op, operands)


def _matrices(build: Builder, op: nn.MatMulOp, operands: Operands) -> SSAValue:
    require(min(operands.ranks) >= 2, "matrix-rank", "an operand is a vector")
    lhs, rhs, bias, offset = operands
    flags = {"transpose_x1": op.transpose_a is not None, "transpose_x2": op.transpose_b is not None}
    return build.add(ascend.MatMulV2Op, lhs, rhs, bias, name=f"{build.hint}_acc", offset_x=offset, **flags).y


def _batches(build: Builder, op: nn.MatMulOp, operands: Operands) -> SSAValue:
    require(min(operands.ranks) >= 2, "matrix-rank", "an operand is a vector")
    lhs, rhs, bias, offset = operands
    flags = {"adj_x1": op.transpose_a is not None, "adj_x2": op.transpose_b is not None}
    return build.add(ascend.BatchMatMulV2Op, lhs, rhs, bias, name=f"{build.hint}_acc", offset_x=offset, **flags).y


def _inner_product(build: Builder, op: nn.MatMulOp, operands: Operands) -> SSAValue:
    """The weight is `[num_output, K]`, or with `transpose` `[K, num_output]`."""
    rank, weight_rank = operands.ranks
    fits = weight_rank == 2 and rank in (2, 3) and op.transpose_a is None
    require(fits, "inner-product", "FullyConnection multiplies rank 2 or 3 by a matrix")
    return build.add(
        ascend.FullyConnectionOp,
        operands.lhs,
        operands.rhs,
        operands.bias,
        num_output=shape_of(operands.rhs)[0 if op.transpose_b is not None else 1],
        transpose=op.transpose_b is None,
        axis=rank - 1,
        offset_x=operands.zero_point,
        name=f"{build.hint}_acc",
    ).y


_BATCHED: tuple[Source, ...] = (
    ("onnx", "MatMul"),
    ("tensorflow", "BatchMatMul"),
    ("tensorflow", "BatchMatMulV2"),
    ("tensorflow", "BatchMatMulV3"),
)
OPERATORS: Mapping[Source | None, Multiply] = {
    None: _matrices_or_batches,
    **dict.fromkeys(_BATCHED, _batches),
    ("caffe", "InnerProduct"): _inner_product,
}
"""The products by layer."""


def multiply(build: Builder, op: nn.MatMulOp, lhs: SSAValue, rhs: SSAValue, bias: SSAValue | None) -> SSAValue:
    """The product of float operands with the source operation's transposes, by the operator of its layer."""
    return operator_of(op)(build, op, Operands(lhs, rhs, bias))


def operator_of(op: nn.MatMulOp) -> Multiply:
    """The product for the operation's layer."""
    return next(OPERATORS[source] for _, source in keys_of(op) if source in OPERATORS)


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


def _rule(make: Multiply) -> Rule:
    def in_floats(build: Builder, op: nn.MatMulOp) -> Sequence[SSAValue]:
        lhs, rhs = _as_matrix(build, op.lhs, 0, "row"), _as_matrix(build, op.rhs, 1, "column")
        return [_as_vector(build, op, make(build, op, Operands(lhs, rhs, op.bias)))]

    return in_floats


def _quantized_rule(make: Multiply) -> QuantizedRule:
    def in_integers(build: Builder, op: nn.MatMulOp, activation: Activation) -> Sequence[SSAValue]:
        weight = weight_of(op.rhs)
        rank = len(shape_of(op.rhs))
        columns = rank - 2 if op.transpose_b is not None else rank - 1
        per_column = weight.axis in (None, columns)
        require(per_column, "channel-scales", f"its weight has scales along axis {weight.axis}, not per output column")
        integers = replace(weight, value=stored_as_int8(build, weight.value))
        return _quantized_product(build, op, activation, integers, make)

    return in_integers


def _quantized_product(
    build: Builder, op: nn.MatMulOp, lhs: Activation, rhs: Weight, make: Multiply
) -> Sequence[SSAValue]:
    """AscendDequant of the product of integers."""
    scales = dequantization_scale(lhs, rhs)
    bias = bias_of(op.bias, scales)
    row, column = _as_matrix(build, lhs.value, 0, "row"), _as_matrix(build, rhs.value, 1, "column")
    accumulator = make(build, op, Operands(row, column, bias.integers, lhs.zero_point))
    # a vector of scales means axis 1, which is the columns of a product of rank 2 only
    result_rank = len(shape_of(accumulator))
    full = (1,) * (result_rank - 1) + (-1,) if scales.size > 1 and result_rank > 2 else (-1,)
    y = dequantized(build, accumulator, np.reshape(stored(build, scales), full))
    y = y if bias.floats is None else build.add(ascend.AddOp, y, bias.floats).y
    return [_as_vector(build, op, y)]


def product_of_inputs(build: Builder, op: nn.MatMulOp, lhs: Activation, rhs: Activation) -> Sequence[SSAValue]:
    """A product of two activations in integers, both without zero points (AMCT); a bias is added in float.

    Raises NotLowered if the matrix engine does not support it.
    """
    symmetric = not (lhs.zero_point or rhs.zero_point)
    require(symmetric, "symmetric-activation", "it multiplies two inputs, and their zero points are not both 0")
    weight = Weight(rhs.value, np.asarray(rhs.scale), None)
    return _quantized_product(build, op, lhs, weight, operator_of(op))


RULES.update({(nn.MatMulOp, source): _rule(make) for source, make in OPERATORS.items()})
QUANTIZED_RULES.update({(nn.MatMulOp, source): _quantized_rule(make) for source, make in OPERATORS.items()})


@lowers(nn.BiasAddOp)
def bias_add(build: Builder, op: nn.BiasAddOp) -> Sequence[SSAValue]:
    data_format = "NHWC" if op.channels_last else "NCHW"
    return [build.add(ascend.BiasAddOp, op.input, op.bias, data_format=data_format).y]
