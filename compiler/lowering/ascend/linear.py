"""Matrix products: Gemm to MatMulV2, ONNX MatMul and everything batched to BatchMatMulV2."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.nn.shapes import shape_of
from .quantized import Activation, bias_of, dequantization_scale, dequantized, lowers_quantized, stored, weight_of
from .rules import Builder, lowers, require


@lowers(nn.MatMulOp)
def matmul(build: Builder, op: nn.MatMulOp) -> Sequence[SSAValue]:
    return [multiply(build, op, op.lhs, op.rhs, op.bias)]


@lowers_quantized(nn.MatMulOp)
def quantized_matmul(build: Builder, op: nn.MatMulOp, activation: Activation) -> Sequence[SSAValue]:
    weight = weight_of(op.rhs)
    rank = len(shape_of(op.rhs))
    columns = rank - 2 if op.transpose_b is not None else rank - 1
    per_column = weight.axis in (None, columns)
    require(per_column, "channel-scales", f"its weight has scales along axis {weight.axis}, not per output column")
    scales = dequantization_scale(activation, weight)
    bias = bias_of(op.bias, scales)
    operands = activation.value, weight.value, bias.integers
    accumulator = multiply(build, op, *operands, zero_point=activation.zero_point)
    # a vector of scales means axis 1, which is the columns of a product of rank 2 only
    result_rank = len(shape_of(accumulator))
    full = (1,) * (result_rank - 1) + (-1,) if scales.size > 1 and result_rank > 2 else (-1,)
    y = dequantized(build, accumulator, np.reshape(stored(build, scales), full))
    return [y if bias.floats is None else build.add(ascend.AddOp, y, bias.floats).y]


def multiply(
    build: Builder,
    op: nn.MatMulOp,
    lhs: SSAValue,
    rhs: SSAValue,
    bias: SSAValue | None,
    zero_point: int = 0,
) -> SSAValue:
    """MatMulV2 or BatchMatMulV2 of operands with the source operation's transposes."""
    ranks = len(shape_of(lhs)), len(shape_of(rhs))
    require(min(ranks) >= 2, "matrix-rank", "an operand is a vector")
    a, b = op.transpose_a is not None, op.transpose_b is not None
    if max(ranks) > 2 or _is_onnx_matmul(op):
        flags = {"adj_x1": a, "adj_x2": b, "offset_x": zero_point}
        return build.add(ascend.BatchMatMulV2Op, lhs, rhs, bias, name=f"{build.hint}_acc", **flags).y
    flags = {"transpose_x1": a, "transpose_x2": b, "offset_x": zero_point}
    return build.add(ascend.MatMulV2Op, lhs, rhs, bias, name=f"{build.hint}_acc", **flags).y


def _is_onnx_matmul(op: nn.MatMulOp) -> bool:
    origin = op.origin
    return origin is not None and (origin.framework.data, origin.op_type.data) == ("onnx", "MatMul")


@lowers(nn.BiasAddOp)
def bias_add(build: Builder, op: nn.BiasAddOp) -> Sequence[SSAValue]:
    data_format = "NHWC" if op.channels_last else "NCHW"
    return [build.add(ascend.BiasAddOp, op.input, op.bias, data_format=data_format).y]
