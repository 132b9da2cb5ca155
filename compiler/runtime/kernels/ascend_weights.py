"""Kernels for weight-only quantization, weights with offsets, and activations with scales per channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...dialects import ascend
from ...dialects.ascend import AscendOp
from ...dialects.nn.shapes import element_of
from ...ir.dtypes import integer_range, numpy_dtype
from ..multiply import matmul
from . import Array, Kernel

_F32 = np.dtype(np.float32)

_ROUND: dict[str, np.ufunc] = {"round": np.rint, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}


def weight_quant(op: ascend.AscendWeightQuantOp) -> Kernel:
    """`x - offset`. Raises ValueError for a difference beyond the result's type."""
    (low, high), dtype = integer_range(op.storage), numpy_dtype(op.storage)

    def run(x: Array, offset: Array) -> Array:
        y = x.astype(np.int16) - offset
        if y.size and not (low <= y.min() and y.max() <= high):
            raise ValueError(f"weights from {y.min()} to {y.max()} without their offsets do not fit into {op.storage}")
        return y.astype(dtype)

    return run


def quant(op: ascend.AscendQuantV2Op) -> Kernel:
    """`clip(round(x * scale + offset))`: product, sum and integer are each rounded to float32."""
    squared, rounding, shape = bool(op.sqrt_mode.value.data), _ROUND[op.round_mode.data], op.parameter_shape
    (low, high), dtype = integer_range(op.storage), numpy_dtype(op.storage)

    def run(x: Array, scale: Array, offset: Array | None = None) -> Array:
        scale = scale.astype(_F32).reshape(shape)
        y = x.astype(_F32) * scale
        if squared:
            np.multiply(y, scale, out=y)
        if offset is not None:
            np.add(y, offset.astype(_F32).reshape(shape), out=y)
        return np.clip(rounding(y, out=y), low, high, out=y).astype(dtype)

    return run


def anti_quant(op: ascend.AscendAntiQuantV2Op) -> Kernel:
    """`(x + offset) * scale`: sum and product are each rounded to float32, then to the result's type."""
    squared, dtype = bool(op.sqrt_mode.value.data), numpy_dtype(element_of(op.y))

    def run(x: Array, scale: Array, offset: Array | None = None) -> Array:
        y = _real_weight(x, scale, offset)
        return (y * scale.astype(_F32) if squared else y).astype(dtype)

    return run


def _real_weight(weight: Array, scale: Array, offset: Array | None) -> Array:
    """`(weight + offset) * scale` in float32."""
    y = weight.astype(_F32)
    return (y if offset is None else y + offset.astype(_F32)) * scale.astype(_F32)


def matrix_product(op: ascend.WeightQuantBatchMatmulV2Op) -> Kernel:
    """Converts the weight to the type of x; sums are in float32."""
    transpose_x, transpose_weight = bool(op.transpose_x.value.data), bool(op.transpose_weight.value.data)
    group = op.group_size

    def run(x: Array, weight: Array, scale: Array, offset: Array, bias: Array | None = None) -> Array:
        x, weight = x.T if transpose_x else x, weight.T if transpose_weight else weight
        if group:
            scale, offset = (np.repeat(each, group, axis=0)[: weight.shape[0]] for each in (scale, offset))
        y = matmul(x.astype(_F32), _real_weight(weight, scale, offset).astype(x.dtype).astype(_F32))
        return (y if bias is None else y + bias.astype(_F32)).astype(x.dtype)

    return run


WEIGHT_KERNELS: dict[type[AscendOp], Callable[[Any], Kernel]] = {
    ascend.AscendWeightQuantOp: weight_quant,
    ascend.AscendQuantV2Op: quant,
    ascend.AscendAntiQuantV2Op: anti_quant,
    ascend.WeightQuantBatchMatmulV2Op: matrix_product,
}
