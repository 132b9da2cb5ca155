"""Rounds each weight up or down so that the layer's output changes little: found by gradient, which needs only the sums
of inputs.

Nagel et al., "Up or Down? Adaptive Rounding for Post-Training Quantization" (2020); AMCT's ADA. Shapes as in `rounding`.
"""

from __future__ import annotations

import numpy as np

from .....configuration.settings import Ada
from .....ir.array import Array
from .rounding import Grid, descended

ITERATIONS = 500
"""The most steps: each has all of the data, and more change nothing. AMCT takes 10000 over batches."""
_RATE = 0.02
_UNITS = 1000
_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-8
"""Adam's."""
_SWEEPS = 10
_STRETCH = 1.2
"""The sigmoid is stretched to [-0.1, 1.1] and cut to [0, 1], so that it reaches both ends."""


DEFAULT = Ada()


def adaround(weights: Array, h: Array, grid: Grid, options: Ada = DEFAULT) -> Array:
    """Integers [G, M, K], each one of the two nearest to the weight.

    The loss is in units of a thousandth of its mean per weight at nearest rounding, so that the other term weighs the same in all
    layers. In the end single weights are turned round as long as that lowers the error.
    """
    low = np.floor(weights / grid.scale)
    part = (weights / grid.scale - low).astype(np.float32)
    error = grid.nearest(weights) - weights
    unit = float(np.einsum("gmk,gmk->", error @ h, error)) / weights.size
    if not unit:
        return grid.integers(weights)
    power = 2.0 ** np.floor(np.log2(np.abs(grid.scale).max()))  # steps near 1, so that no product leaves float32
    scale = (grid.scale / power).astype(np.float32)
    slope = (2 * _UNITS * h / (unit / power**2)).astype(np.float32)
    begin = np.clip((part + 0.1) / _STRETCH, 1e-3, 1 - 1e-3)
    v = np.log(begin / (1 - begin))
    first, second = np.zeros_like(v), np.zeros_like(v)
    up = part
    steps, last = min(options.num_iteration, ITERATIONS), options.beta_range_end
    for step in range(1, steps + 1):
        sigmoid = 1 / (1 + np.exp(-v))
        up = np.clip(_STRETCH * sigmoid - 0.1, 0, 1)
        towards = ((up - part) * scale) @ slope * scale
        progress = (step / steps - options.warm_start) / (1 - options.warm_start)
        if progress > 0:
            beta = last + (options.beta_range_start - last) * 0.5 * (1 + np.cos(np.pi * progress))
            far = 2 * up - 1
            towards -= options.reg_param * 2 * beta * np.sign(far) * np.abs(far) ** (beta - 1)
        gradient = towards * _STRETCH * sigmoid * (1 - sigmoid) * ((up > 0) & (up < 1))
        first += (1 - _FIRST) * (gradient - first)
        second += (1 - _SECOND) * (gradient * gradient - second)
        v -= _RATE * (first / (1 - _FIRST**step)) / (np.sqrt(second / (1 - _SECOND**step)) + _TINY)
    least = np.clip(low, grid.low, grid.high)
    turning = grid._replace(low=least, high=np.clip(low + 1, grid.low, grid.high))
    return descended(weights, h, turning, np.clip(low + (up >= 0.5), turning.low, turning.high), _SWEEPS)
