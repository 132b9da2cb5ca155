"""The steps from reals to integers and back.

Rounding order, the only one of the dialect: AscendQuant rounds product, sum and integer each once (float32); AscendDequant
rounds the accumulator to float32, then the product; what goes from integers to integers rounds that product to an integer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType

from ...dialects import ascend
from ...dialects.ascend import AscendOp
from ...dialects.ascend.base import i8, i16
from ...dialects.nn.shapes import element_of
from ...dtypes import integer_range, numpy_dtype
from ..bounds import UNBOUNDED, Bounds
from . import Array, Kernel

_F32 = np.dtype(np.float32)

_ROUND: dict[str, np.ufunc] = {"Round": np.rint, "Floor": np.floor, "Ceil": np.ceil, "Trunc": np.trunc}


def quant(op: ascend.AscendQuantOp, bounds: Bounds = UNBOUNDED) -> Kernel:
    """The integers of `quant_in_float32`."""
    run, dtype = quant_in_float32(op, bounds), numpy_dtype(op.storage)

    def cast(x: Array) -> Array:
        return run(x).astype(dtype)

    return cast


def quant_in_float32(op: ascend.AscendQuantOp, bounds: Bounds = UNBOUNDED) -> Callable[[Array], Array]:
    """`clip(round(x * scale + offset))`: product, sum and integer are each rounded to float32. `bounds` are those of x before."""
    scale, offset = np.array(op.scale.value.data, _F32), np.array(op.offset.value.data, _F32)
    squared, rounding = bool(op.sqrt_mode.value.data), _ROUND[op.round_mode.data]

    def rounded(x: Array) -> Array:
        y = x.astype(_F32, copy=False) * scale
        if squared:
            np.multiply(y, scale, out=y)
        np.add(y, offset, out=y)
        return rounding(y, out=y)

    with np.errstate(over="ignore"):
        ends = rounded(np.array(bounds, numpy_dtype(element_of(op.x))))
    low, high = np.clip(ends, *integer_range(op.storage))

    def run(x: Array) -> Array:
        y = rounded(x)
        return y.clip(low, high, out=y)

    return run


def dequant(op: ascend.AscendDequantOp) -> Kernel:
    """`float32(x) * deq_scale`: the accumulator is rounded to float32 (ties to even), then the product is."""
    squared, relu = bool(op.sqrt_mode.value.data), bool(op.relu_flag.value.data)
    shape, dtype = op.scale_shape, numpy_dtype(element_of(op.y))
    shifted = _shifted(op)

    def run(x: Array, scale: Array) -> Array:
        x, scale = shifted(x, scale.reshape(shape))
        y = x.astype(_F32, copy=False) * scale
        if squared:
            np.multiply(y, scale, out=y)
        if relu:
            np.maximum(y, 0, out=y)
        return y.astype(dtype, copy=False)

    return run


def anti_quant(op: ascend.AscendAntiQuantOp) -> Kernel:
    """`(x + offset) * scale`: sum and product are each rounded to float32."""
    scale, offset = np.float32(op.scale.value.data), np.float32(op.offset.value.data)
    squared, dtype = bool(op.sqrt_mode.value.data), numpy_dtype(element_of(op.y))

    def run(x: Array) -> Array:
        y = x.astype(_F32)
        np.add(y, offset, out=y)
        np.multiply(y, scale, out=y)
        if squared:
            np.multiply(y, scale, out=y)
        return y.astype(dtype, copy=False)

    return run


def _shifted(op: ascend.AscendDequantOp) -> Callable[[Array, Array], tuple[Array, Array]]:
    """From accumulators and scales to what `shift_n` leaves of them: `clip(floor(x / 2^N))` and `scale * 2^N`, both exact."""
    if not op.shifts:
        return lambda x, scale: (x, scale)
    shifts = np.array(op.shifts, np.int32)
    shifts = shifts.reshape(op.scale_shape) if shifts.size > 1 else shifts
    low, high = integer_range(i16)
    return lambda x, scale: (np.clip(x >> shifts, low, high), np.ldexp(scale, shifts))


def requant(op: ascend.AscendRequantOp) -> Kernel:
    """`clip(rint(float32(x) * req_scale) + offset)`; below 2^24 the sum of integers is exact, beyond it is clipped anyway."""
    offset, relu, shape = np.float32(op.offset.value.data), bool(op.relu_flag.value.data), op.scale_shape

    def run(x: Array, scale: Array) -> Array:
        y = _rounded(x, scale.reshape(shape))
        if relu:
            np.maximum(y, 0, out=y)
        np.add(y, offset, out=y)
        return _saturated(y, i8)

    return run


def dequant_s16(op: ascend.AscendDequantS16Op) -> Kernel:
    """`clip(rint(float32(x0) * deq_scale) + x1)`; below 2^24 the sum of integers is exact, beyond it is clipped anyway."""
    relu, shape = bool(op.relu_flag.value.data), op.scale_shape
    bias_shape = None if op.x1 is None else op.along_channels(op.x1)

    def run(x: Array, scale: Array, bias: Array | None = None) -> Array:
        y = _rounded(x, scale.reshape(shape))
        if bias is not None:
            np.add(y, bias.reshape(bias_shape), out=y)
        if relu:
            np.maximum(y, 0, out=y)
        return _saturated(y, i16)

    return run


def requant_s16(op: ascend.AscendRequantS16Op) -> Kernel:
    """The int16 sum, and `clip(rint(sum * req_scale))`."""
    relu, shape = bool(op.relu_flag.value.data), op.scale_shape

    def run(x: Array, scale: Array, other: Array | None = None) -> Sequence[Array]:
        total = x.astype(np.int32)
        if other is not None:
            np.add(total, other, out=total)
        if relu:
            np.maximum(total, 0, out=total)
        total = _saturated(total, i16)
        return _saturated(_rounded(total, scale.reshape(shape)), i8), total

    return run


def _rounded(x: Array, scale: Array) -> Array:
    """`rint(float32(x) * scale)`, float32."""
    y = x.astype(_F32, copy=False) * scale
    return np.rint(y, out=y)


def _saturated(y: Array, storage: IntegerType) -> Array:
    low, high = integer_range(storage)
    return y.clip(low, high, out=y).astype(numpy_dtype(storage))


STEP_KERNELS: dict[type[AscendOp], Callable[[Any], Kernel]] = {
    ascend.AscendQuantOp: quant,
    ascend.AscendDequantOp: dequant,
    ascend.AscendAntiQuantOp: anti_quant,
    ascend.AscendRequantOp: requant,
    ascend.AscendDequantS16Op: dequant_s16,
    ascend.AscendRequantS16Op: requant_s16,
}
