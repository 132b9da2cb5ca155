"""Rounds weights so that the layer's output changes little: one column after the other, each error compensated by the columns
that are not rounded yet (GPTQ).

Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers" (2022). First
adjusting the weights to the inputs of the quantized network: Zhang et al., "Qronos" (2025).

Shapes: weights [G, M, K] for G groups of M output channels; sums of products of inputs [G, K, K]; steps, the lowest and the
highest integer of a weight broadcast to [G, M, 1], or to [G, M, K] if blocks of columns have scales of their own. All float64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .layer_data import Sums

Array = np.ndarray[Any, np.dtype[Any]]

DAMPING = 0.01
"""The fraction of its mean added to the diagonal of H, so that weights of rarely active inputs hardly change."""
_BLOCK = 128
"""The number of columns after which their errors are propagated to all remaining columns at once."""


SHRUNK = np.linspace(1.0, 0.4, 31)
"""Factors on the scales that weights have by their largest number."""


class Grid(NamedTuple):
    """The values that weights may have: `scale * integer` for integers in a range."""

    scale: Array
    low: Array
    high: Array
    smallest: Array | float = 0.0
    """The smallest that a scale can be."""
    block: int | None = None
    """The number of columns in a row that share a scale; None if all do."""

    def integers(self, weights: Array) -> Array:
        """The nearest integers, rounding half to even."""
        return np.clip(np.rint(weights / self.scale), self.low, self.high)

    def nearest(self, weights: Array) -> Array:
        """The nearest numbers of the grid."""
        return self.integers(weights) * self.scale


def damped(h: Array) -> Array:
    """H with damping; the diagonal is 1 for inputs that are always zero, so that these have no effect."""
    diagonal = np.einsum("gkk->gk", h)
    extra = DAMPING * diagonal.mean(axis=1, keepdims=True) + np.where(diagonal == 0, 1.0, 0.0)
    return h + extra[..., None] * np.eye(h.shape[-1])


def matched(weights: Array, sums: Sums) -> Array:
    """The weights that give, on inputs of the quantized network, what `weights` give on those of the float network.

    Least squares: H is the sum of `xq xqᵀ`, C of `xq xfᵀ`; damped towards `weights`.
    """
    h = damped(sums.h)
    c = sums.c + (h - sums.h)
    return np.linalg.solve(h, c @ weights.swapaxes(1, 2)).swapaxes(1, 2)


def gptq(weights: Array, h: Array, grid: Grid) -> Array:
    """Integers [G, M, K] for which the outputs' squared error is small: columns by the size of their inputs, largest first."""
    h = damped(h)
    order = np.argsort(-np.einsum("gkk->gk", h), axis=1, kind="stable")
    back = np.argsort(order, axis=1)[:, None, :]
    h = np.take_along_axis(np.take_along_axis(h, order[:, :, None], 1), order[:, None, :], 2)
    upper = _inverse_factor(h)
    left = np.take_along_axis(weights, order[:, None, :], 2)
    integers = np.empty_like(left)
    scales, lows, highs = (_columns(each, order, left.shape) for each in grid[:3])
    count = left.shape[2]
    for begin in range(0, count, _BLOCK):
        end = min(begin + _BLOCK, count)
        errors = np.empty_like(left[:, :, begin:end])
        for j in range(begin, end):
            column, scale = left[:, :, j], scales[:, :, j]
            q = np.clip(np.rint(column / scale), lows[:, :, j], highs[:, :, j])
            error = (column - q * scale) / upper[:, j, j, None]
            left[:, :, j:end] -= error[:, :, None] * upper[:, None, j, j:end]
            integers[:, :, j], errors[:, :, j - begin] = q, error
        left[:, :, end:] -= errors @ upper[:, begin:end, end:]
    return np.take_along_axis(integers, back, 2)


def _columns(values: Array, order: Array, shape: tuple[int, ...]) -> Array:
    """Parameters of a grid, as broadcast to [G, M, 1] or [G, M, K], for each column in this order: [G, M, K]."""
    if values.shape[-1] > 1:
        values = np.take_along_axis(values, order[:, None, :], 2)
    return np.broadcast_to(values, shape)


def _inverse_factor(h: Array) -> Array:
    """The upper triangular U with `UᵀU = H⁻¹`: from the Cholesky factor of H turned round, without forming the inverse."""
    turned = np.linalg.cholesky(h[:, ::-1, ::-1])[:, ::-1, ::-1]
    return np.linalg.inv(turned)


def output_error(change: Array, h: Array, block: int | None = None) -> Array:
    """The squared error of the outputs caused by a change of the weights: [G, M, 1]. With `block` that of each block of columns
    alone, as if the others did not change: [G, M, blocks].
    """
    count = change.shape[2]
    size = count if block is None else block
    parts = [slice(begin, begin + size) for begin in range(0, count, size)]
    errors = [np.einsum("gmk,gmk->gm", change[:, :, p] @ h[:, p, p], change[:, :, p]) for p in parts]
    return np.stack(errors, axis=-1)


def with_least_error(weights: Array, h: Array, grid: Grid, shared: tuple[int, ...]) -> Grid:
    """The grid scaled by the factor (of `SHRUNK`) with which nearest rounding changes the outputs least, chosen for each output
    channel of each group, and for each block of columns; weights share their scale along the `shared` axes.
    """
    best, scale = np.inf, grid.scale
    for factor in SHRUNK:
        tried = grid._replace(
            scale=np.maximum(grid.scale * factor, grid.smallest).astype(np.float32).astype(np.float64)
        )
        error = output_error(tried.nearest(weights) - weights, h, grid.block)
        error = np.broadcast_to(error.sum(shared, keepdims=True), error.shape)
        better = error < best
        best = np.where(better, error, best)
        chosen = better if grid.block is None else np.repeat(better, grid.block, axis=2)[:, :, : weights.shape[2]]
        scale = np.where(chosen, tried.scale, scale)
    return grid._replace(scale=scale)
