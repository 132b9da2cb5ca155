"""The clipping threshold that loses least information (Kullback-Leibler divergence, as in PPQ)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .histogram import HistogramObserver
from .observer import Array

_NEAR_ZERO = 0.002
"""The share of bins, from zero on, that is ignored: zeros after a ReLU do not show the shape of the distribution."""
_TINY = 1e-30


@dataclass
class EntropyObserver(HistogramObserver):
    """Over thresholds of L, 2L, ... bins of absolute values, L being the number of positive steps: the least divergence between
    the clipped distribution and its quantized form. The first of equal ones wins.
    """

    def take(self, array: Array, low: float, high: float) -> None:
        super().take(array, min(low, 0.0), max(high, 0.0))  # magnitudes are counted from 0 on

    def finish(self) -> tuple[float, float]:
        """A symmetric range, cut at 0 if no value is negative, or none is positive."""
        histogram = self.counted()
        levels = 2 ** (self.bits - 1)
        bins = best_threshold(histogram.magnitudes(), levels)
        threshold = min(bins * histogram.width, max(-histogram.low, histogram.high))
        return max(-threshold, min(histogram.low, 0.0)), min(threshold, max(histogram.high, 0.0))


def best_threshold(counts: Array, levels: int) -> int:
    """The number of bins to keep: the multiple of `levels` of least divergence; all if there are at most `levels`.

    `counts` are of absolute values, from zero on.
    """
    if counts.size <= levels:
        return counts.size
    size = -(-counts.size // levels) * levels
    counts = np.pad(counts, (0, size - counts.size)).astype(np.float64)
    ignored = int(size * _NEAR_ZERO)
    counts[:ignored] = 0
    counts[ignored] = max(counts[ignored], 1)
    candidates = range(levels, size + 1, levels)
    divergences = [divergence(counts, n, levels) for n in candidates]
    return candidates[int(np.argmin(divergences))]


def divergence(counts: Array, kept: int, levels: int) -> float:
    """The divergence between the first `kept` bins, with all mass beyond in the last one, and their form in `levels` steps."""
    reference = counts[:kept].copy()
    groups = reference.reshape(levels, -1)
    filled = groups > 0
    spread = groups.sum(1) / np.maximum(filled.sum(1), 1)
    quantized = np.where(filled, spread[:, None], 0).reshape(-1)
    reference[-1] += counts[kept:].sum()
    p, q = reference / counts.sum(), quantized / max(quantized.sum(), _TINY)
    return float(np.sum(p * (np.log10(p + _TINY) - np.log10(q + _TINY))))
