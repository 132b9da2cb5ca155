"""Softmax of quantized values, as onnxruntime's QLinearSoftmax has it: sums of a table of exponentials."""

from __future__ import annotations

from functools import cache, partial

import numpy as np

from ...dialects import nn
from ...dialects.nn import QParams
from ...dtypes import integer_range, numpy_dtype
from . import Array
from .quantized import Result, Run

_F32 = np.dtype(np.float32)
_MARGIN = 5.0
"""How far, as an exponent of e, sums stay below the largest float32."""


def quantized_softmax(op: nn.SoftmaxOp, x: QParams, result: Result) -> Run:
    """Exponentials of `x - max`, and their float32 sums in order; `1 / scale` of the result is cut to an integer.

    With fewer than `1 / (148 * scale)` classes float32 overflows: then onnxruntime gives 0, and this the largest integer.
    """
    axis, scale = op.axis.value.data, float(x.scales())
    p = result.params
    lowest, storage = integer_range(p.storage)[0], numpy_dtype(p.storage)
    zero_point, factor = np.float32(int(p.zero_points()) - lowest), np.floor(np.float32(1) / p.scales())
    low, high = result.limits
    exponentials = cache(partial(_exponentials, scale))

    def run(q: Array) -> Array:
        rows = np.moveaxis(q, axis, -1).astype(np.int32)
        below = rows - rows.max(axis=-1, keepdims=True)
        values = exponentials(q.shape[axis])[below + 255]
        sums = np.cumsum(values, axis=-1, dtype=_F32)[..., -1:]
        y = np.rint(values * factor / sums) + zero_point
        return np.moveaxis(np.clip(y + lowest, low, high).astype(storage), -1, axis)

    return run


def _exponentials(scale: float, count: int) -> Array:
    """float32 `[256]` of `exp((i - 255) * scale)`, all times a factor that lets `count` of them be added."""
    room = np.log(np.float32(np.finfo(np.float32).max) / np.float32(count), dtype=np.float32)
    shift = max(0.0, float(room) - _MARGIN) / scale
    return np.exp((np.arange(256, dtype=np.float64) - 255 + shift) * scale).astype(_F32)
