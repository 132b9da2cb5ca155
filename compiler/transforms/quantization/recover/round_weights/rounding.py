"""Rounds weights so that the layer's output changes little: one column after the other, each error compensated by the columns
that are not rounded yet (GPTQ).

Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers" (2022). First
adjusting the weights to the inputs of the quantized network: Zhang et al., "Qronos" (2025).

Shapes: weights [G, M, K] for G groups of M output channels; sums of products of inputs [G, K, K]; steps, the lowest and the
highest integer of a weight broadcast to [G, M, 1], or to [G, M, K] if blocks of columns have scales of their own. All float64,
but sums of wide layers, and what is computed from them, are float32.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .....ir.array import Array

DAMPING = 0.01
"""The fraction of its mean added to the diagonal of H, so that weights of rarely active inputs hardly change."""
_BLOCK = 32
"""The number of columns after which their errors are propagated to all remaining columns at once."""
_VANISHING = 1e-30
"""Inputs whose squares sum to less count as always zero: their products underflow in float32, so that H is not one of a product.
"""
_PANEL = 128
"""The number of columns that are factored or solved at once."""
_PART = 512
"""The number of columns whose share of the output's error is computed at once."""


SHRUNK = tuple(1 - i / 50 for i in range(31))
"""Factors on the scales that weights have by their largest number."""
WIDE = 1024
"""Number of columns from which on only every fourth factor is tried, and then the best one's neighbours: `_FINER` away."""
_FINER = (0.04, 0.02)
_VALLEY = 0.15
"""Smaller factors are not tried when one that much larger was the last to help any channel; for blocks, which may gain again
further down, all are tried.
"""
_NEAR = (0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15)
"""Factors on the scales with which nearest rounding has the least error, among which `gptq` has its own."""
_TRIED = 1 << 30
"""The most multiplications for trying factors."""
_SWEEPS = 2
"""Number of times that single weights change after GPTQ; more gain little."""
_LEAST = 1e-9
"""The smallest gain of a change, in units of the error of a whole step."""


class Grid(NamedTuple):
    """The values that weights may have: `scale * integer` for integers in a range."""

    scale: Array
    low: Array
    high: Array
    smallest: Array | float = 0.0
    """The smallest that a scale can be."""
    block: int | None = None
    """The number of columns in a row that share a scale; None if all do."""
    levels: Array | None = None
    """The integers that are allowed, ascending; None for all between `low` and `high`."""

    def integers(self, weights: Array) -> Array:
        """The nearest integers, rounding half to even; then the nearest level, the lower one on ties."""
        return _nearest(weights / self.scale, self.low, self.high, self.levels)

    def nearest(self, weights: Array) -> Array:
        """The nearest numbers of the grid."""
        numbers = self.integers(weights)
        numbers *= self.scale
        return numbers

    def of_channels(self, some: slice) -> Grid:
        """The grid of some output channels."""

        def of(values: Array) -> Array:
            return values[:, some] if values.ndim > 1 else values

        smallest = of(np.asarray(self.smallest))
        return self._replace(scale=of(self.scale), low=of(self.low), high=of(self.high), smallest=smallest)


def at_least(scales: Array, smallest: Array | float) -> Array:
    """The scales with at least these magnitudes, and their signs."""
    return np.copysign(np.maximum(np.abs(scales), smallest), scales)


class Factor(NamedTuple):
    """H with damping, as `U Uᵀ` with U upper triangular: the parts that `matched` and `gptq` need."""

    order: Array
    """The columns by the size of their inputs, largest first: [G, K]."""
    upper: Array
    """U, for columns in this order: [G, K, K]."""
    damping: Array
    """The addend to the diagonal of H: [G, K]."""


def _nearest(steps: Array, low: Array, high: Array, levels: Array | None) -> Array:
    """The nearest integers, in place of `steps`."""
    integers = np.clip(np.rint(steps, out=steps), low, high, out=steps)
    return integers if levels is None else levels[np.searchsorted((levels[:-1] + levels[1:]) / 2, integers)]


def _damping(h: Array) -> Array:
    """The addend to the diagonal; it becomes 1 for inputs that are always zero, so that these have no effect."""
    diagonal = np.einsum("gkk->gk", h).astype(np.float64)
    return DAMPING * diagonal.mean(axis=1, keepdims=True) + np.where(diagonal < _VANISHING, 1.0, 0.0)


def damped(h: Array) -> Array:
    """H with damping."""
    h = h.copy()
    diagonal = np.einsum("gkk->gk", h)
    diagonal += _damping(h)
    return h


def factored(h: Array) -> Factor:
    """The factor of H with damping."""
    order, damping = np.argsort(-np.einsum("gkk->gk", h), axis=1, kind="stable"), _damping(h)
    upper = h[np.arange(len(h))[:, None, None], order[:, :, None], order[:, None, :]]
    diagonal = np.einsum("gkk->gk", upper)
    diagonal += np.take_along_axis(damping, order, 1)
    return Factor(order, _factor(upper), damping)


