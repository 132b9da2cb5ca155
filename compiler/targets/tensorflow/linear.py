"""Matrix multiplication."""

from __future__ import annotations

from ...dialects import nn
from ...dialects.nn.shapes import shape_of
from .graph import is_weight
from .layer import TensorFlowLayer, converter
from .movement import weight


@converter(nn.MatMulOp)
def matmul(op: nn.MatMulOp, layer: TensorFlowLayer) -> str:
    """MatMul of two matrices, otherwise BatchMatMulV2. A vector becomes a matrix; the result drops the added axis.

    A transposed weight is written as TensorFlow stores it, [K, N]: AMCT does not quantize a MatMul with transpose_b.
    """
    ranks = len(shape_of(op.lhs)), len(shape_of(op.rhs))
    flags = op.transpose_a is not None or None, op.transpose_b is not None or None
    if ranks == (2, 2) and flags[1] and is_weight(op.rhs):
        y = layer.node("MatMul", op.lhs, weight(layer, op.rhs, (1, 0)), transpose_a=flags[0])
    elif ranks == (2, 2):
        y = layer.node("MatMul", op.lhs, op.rhs, transpose_a=flags[0], transpose_b=flags[1])
    else:
        lhs = layer.helper("ExpandDims", op.lhs, layer.int(0, "axis")) if ranks[0] == 1 else layer.value(op.lhs)
        rhs = layer.helper("ExpandDims", op.rhs, layer.int(1, "axis")) if ranks[1] == 1 else layer.value(op.rhs)
        y = layer.node("BatchMatMulV2", lhs, rhs, adj_x=flags[0], adj_y=flags[1])
    if dropped := [axis for axis, rank in zip((-2, -1), ranks, strict=True) if rank == 1]:
        y = layer.helper("Squeeze", y, squeeze_dims=dropped)
    if op.bias is None:
        return y
    return layer.helper("BiasAdd" if len(shape_of(op.result)) > 1 else "AddV2", y, op.bias)
