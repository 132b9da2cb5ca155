"""Computes parameters from ranges, and integers from floats, rounding half to even."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType

from ....dialects.nn import QParamsAttr, spread
from ....runtime.affine import LEAST_SCALE, affine

Array = np.ndarray[Any, np.dtype[Any]]


def activation_params(low: float, high: float, bits: int, symmetric: bool) -> QParamsAttr:
    """Per-tensor parameters of signed integers for values in [low, high]; the range is widened to include 0."""
    return QParamsAttr.of(IntegerType(bits), *affine(low, high, bits, symmetric=symmetric))


NO_OFFSET = np.zeros((), np.int32)
"""The zero point of symmetric integers."""
_PIECE = 1 << 15
"""How many numbers are quantized at a time, so that intermediate results stay in the cache."""


def quantized(
    values: Array,
    scales: Array,
    bits: int,
    axis: int | None = None,
    zero_points: Array = NO_OFFSET,
    block: int | None = None,
) -> Array:
    """`saturate(round_half_even(values / scale) + zero_point)` as int8 (bits <= 8) or int32, the division in float32.

    Scales and zero points have shape [], along `axis` [channels], or [blocks].
    """
    limit = 2 ** (bits - 1)
    result = np.empty(values.shape, np.int8 if bits <= 8 else np.int32)
    parameters = [spread(p, values.shape, axis, block) for p in (scales, zero_points)]
    pieces = np.nditer(
        [values, *parameters, result],
        ["external_loop", "buffered", "zerosize_ok"],
        [["readonly"], ["readonly"], ["readonly"], ["writeonly"]],
        op_dtypes=[np.float32, np.float32, np.float32, result.dtype],
        casting="same_kind",
        buffersize=_PIECE,
    )
    with pieces:
        for some, scale, zero_point, integers in pieces:
            steps = some / scale
            np.rint(steps, out=steps)
            steps += zero_point
            np.clip(steps, -limit, limit - 1, out=steps)
            integers[...] = steps
    return result


BIAS_LIMIT = 2**30
"""Largest bias in accumulator units: leaves the other half of the int32 range to the products."""


def widened(scales: Array, bias: Array | None, input_scale: float) -> Array:
    """Weight scales, float32, raised until `input_scale * scale`, the unit of the sums, is a normal float32 number in which the
    bias fits into int32.

    The latter happens in channels whose weights are nearly zero beside the bias. Beside an int8 input the weights lose less than
    the last bit of the bias, beside an int16 input, whose scale is 256 times smaller, a 2^15th of it per product.
    """
    least = np.float64(LEAST_SCALE / input_scale)
    if bias is not None:
        needed = np.abs(bias.astype(np.float64)) / (float(input_scale) * BIAS_LIMIT)
        least = np.maximum(least, needed.max(initial=0.0) if scales.ndim == 0 else needed)
    return np.maximum(scales, least.astype(np.float32))


def sum_scales(weight: Array, activation: Array) -> Array:
    """The scales of the sums of products: float32, of the weight's shape. They may be no normal numbers (`are_normal`)."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(weight * activation, np.float32)


def bias_fits(bias: Array, scales: Array, dtype: type[np.floating] = np.float64) -> bool:
    """Whether the results of `quantized_bias` fit into int32."""
    with np.errstate(all="ignore"):
        steps = _bias_steps(bias, scales, dtype)
    return bool(np.all((steps >= -(2**31)) & (steps < 2**31)))


def quantized_bias(bias: Array, scales: Array, dtype: type[np.floating] = np.float64) -> Array:
    """`round_half_even(bias / scale)` as int32, divided in `dtype`; scales are float32, [] or [channels]."""
    return _bias_steps(bias, scales, dtype).astype(np.int32)


def _bias_steps(bias: Array, scales: Array, dtype: type[np.floating]) -> Array:
    return np.rint(bias.astype(dtype) / scales.astype(dtype))