def _factor(h: Array) -> Array:
    """The upper triangular U with `H = U Uᵀ`, in place of H: numpy's Cholesky needs the memory of two more."""
    for begin in reversed(range(0, h.shape[1], _PANEL)):
        end = begin + _PANEL
        panel = h[:, :end, begin:end]
        panel -= h[:, :end, end:] @ h[:, begin:end, end:].swapaxes(1, 2)
        # that of Cholesky for columns in the opposite order, turned round
        corner = np.linalg.cholesky(panel[:, begin:][:, ::-1, ::-1])[:, ::-1, ::-1]
        panel[:, :begin] = panel[:, :begin] @ np.linalg.inv(corner).swapaxes(1, 2)
        panel[:, begin:] = corner
        h[:, end:, begin:end] = 0
    return h


def matched(weights: Array, c: Array, factor: Factor) -> Array:
    """The weights that give, on inputs of the quantized network, the outputs of the float network, which has `weights`.

    Least squares: H is the sum of `xq xqᵀ`, `c` of `xq yfᵀ`; damped towards `weights`.
    """
    order = factor.order[..., None]
    wanted = (c + factor.damping[..., None] * weights.swapaxes(1, 2)).astype(factor.upper.dtype, copy=False)
    found = np.empty_like(wanted)
    np.put_along_axis(found, order, _solved(factor.upper, np.take_along_axis(wanted, order, 1)), 1)
    return found.swapaxes(1, 2).astype(weights.dtype, copy=False)


def _solved(upper: Array, x: Array) -> Array:
    """Solves `U Uᵀ y = x` for y, in place of x."""
    lower, begins = upper.swapaxes(1, 2), range(0, x.shape[1], _PANEL)
    for begin in reversed(begins):
        end = begin + _PANEL
        rest = x[:, begin:end] - upper[:, begin:end, end:] @ x[:, end:]
        x[:, begin:end] = np.linalg.solve(upper[:, begin:end, begin:end], rest)
    for begin in begins:
        end = begin + _PANEL
        rest = x[:, begin:end] - lower[:, begin:end, :begin] @ x[:, :begin]
        x[:, begin:end] = np.linalg.solve(lower[:, begin:end, begin:end], rest)
    return x


def gptq(weights: Array, factor: Factor, grid: Grid) -> Array:
    """Integers [G, M, K] for which the outputs' squared error is small: columns by the size of their inputs, largest first.

    With `H = U Uᵀ`, U upper triangular, the columns that are rounded, by d, move column j by `(d U)_j / U_jj`. That is GPTQ
    without the inverse of H.
    """
    order, upper, _ = factor
    # each column in one piece of memory: [G, K, M]
    left = np.take_along_axis(np.ascontiguousarray(weights.swapaxes(1, 2), upper.dtype), order[..., None], 1)
    integers, moved = np.empty_like(left), np.empty_like(left)
    scales, lows, highs = (_columns(each.astype(upper.dtype, copy=False), order, left.shape) for each in grid[:3])
    diagonal, count = np.einsum("gkk->gk", upper)[:, None, :], left.shape[1]
    for begin in range(0, count, _BLOCK):
        end = min(begin + _BLOCK, count)
        near = upper[:, :end, begin:end] / diagonal[:, :, begin:end]
        block = left[:, begin:end] + near[:, :begin].swapaxes(1, 2) @ moved[:, :begin]
        for j in range(begin, end):
            scale = scales[:, j]
            q = _nearest(block[:, j - begin] / scale, lows[:, j], highs[:, j], grid.levels)
            integers[:, j], moved[:, j] = q, left[:, j] - q * scale
            block[:, j - begin :] += near[:, j, j - begin :, None] * moved[:, None, j]
    np.put_along_axis(left, order[..., None], integers, 1)
    return np.ascontiguousarray(left.swapaxes(1, 2), weights.dtype)


def _columns(values: Array, order: Array, shape: tuple[int, ...]) -> Array:
    """Parameters of a grid, as broadcast to [G, M, 1] or [G, M, K], for each column in this order: [G, K, M]."""
    values = values.swapaxes(1, 2)
    if values.shape[1] > 1:
        values = np.take_along_axis(values, order[..., None], 1)
    return np.broadcast_to(values, shape)


def output_error(change: Array, h: Array, block: int | None = None) -> Array:
    """The squared error of the outputs caused by a change of the weights: [G, M, 1]. With `block` that of each block of columns
    alone, as if the others did not change: [G, M, blocks].
    """
    size = _PART if block is None else block
    errors: list[Array] = []
    for begin in range(0, change.shape[2], size):
        columns = slice(begin, begin + size)
        slope = change[:, :, columns] @ h[:, columns, columns]
        if block is None:  # H is symmetric: what lies above its diagonal counts twice
            slope += 2 * (change[:, :, :begin] @ h[:, :begin, columns])
        errors.append(np.einsum("gmk,gmk->gm", slope, change[:, :, columns]))
    return np.stack(errors, axis=-1) if block else np.sum(errors, axis=0)[..., None]


