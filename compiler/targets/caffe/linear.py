"""InnerProduct."""

from __future__ import annotations

import numpy as np

from ...dialects import nn
from ...dialects.nn.shapes import shape_of
from .layer import CaffeLayer, Written, converter
from .net import Array
from .quantization import compute


@converter(nn.MatMulOp)
def matmul(op: nn.MatMulOp, layer: CaffeLayer) -> Written:
    """The last axis times a constant matrix, which is stored as `[N, K]`: OpenCV ignores `transpose`."""
    rank, weight = len(shape_of(op.lhs)), shape_of(op.rhs)
    if op.transpose_a is not None or rank < 2:
        layer.fail("multiplies along another axis than its input's last one, InnerProduct does not")
    if len(weight) != 2:
        layer.fail(f"has a right operand of rank {len(weight)}, InnerProduct has a matrix")
    parameters: dict[str, object] = {"num_output": op.output_channels, "axis": rank - 1}

    def stored(array: Array) -> Array:
        return array if op.transpose_b is not None else np.ascontiguousarray(array.T)

    return compute(op, layer, "InnerProduct", "inner_product_param", parameters, stored)
