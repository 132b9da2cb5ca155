"""Integers of four bits in the form of AMCT's files for PyTorch: two neighbours along an axis in a byte, the first one in
the low bits. Arrays here are int8, one number in each, and int8, two numbers in each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def pack(integers: Array, axis: int) -> Array:
    """Numbers in [-8, 7] as half as many bytes along `axis`, whose size must be even."""
    low, high = (integers[(slice(None),) * axis + (slice(start, None, 2),)].astype(np.int8) for start in (0, 1))
    return (low & 0x0F) | (high << 4)


def unpack(packed: Array, axis: int) -> Array:
    """The numbers, twice as many along `axis`."""
    pairs = np.stack([packed << 4 >> 4, packed >> 4], axis + 1)
    return pairs.reshape(*packed.shape[:axis], -1, *packed.shape[axis + 1 :])