def with_least_error(weights: Array, h: Array, grid: Grid, shared: tuple[int, ...]) -> Grid:
    """The grid scaled by the factor with which nearest rounding changes the outputs least, chosen for each output channel of
    each group, and for each block of columns; weights share their scale along the `shared` axes.
    """
    h, columns = h.astype(np.float32, copy=False), weights.shape[2]
    best, factor, scale, smallest = np.inf, np.ones(1), grid.scale, 1.0
    wide = grid.block is None and columns >= WIDE
    for turn, steps in enumerate((SHRUNK[::4], *([-step, step] for step in _FINER)) if wide else (SHRUNK,)):
        begin = factor if turn else 0.0
        for step in steps:
            tried = at_least(grid.scale * (begin + step), grid.smallest).astype(np.float32).astype(np.float64)
            change = (grid._replace(scale=tried).nearest(weights) - weights).astype(np.float32)
            error = output_error(change, h, grid.block).astype(np.float64)
            error = np.broadcast_to(error.sum(shared, keepdims=True), error.shape)
            better = error < best
            if better.any():
                smallest = step
            elif not turn and grid.block is None and step < smallest - _VALLEY:
                break
            best = np.where(better, error, best)
            chosen = better if grid.block is None else np.repeat(better, grid.block, axis=2)[:, :, :columns]
            factor, scale = np.where(chosen, begin + step, factor), np.where(chosen, tried, scale)
    return grid._replace(scale=scale)


def rounded(
    weights: Array, h: Array, factor: Factor, grid: Grid, shared: tuple[int, ...], *, fixed: bool
) -> tuple[Array, Grid]:
    """Integers by `gptq` and changes of single weights, and the grid with the scales that leave the least error unless they are
    fixed, or trying takes long. Wide weights are rounded only once.
    """
    columns = weights.shape[2]
    if columns >= WIDE:
        return gptq(weights, factor, grid), grid
    tries = not fixed and grid.block is None and len(_NEAR) * weights.size * columns <= _TRIED
    found = with_least_error_left(weights, h, factor, grid, shared) if tries else grid
    return descended(weights, damped(h), found, gptq(weights, factor, found), _SWEEPS), found


def with_least_error_left(weights: Array, h: Array, factor: Factor, grid: Grid, shared: tuple[int, ...]) -> Grid:
    """The grid with the scales, near its own, that leave the least error after `gptq`, chosen as in `with_least_error`; not for
    scales of blocks of columns.
    """
    groups, channels = weights.shape[:2]

    def beside(values: Array) -> Array:
        """The values repeated for each factor, as further channels."""
        return np.tile(np.broadcast_to(values, (groups, channels, values.shape[2])), (1, len(_NEAR), 1))

    factors = np.repeat(_NEAR, channels)[None, :, None]
    tried = np.maximum(beside(grid.scale) * factors, beside(np.asarray(grid.smallest) + np.zeros_like(grid.scale)))
    tried = tried.astype(np.float32).astype(np.float64)
    grids = grid._replace(scale=tried, low=beside(grid.low), high=beside(grid.high))
    targets = beside(weights)
    errors = output_error(gptq(targets, factor, grids) * tried - targets, h).reshape(groups, len(_NEAR), channels)
    over = tuple(axis * 2 for axis in shared)
    best = np.broadcast_to(errors.sum(over, keepdims=True), errors.shape).argmin(axis=1)
    return grid._replace(scale=np.take_along_axis(tried.reshape(errors.shape), best[:, None], 1).swapaxes(1, 2))


def descended(weights: Array, h: Array, grid: Grid, integers: Array, sweeps: int) -> Array:
    """The integers after changes of single weights that each lower the error of the outputs, column by column: this many times,
    or until nothing changes.
    """
    scales, lows, highs = (np.broadcast_to(each, weights.shape) for each in grid[:3])
    diagonal = np.einsum("gkk->gk", h)
    integers, slope = integers.copy(), (integers * grid.scale - weights) @ h
    for _ in range(sweeps):
        changed = False
        for j in range(weights.shape[2]):
            now, scale, size = integers[:, :, j], scales[:, :, j], diagonal[:, None, j]
            best = now - np.divide(slope[:, :, j], size * scale, out=np.zeros_like(now), where=size > 0)
            other = _nearest(best, lows[:, :, j], highs[:, :, j], grid.levels)
            change = (other - now) * scale
            gain = -(2 * slope[:, :, j] + change * size) * change
            places = np.nonzero(gain > _LEAST * size * scale * scale)
            if places[0].size:
                changed = True
                integers[(*places, j)] = other[places]
                slope[places] += change[places][:, None] * h[places[0], j]
        if not changed:
            break
    return integers
