"""Non-uniform weights: int8 values restricted to a few levels, so that lossless compression of weights shrinks them more.

AMCT does not publish its search, whose time grows with its `num_of_iteration`. Ours does not iterate: the values of one level
are neighbours on a line, so dynamic programming over the 256 values finds the best levels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_LEAST, _MOST = -128, 127
_VALUES = np.arange(_LEAST, _MOST + 1)


def levels_of(weights: Array, steps: int) -> Array:
    """The int8 levels of least squared error, ascending: `steps`, or as many as there are distinct values where these are fewer.

    `weights` are int8 of any shape.
    """
    counts = np.bincount(weights.reshape(-1).astype(np.int64) - _LEAST, minlength=_VALUES.size)
    values, counts = _VALUES[counts > 0], counts[counts > 0]
    if values.size <= steps:
        return values.astype(np.int8)
    centres, costs = _runs(values, counts)
    best = costs[0]
    """The least cost of the values up to each one, with the levels used so far."""
    begins: list[Array] = []
    for _ in range(steps - 1):
        totals = best[:-1, None] + costs[1:, 1:]
        begins.append(np.argmin(totals, 0))
        best = np.append(np.inf, totals.min(0))
    levels: list[int] = []
    end = values.size - 1
    for begin in reversed(begins):
        first = int(begin[end - 1]) + 1
        levels.append(int(centres[first, end]))
        end = first - 1
    return np.array([int(centres[0, end]), *reversed(levels)], np.int8)


def _runs(values: Array, counts: Array) -> tuple[Array, Array]:
    """For the values from the i-th to the j-th, the whole number nearest to their mean, and their squared distance to it."""
    mass, first, second = (np.append(0, np.cumsum(counts * values**power)) for power in (0, 1, 2))
    m, f, s = (np.subtract.outer(sums[1:], sums[:-1]).T for sums in (mass, first, second))
    inside = np.triu(np.ones(m.shape, bool))
    centres = np.rint(f / np.where(inside, m, 1)).astype(np.int64)
    return centres, np.where(inside, s - 2 * centres * f + centres**2 * m, np.inf)


def nearest(weights: Array, levels: Array) -> Array:
    """Each int8 weight replaced by the nearest of the ascending levels; the lower one on ties."""
    wide = levels.astype(np.int64)
    place = np.searchsorted(wide[:-1] + wide[1:], 2 * _VALUES)
    return levels[place[weights.astype(np.int64) - _LEAST]]
