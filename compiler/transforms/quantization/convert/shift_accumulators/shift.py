"""Shift-N: how far 32-bit sums are shifted right on a chip that keeps them in 16 bits (AMCT)."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

LARGEST = 16
_LEAST, _MOST = -(2**15), 2**15 - 1


def shift_errors(sums: Array) -> Array:
    """The squared error of every shift from 1 to 16, per channel: int64 sums [..., channels] to float64 [16, channels].

    Errors of several batches add up.
    """
    flat = sums.reshape(-1, sums.shape[-1]).astype(np.int64)
    errors = [np.square((shifted(flat, n) << n) - flat, dtype=np.float64).sum(0) for n in range(1, LARGEST + 1)]
    return np.stack(errors)


def shifted(sums: Array, bits: int) -> Array:
    """`floor(sums / 2^bits)`, saturated to int16, as int64."""
    return np.clip(sums >> bits, _LEAST, _MOST)


def best_shift(errors: Array) -> Array:
    """The shift with the least error per channel, the smallest one on ties: int64 [channels], 1 to 16."""
    return np.argmin(errors, 0) + 1
