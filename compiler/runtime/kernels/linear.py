"""Matrix multiplication and bias."""

from __future__ import annotations

import numpy as np

from ...dialects import nn
from ...dialects.nn.shapes import element_of
from ...ir.dtypes import numpy_dtype
from ..integer import matmul_any, prepare_matmul
from ..layouts import in_layout, per_channel
from ..multiply import matmul
from ..precision import wide
from . import Array, Kernel, kernel

_DEEPEST = 1 << 15
"""Most products of int8 and uint8 whose sums all fit into an int32."""


@kernel(nn.MatMulOp)
def mat_mul(op: nn.MatMulOp) -> Kernel:
    """Matrix product; sums of float16 and bfloat16 are in float32, those of integers wrap around in their type."""
    transpose_a, transpose_b = op.transpose_a is not None, op.transpose_b is not None

    def run(lhs: Array, rhs: Array, bias: Array | None = None) -> Array:
        a = lhs.swapaxes(-1, -2) if transpose_a else lhs
        b = rhs.swapaxes(-1, -2) if transpose_b else rhs
        if lhs.dtype.kind in "iu":
            y = matmul_any(a, b)
        else:
            dtype = wide(lhs.dtype)
            y = matmul(a.astype(dtype, copy=False), b.astype(dtype, copy=False))
        if bias is not None:
            np.add(y, bias, out=y, casting="same_kind")
        return y.astype(lhs.dtype, copy=False)

    return run


@kernel(nn.MatMulIntegerOp)
def mat_mul_integer(op: nn.MatMulIntegerOp) -> Kernel:
    lhs_point, rhs_point = op.lhs_zero_point.value.data, op.rhs_zero_point.value.data
    weight = nn.array_of(op.rhs)
    if weight is not None and weight.ndim == 2 and not rhs_point and weight.shape[0] <= _DEEPEST:
        sums = prepare_matmul(weight, None, numpy_dtype(element_of(op.lhs)), zero_point=lhs_point)

        def by_weight(lhs: Array, _: Array) -> Array:
            return sums(lhs).astype(np.int32, copy=False)

        return by_weight

    def run(lhs: Array, rhs: Array) -> Array:
        return matmul_any(lhs.astype(np.int32) - lhs_point, rhs.astype(np.int32) - rhs_point)

    return run


@kernel(nn.BiasAddOp)
def bias_add(op: nn.BiasAddOp) -> Kernel:
    def run(x: Array, bias: Array) -> Array:
        return x + per_channel(bias, x.ndim)

    return in_layout(op, run)
