"""Input channels of a layer: their axes in the activation and the weight, and the factors that balance the two."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....dialects.nn import ConvolutionOp, ConvTransposeOp, MatMulOp
from .....dialects.nn.shapes import shape_of

Array = np.ndarray[Any, np.dtype[Any]]

SMALLEST = 1.1920929e-07
"""float32's epsilon. Factors lie between it and its reciprocal, and peaks below that share of the largest one count as zero.
AMCT, which takes no share, balances no channel of small weights.
"""

Weighted = ConvolutionOp | MatMulOp
"""The layers that have a weight: operand 1."""


def activation_axis(op: Weighted) -> int:
    """The input channel axis of operand 0; for a matrix product, the contracted axis."""
    rank = len(shape_of(op.operands[0]))
    if isinstance(op, MatMulOp):
        return rank - (1 if op.transpose_a is None else 2)
    return op.channel_axis(rank)


def weight_channels(op: Weighted) -> Array:
    """The input channel that each element of the weight multiplies: int64, in a shape that broadcasts to the weight's.

    Channels of group g follow those of group g-1. The weight's sizes must be known.
    """
    shape = shape_of(op.operands[1])
    if isinstance(op, MatMulOp):
        axis = _contracted(op)
        return np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    ones = (1,) * (len(shape) - 2)
    if isinstance(op, ConvTransposeOp):
        return np.arange(shape[0]).reshape(-1, 1, *ones)
    outputs, per_group = shape[:2]
    group = np.arange(outputs) // (outputs // op.group_count)
    return (group[:, None] * per_group + np.arange(per_group)).reshape(outputs, per_group, *ones)


def _contracted(op: MatMulOp) -> int:
    """The axis of the right operand that is summed over."""
    rank = len(shape_of(op.rhs))
    if rank == 1:
        return 0
    return rank - (2 if op.transpose_b is None else 1)


def weight_peaks(op: Weighted, weight: Array) -> Array:
    """The largest magnitude of the weight's numbers per input channel: float64 [channels]."""
    channels = weight_channels(op)
    others = tuple(i for i, size in enumerate(channels.shape) if size == 1)
    largest = np.abs(weight.astype(np.float64)).max(axis=others, keepdims=True, initial=0.0)
    peaks = np.zeros(int(channels.max(initial=-1)) + 1)
    np.maximum.at(peaks, np.broadcast_to(channels, largest.shape), largest)
    return peaks


def activation_peaks(activation: Array, axis: int) -> Array:
    """The largest magnitude per channel: float64 [channels]. Raises ValueError for NaN and Inf."""
    others = tuple(i for i in range(activation.ndim) if i != axis)
    peaks = np.abs(activation).max(axis=others, initial=0).astype(np.float64)
    if not np.isfinite(peaks).all():
        raise ValueError("values hold NaN or Inf")
    return peaks


def balance_factors(activations: Array, weights: Array, strength: float = 0.5) -> Array:
    """The factors by which input channels of an activation are divided and those of the weight are multiplied: float32
    [channels].

    `activations` and `weights` are the largest magnitudes per input channel. `f = a^strength / w^(1 - strength)`; if one of
    the two is zero, f brings the other's peak to the largest of the balanced ones; if both are, it is 1. Powers are rounded to
    float32, and the rest is computed in it (AMCT).
    """
    a, w = activations.astype(np.float32), weights.astype(np.float32)
    no_a, no_w = (peaks <= SMALLEST * min(1.0, peaks.max(initial=0.0)) for peaks in (a, w))
    both = ~no_a & ~no_w
    factors = np.ones_like(a)
    spread = (a[both].astype(np.float64) ** strength).astype(np.float32)
    factors[both] = spread / (w[both].astype(np.float64) ** (1 - strength)).astype(np.float32)
    if both.any():
        only_w, only_a = no_a & ~no_w, ~no_a & no_w
        factors[only_w] = np.max(w[both] * factors[both]) / w[only_w]
        factors[only_a] = a[only_a] / np.max(a[both] / factors[both])
    return np.clip(factors, np.float32(SMALLEST), np.float32(1 / SMALLEST))
