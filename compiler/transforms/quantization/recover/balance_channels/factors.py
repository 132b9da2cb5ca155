"""DMQ moves quantization difficulty from activations to weights, with a factor per channel that cancels out (AMCT)."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

SMALLEST = 1.1920929e-07
"""float32's epsilon. Factors lie between it and its reciprocal, and peaks below that share of the largest one count as zero.
AMCT, which takes no share, balances no channel of small weights.
"""


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
