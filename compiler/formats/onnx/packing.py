"""Small unsigned integers in bytes, as MatMulNBits of onnxruntime stores them: each row by itself, the low half of a byte first.

Source: onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def packed_rows(values: Array, bits: int) -> Array:
    """uint8 [..., n] of 4 or 8 bits as uint8 [..., bytes]; a row of odd length ends with half a byte of zeros."""
    if bits == 8:
        return np.ascontiguousarray(values)
    even = np.pad(values, [*[(0, 0)] * (values.ndim - 1), (0, values.shape[-1] % 2)])
    return even[..., ::2] | even[..., 1::2] << 4


def unpacked_rows(data: Array, count: int, bits: int) -> Array:
    """uint8 [..., count] from the bytes of each row."""
    if bits == 8:
        return data[..., :count]
    return np.stack([data & 0x0F, data >> 4], axis=-1).reshape(*data.shape[:-1], -1)[..., :count]
