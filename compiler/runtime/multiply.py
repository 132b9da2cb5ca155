"""Matrix products with as few BLAS calls as possible."""

from __future__ import annotations

import numpy as np

from .kernels import Array


def matmul(a: Array, b: Array) -> Array:
    """`np.matmul`; a batch of matrices times one matrix becomes one product."""
    if a.ndim > 2 and b.ndim == 2 and a.shape[-1] == b.shape[0]:
        return np.matmul(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[1])
    return np.matmul(a, b)
