"""The float type that sums and transcendental functions are computed in."""

from __future__ import annotations

from typing import Any

import numpy as np

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


def wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """float64 for float64, float32 for every other type (float16, bfloat16)."""
    return _F64 if dtype == _F64 else _F32
