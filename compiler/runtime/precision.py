"""The float type for sums and transcendental functions, and means in it."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .kernels import Array

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


def wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """float64 for float64, float32 for every other type (float16, bfloat16)."""
    return _F64 if dtype == _F64 else _F32


def mean(x: Array, axes: tuple[int, ...], keepdims: bool = True) -> Array:
    """The mean over axes in `wide` (integers in float64); NaN if there are no elements, without numpy's warning."""
    dtype = _F64 if x.dtype.kind in "iu" else wide(x.dtype)
    total = np.add.reduce(x, axis=axes, keepdims=keepdims, dtype=dtype)
    return np.divide(total, prod(x.shape[a] for a in axes), dtype=dtype)
