"""Normalizations and softmax: means, variances and sums are computed in float32 or wider."""

from __future__ import annotations

import numpy as np

from ...dialects import nn
from ..layouts import in_layout, per_channel
from ..precision import mean, wide
from . import Array, Kernel, kernel


@kernel(nn.BatchNormOp)
def batch_norm(op: nn.BatchNormOp) -> Kernel:
    """Batch normalization by one factor and one summand per channel."""

    def run(x: Array, *parameters: Array) -> Array:
        factor, summand = (per_channel(each, x.ndim) for each in op.factor_and_summand(*parameters))
        y = x.astype(wide(x.dtype), copy=False) * factor
        return np.add(y, summand, out=y).astype(x.dtype, copy=False)

    return in_layout(op, run)


def _standardized(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    """`(x - mean) / sqrt(variance + epsilon)` over axes, as an array of its own in float32 or float64."""
    x = x.astype(wide(x.dtype), copy=False)
    y = x - mean(x, axes)
    deviation = np.sqrt(mean(np.square(y), axes) + epsilon)
    return np.divide(y, deviation, out=y)


def _scaled(y: Array, scale: Array, bias: Array | None) -> Array:
    np.multiply(y, scale, out=y, casting="same_kind")
    return y if bias is None else np.add(y, bias, out=y, casting="same_kind")


@kernel(nn.InstanceNormOp)
def instance_norm(op: nn.InstanceNormOp) -> Kernel:
    epsilon = op.epsilon.value.data

    def run(x: Array, scale: Array, bias: Array) -> Array:
        y = _standardized(x, tuple(range(2, x.ndim)), epsilon)
        return _scaled(y, per_channel(scale, x.ndim), per_channel(bias, x.ndim)).astype(x.dtype, copy=False)

    return in_layout(op, run)


@kernel(nn.GroupNormOp)
def group_norm(op: nn.GroupNormOp) -> Kernel:
    epsilon, groups = op.epsilon.value.data, op.num_groups.value.data

    def run(x: Array, scale: Array, bias: Array) -> Array:
        y = _standardized(x.reshape(x.shape[0], groups, -1), (2,), epsilon).reshape(x.shape)
        return _scaled(y, per_channel(scale, x.ndim), per_channel(bias, x.ndim)).astype(x.dtype, copy=False)

    return in_layout(op, run)


@kernel(nn.LayerNormOp)
def layer_norm(op: nn.LayerNormOp) -> Kernel:
    epsilon, axis = op.epsilon.value.data, op.axis.value.data

    def run(x: Array, scale: Array, bias: Array | None = None) -> Array:
        y = _standardized(x, tuple(range(axis % x.ndim, x.ndim)), epsilon)
        return _scaled(y, scale, bias).astype(x.dtype, copy=False)

    return run


@kernel(nn.LRNOp)
def lrn(op: nn.LRNOp) -> Kernel:
    size, alpha = op.size.value.data, op.alpha.value.data
    beta, bias = op.beta.value.data, op.bias.value.data
    before = (size - 1) // 2

    def run(x: Array) -> Array:
        channels = x.shape[1]
        wider = x.astype(wide(x.dtype), copy=False)
        squares = np.square(wider)
        sums = squares.copy()
        for shift in (s for s in range(-before, size - before) if s and abs(s) < channels):
            # result channel c includes channel c + shift
            to, taken = slice(max(-shift, 0), channels - max(shift, 0)), slice(max(shift, 0), channels + min(shift, 0))
            sums[:, to] += squares[:, taken]
        np.multiply(sums, alpha / size, out=sums)
        np.add(sums, bias, out=sums)
        return (wider / np.power(sums, beta, out=sums)).astype(x.dtype, copy=False)

    return in_layout(op, run)


def _softmax(x: Array, axis: int) -> Array:
    np.exp(x, out=x)
    return np.divide(x, x.sum(axis=axis, keepdims=True), out=x)


def _log_softmax(x: Array, axis: int) -> Array:
    return np.subtract(x, np.log(np.exp(x).sum(axis=axis, keepdims=True)), out=x)


_SHIFTED = {nn.SoftmaxOp: _softmax, nn.LogSoftmaxOp: _log_softmax}
"""Functions of the differences to the largest element, which they may overwrite, along an axis."""


@kernel(*_SHIFTED)
def shifted(op: nn.SoftmaxOp | nn.LogSoftmaxOp) -> Kernel:
    """In float32 or float64."""
    axis, function = op.axis.value.data, _SHIFTED[type(op)]

    def run(x: Array) -> Array:
        if x.size == 0:
            return x
        wider = x.astype(wide(x.dtype), copy=False)
        return function(wider - wider.max(axis=axis, keepdims=True), axis).astype(x.dtype, copy=False)

    return run
