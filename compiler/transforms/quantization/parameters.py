"""From ranges to scales and zero points, and from floats to integers. AMCT's min-max formulas, halves to even."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType

from ...dialects.nn import QParamsAttr

Array = np.ndarray[Any, np.dtype[Any]]

SMALLEST_SCALE = 1.1920929e-07
"""Scales below float32's epsilon mean "no signal" and become 1 (AMCT)."""


def activation_params(low: float, high: float, bits: int, symmetric: bool) -> QParamsAttr:
    """Per-tensor parameters of signed integers for values in [low, high], a range that is widened to hold 0.

    Asymmetric: `scale = (high - low) / (2^bits - 1)`, `zero_point = round(-2^(bits-1) - low/scale)`.
    Symmetric: `scale = high / (2^(bits-1) - 1)` or `-low / 2^(bits-1)`, whichever side is larger; zero point 0.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    least = -(2 ** (bits - 1))
    storage = IntegerType(bits)
    if symmetric:
        return QParamsAttr.of(storage, float(symmetric_scales(np.array([low, high]), bits)))
    scale = np.float32((high - low) / (2**bits - 1))
    if not scale >= SMALLEST_SCALE:
        return QParamsAttr.of(storage, 1.0, least)
    zero_point = int(np.clip(np.rint(least - low / float(scale)), least, -least - 1))
    return QParamsAttr.of(storage, float(scale), zero_point)


def symmetric_scales(values: Array, bits: int, axis: int | None = None) -> Array:
    """float32 scales of symmetric signed integers for `values`: shape [] or, along `axis`, [channels] (AMCT's ARQ).

    The positive side decides where it is the larger one or both are equal.
    """
    if axis is None:
        low, high = values.min(initial=0.0), values.max(initial=0.0)
    else:
        others = tuple(i for i in range(values.ndim) if i != axis)
        low, high = values.min(axis=others, initial=0.0), values.max(axis=others, initial=0.0)
    up = np.asarray(high, np.float64) / (2 ** (bits - 1) - 1)
    down = -np.asarray(low, np.float64) / 2 ** (bits - 1)
    scales = np.asarray(np.where(np.greater_equal(high, -low), up, down), np.float32)
    return np.asarray(np.where(scales < SMALLEST_SCALE, 1, scales), np.float32)


def quantized(values: Array, scales: Array, bits: int, axis: int | None = None) -> Array:
    """`saturate(round_half_even(values / scale))` as int8 (bits <= 8) or int32, the division in float32."""
    if axis is not None:
        scales = scales.reshape([-1 if i == axis else 1 for i in range(values.ndim)])
    limit = 2 ** (bits - 1)
    steps = np.rint(values.astype(np.float32, copy=False) / scales)
    return np.clip(steps, -limit, limit - 1).astype(np.int8 if bits <= 8 else np.int32)


BIAS_LIMIT = 2**30
"""Largest bias in accumulator units: leaves as much room again for the products."""


def widened_for_bias(scales: Array, bias: Array, input_scale: float) -> Array:
    """Weight scales, float32, raised where a bias would not fit into int32 at `input_scale * scale`.

    Happens in channels whose weights are nearly zero; what their weights lose is below the bias's own last bit.
    """
    needed = np.abs(bias.astype(np.float64)) / (float(input_scale) * BIAS_LIMIT)
    needed = needed.max(initial=0.0) if scales.ndim == 0 else needed
    return np.maximum(scales, needed.astype(np.float32))


def quantized_bias(bias: Array, scales: Array) -> Array:
    """`round_half_even(bias / scale)` as int32, in float64; scales are float32, [] or [channels]."""
    return np.rint(bias.astype(np.float64) / scales.astype(np.float64)).astype(np.int32)
