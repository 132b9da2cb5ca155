"""Adapts kernels, which are written for channels second, to channels last."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..dialects.nn import LayoutOp
from .kernels import Array

if TYPE_CHECKING:
    from ..dialects.ascend.base import FormatOp


def in_layout(op: LayoutOp | FormatOp, run: Callable[..., Array]) -> Callable[..., Array]:
    """`run`, whose first operand and result are `[N, C, ...]`, for the layout of the operation."""
    if not op.channels_last:
        return run

    def transposed(x: Array, *rest: Array) -> Array:
        return np.moveaxis(run(np.moveaxis(x, -1, 1), *rest), 1, -1)

    return transposed


def per_channel(values: Array, rank: int) -> Array:
    """`[C]` in a shape that broadcasts to `[N, C, ...]` of that rank."""
    return values.reshape(-1, *(1,) * (rank - 2))
