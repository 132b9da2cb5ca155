"""OCTAV: the range of least squared error by an iteration in closed form (Sakr et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .mse import MseObserver
from .observer import Array

_MOST_STEPS = 100
_SETTLED = 1e-6
"""Relative change of a threshold at which the iteration ends."""


@dataclass
class OctavObserver(MseObserver):
    """Moves each threshold to where clipping costs as much as rounding gains, until it settles.

    A threshold c becomes `sum(x, x >= c) / (k * n_inside + n_beyond)`, with k = 4^-bits / 3 for one threshold of magnitudes
    and 4^-bits / 12 per side of an asymmetric range. Zeros are exact in every range and do not count. Against `mse`, which
    measures the error of candidates, rounding is modelled as noise that is spread evenly over a step.
    """

    def finish(self) -> tuple[float, float]:
        histogram = self.counted()
        low, high = min(histogram.low, 0.0), max(histogram.high, 0.0)
        counted = (histogram.counts > 0) & (np.abs(histogram.centres) > histogram.width)
        values, counts = histogram.centres[counted], histogram.counts[counted].astype(np.float64)
        if not values.size:
            return low, high
        if self.symmetric:
            threshold = _settled(np.abs(values), counts, 0.0, 4.0**-self.bits / 3, max(-low, high))
            return max(low, -threshold), min(high, threshold)
        noise = 4.0**-self.bits / 12
        begin, end = low, high
        for _ in range(_MOST_STEPS):
            before = begin, end
            inside = values >= begin
            end = _settled(values[inside], counts[inside], begin, noise, high)
            inside = values <= end
            begin = 0.0 - _settled(-values[inside], counts[inside], -end, noise, -low)
            if max(abs(begin - before[0]), abs(end - before[1])) <= _SETTLED * (end - begin):
                break
        return begin, end


def _settled(values: Array, counts: Array, other: float, noise: float, most: float) -> float:
    """The upper threshold of a range whose lower end is `other`, at most `most`; 0 if no value is positive."""
    if most <= 0.0:
        return 0.0
    threshold = most / 2
    for _ in range(_MOST_STEPS):
        beyond = values >= threshold  # never empty: the mean of what is beyond lies at or below the largest
        clipped = float(counts[beyond].sum())
        within = noise * float(counts[~beyond].sum())
        if not clipped + within:
            return most
        moved = (float(values[beyond] @ counts[beyond]) + other * within) / (clipped + within)
        if abs(moved - threshold) <= _SETTLED * most:
            break
        threshold = moved
    return min(max(threshold, 0.0), most)
