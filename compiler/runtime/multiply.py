"""Matrix products with as few BLAS calls as possible."""

from __future__ import annotations

import numpy as np

from .kernels import Array
from .scratch import scratch

KEPT_WEIGHT = 16 << 20
"""A weight of fewer bytes as floats is kept as floats next to its integers. That of ResNet-50's largest layer has 9 MB."""
_COLUMNS = 128
"""Columns of a weight that become floats at once: a matrix of 4,096 rows then stays in the second level's cache."""


def matmul(a: Array, b: Array) -> Array:
    """`np.matmul`; a batch of matrices times one matrix becomes one product."""
    if a.ndim > 2 and b.ndim == 2 and a.shape[-1] == b.shape[0]:
        return np.matmul(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[1])
    return np.matmul(a, b)


def matmul_by_columns(a: Array, b: Array) -> Array:
    """`a @ b` of floats `[..., M, K]` and integers `[K, N]` that are floats of a's type for some columns at a time."""
    rows = a.reshape(-1, a.shape[-1])
    y = np.empty((len(rows), b.shape[1]), a.dtype)
    block = scratch("columns", (len(b), min(_COLUMNS, b.shape[1])), a.dtype)
    for first in range(0, b.shape[1], _COLUMNS):
        columns = b[:, first : first + _COLUMNS]
        floats = block[:, : columns.shape[1]]
        floats[...] = columns
        np.matmul(rows, floats, out=y[:, first : first + _COLUMNS])
    return y.reshape(*a.shape[:-1], -1)
