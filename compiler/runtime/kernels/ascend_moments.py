"""Kernels of normalizations that also return mean and variance of their input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from ...dialects import ascend
from ...dialects.nn.shapes import shape_of
from ..precision import mean, wide
from . import Array, Kernel, bare_kernel_for


def normalization(op: ascend.MomentsOp) -> Callable[..., Array]:
    """Only the first result of an operation, by an `nn` kernel."""
    return cast(Callable[..., Array], bare_kernel_for(op.normalization()))


def _with_moments(op: ascend.MomentsOp, group: Callable[[Array], Array], axes: Sequence[int]) -> Kernel:
    """y, and the moments of the grouped x along axes, in the shapes of their results."""
    normalized, keepdims = normalization(op), not isinstance(op, ascend.GroupNormOp)

    def run(x: Array, gamma: Array, beta: Array) -> Sequence[Array]:
        grouped = group(x).astype(wide(x.dtype), copy=False)
        mu = mean(grouped, tuple(axes))
        variance = mean(np.square(grouped - mu), tuple(axes))
        moments = [m if keepdims else m.squeeze(tuple(axes)) for m in (mu, variance)]
        return normalized(x, gamma, beta), *(m.astype(x.dtype, copy=False) for m in moments)

    return run


def _layer_norm(op: ascend.LayerNormOp) -> Kernel:
    return _with_moments(op, lambda x: x, range(op.first_axis, len(shape_of(op.x))))


def _instance_norm(op: ascend.InstanceNormOp) -> Kernel:
    return _with_moments(op, lambda x: x, op.space)


def _group_norm(op: ascend.GroupNormOp) -> Kernel:
    groups = op.num_groups.value.data

    def grouped(x: Array) -> Array:
        first = np.moveaxis(x, -1, 1) if op.channels_last else x
        return first.reshape(x.shape[0], groups, -1)

    return _with_moments(op, grouped, (2,))


MOMENTS_KERNELS: dict[type[ascend.AscendOp], Callable[[Any], Kernel]] = {
    ascend.LayerNormOp: _layer_norm,
    ascend.InstanceNormOp: _instance_norm,
    ascend.GroupNormOp: _group_norm,
}
