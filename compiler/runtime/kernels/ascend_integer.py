"""The steps from reals to integers and back.

Rounding order, the only one of the dialect: AscendQuant rounds product, sum and integer each once (float32); AscendDequant
rounds the accumulator to float32, then the product; steps from integers to integers round that product to an integer.
FORCE_FP16_QUANT (AMCT) rounds each of these numbers to float16's 11 bits as well.
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
from ...ir.dtypes import integer_range, numpy_dtype
from ...ir.precision import FORCE_FP16, float16_scales, in_float16_precision, shortened
from ..bounds import UNBOUNDED, Bounds
from . import Array, Kernel
from .quantization import saturated

_F32 = np.dtype(np.float32)

_ROUND: dict[str, np.ufunc] = {"Round": np.rint, "Floor": np.floor, "Ceil": np.ceil, "Trunc": np.trunc}


def quant(op: ascend.AscendQuantOp, bounds: Bounds = UNBOUNDED) -> Kernel:
    """The integers of `quant_in_float32`."""
    return _cast(quant_in_float32(op, bounds), op.storage)


def quant_in_float32(op: ascend.AscendQuantOp, bounds: Bounds = UNBOUNDED) -> Callable[[Array], Array]:
    """`clip(round(x * scale + offset))`: product, sum and integer are each rounded to float32. `bounds` apply to x first."""
    scale, offset = np.array(op.scale.value.data, _F32), np.array(op.offset.value.data, _F32)
    squared, rounding = bool(op.sqrt_mode.value.data), _ROUND[op.round_mode.data]
    half = op.fakequant_precision_mode.data == FORCE_FP16

    def rounded(x: Array) -> Array:
        y = scaled_in_float16(x, scale, offset) if half else scaled(x, scale, offset, squared=squared)
        return rounding(y, out=y)

    with np.errstate(over="ignore"):
        ends = rounded(np.array(bounds, numpy_dtype(element_of(op.x))))
    # arrays of rank 0: ufuncs handle them faster than numbers
    low, high = (np.array(end) for end in np.clip(ends, *integer_range(op.storage)))
    return lambda x: saturated(rounded(x), low, high)


def scaled(x: Array, scale: Array, offset: Array, *, squared: bool = False) -> Array:
    """`x * scale + offset`, or `x * scale * scale + offset`, each step rounded to float32."""
    y = x.astype(_F32, copy=False) * scale
    if squared:
        np.multiply(y, scale, out=y)
    return np.add(y, offset, out=y)


def scaled_in_float16(x: Array, scale: Array, offset: Array) -> Array:
    """`x * scale + offset` in FORCE_FP16_QUANT: x, scale, product and sum each rounded to float16's 11 bits."""
    factor = np.minimum(float16_scales(scale), np.finfo(_F32).max)
    y = in_float16_precision(in_float16_precision(x) * factor)
    return in_float16_precision(y + offset)


def dequant(op: ascend.AscendDequantOp) -> Kernel:
    """`float32(x) * deq_scale`: the accumulator is rounded to float32 (ties to even), then the product is.

    In FORCE_FP16_QUANT `float16(float32(x) * s19(deq_scale))`.
    """
    squared, relu = bool(op.sqrt_mode.value.data), bool(op.relu_flag.value.data)
    shape, dtype = op.scale_shape, numpy_dtype(element_of(op.y))
    shifted = _shifted(op) if op.shifts else None
    half = op.fakequant_precision_mode.data == FORCE_FP16

    def run(x: Array, scale: Array) -> Array:
        scale = (shortened(scale) if half else scale).reshape(shape)
        if shifted is not None:
            x, scale = shifted(x, scale)
        y = x.astype(_F32, copy=False) * scale
        if squared:
            np.multiply(y, scale, out=y)
        if half:
            y = in_float16_precision(y)
        if relu:
            # several times faster than np.maximum
            y.clip(0, np.inf, out=y)
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
    """Applies `shift_n` to accumulators and scales: `clip(floor(x / 2^N))` and `scale * 2^N`, both exact."""
    shifts = np.array(op.shifts, np.int32)
    shifts = shifts.reshape(op.scale_shape) if shifts.size > 1 else shifts
    low, high = integer_range(i16)
    return lambda x, scale: (np.clip(x >> shifts, low, high), np.ldexp(scale, shifts))


def requant(op: ascend.AscendRequantOp) -> Kernel:
    """The integers of `requant_in_float32`."""
    return _cast(requant_in_float32(op), i8)


def requant_in_float32(op: ascend.AscendRequantOp) -> Callable[..., Array]:
    """`clip(rint(float32(x) * req_scale) + offset)`; the sum of integers is exact below 2^24, and clipped beyond."""
    offset, shape = np.array(op.offset.value.data, _F32), op.scale_shape
    low, high = _limits(i8, int(offset) if op.relu_flag.value.data else None)

    def run(x: Array, scale: Array) -> Array:
        y = _rounded(x, scale.reshape(shape))
        np.add(y, offset, out=y)
        return y.clip(low, high, out=y)

    return run


def dequant_s16(op: ascend.AscendDequantS16Op) -> Kernel:
    """`clip(rint(float32(x0) * deq_scale) + x1)`; the sum of integers is exact below 2^24, and clipped beyond."""
    low, high = _limits(i16, 0 if op.relu_flag.value.data else None)
    shape, bias_shape = op.scale_shape, None if op.x1 is None else op.along_channels(op.x1)

    def run(x: Array, scale: Array, bias: Array | None = None) -> Array:
        y = _rounded(x, scale.reshape(shape))
        if bias is not None:
            np.add(y, bias.reshape(bias_shape), out=y)
        return y.clip(low, high, out=y).astype(np.int16)

    return run


def requant_s16(op: ascend.AscendRequantS16Op) -> Kernel:
    """The int16 sum, and `clip(rint(sum * req_scale))`."""
    low, high = _limits(i16, 0 if op.relu_flag.value.data else None)
    least, most = _limits(i8)
    shape = op.scale_shape

    def run(x: Array, scale: Array, other: Array | None = None) -> Sequence[Array]:
        total = x.astype(np.int32)
        if other is not None:
            np.add(total, other, out=total)
        total = total.clip(low, high, out=total).astype(np.int16)
        y = _rounded(total, scale.reshape(shape))
        return y.clip(least, most, out=y).astype(np.int8), total

    return run


def _rounded(x: Array, scale: Array) -> Array:
    """`rint(float32(x) * scale)`, float32."""
    y = x.astype(_F32, copy=False) * scale
    return np.rint(y, out=y)


def _limits(storage: IntegerType, zero: int | None = None) -> tuple[int, int]:
    """The least and the largest integer of a type; after a relu the least is that of 0."""
    low, high = integer_range(storage)
    return low if zero is None else max(low, zero), high


def _cast(run: Callable[..., Array], storage: IntegerType) -> Kernel:
    dtype = numpy_dtype(storage)
    return lambda *arrays: run(*arrays).astype(dtype)


STEP_KERNELS: dict[type[AscendOp], Callable[[Any], Kernel]] = {
    ascend.AscendQuantOp: quant,
    ascend.AscendDequantOp: dequant,
    ascend.AscendAntiQuantOp: anti_quant,
    ascend.AscendRequantOp: requant,
    ascend.AscendDequantS16Op: dequant_s16,
    ascend.AscendRequantS16Op: requant_s16,
}
