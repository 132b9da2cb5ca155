"""Working memory that kernels reuse from call to call, one set per thread."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from .kernels import Array

KEPT_BYTES = 64 << 20
"""Largest request served from the kept buffers; a larger one gets memory of its own, so that one huge image does not
pin its buffers for good.
"""

_local = threading.local()


def scratch(name: str, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """An uninitialized array, valid until the same thread requests the same name again. Must not leave the kernel."""
    count = prod(shape)
    nbytes = count * dtype.itemsize
    if nbytes > KEPT_BYTES:
        return np.empty(shape, dtype)
    buffers: dict[str, Array] = _local.__dict__
    buffer = buffers.get(name)
    if buffer is None or buffer.nbytes < nbytes:
        buffer = buffers[name] = np.empty(nbytes, np.uint8)
    return buffer[:nbytes].view(dtype).reshape(shape)
