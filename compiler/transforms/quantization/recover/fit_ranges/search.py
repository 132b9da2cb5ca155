"""The search of a range: both ends of the observer's, multiplied by factors."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

Range = tuple[float, float]
Exponents = tuple[float, float]
"""Powers of two that the ends of a range are multiplied by."""

_COARSE = tuple(-i / 2 for i in range(-1, 11))
"""Exponents of the ranges tried first: from 1.4 times the range to 1/32."""
_STEPS = (1 / 4, 1 / 8, 1 / 16, 1 / 32)
"""The steps by which ends move; the last changes an end by 2 %."""
_TOGETHER = (1, 1), (-1, -1)
_APART = *_TOGETHER, (1, 0), (-1, 0), (0, 1), (0, -1)


def least_error(error: Callable[[Range], float], given: Range, *, together: bool) -> Range:
    """The range of least error among those around the given one, or the given one if no other has less.

    First both ends shrink together, in large steps. From the best of these each end, and both, move by ever smaller steps as long
    as the error falls. `together` if only both may.
    """
    low, high = given

    def scaled(by: Exponents) -> Range:
        return low * 2 ** by[0], high * 2 ** by[1]

    @cache
    def at(by: Exponents) -> float:
        return error(scaled(by))

    best = min([(0.0, 0.0), *((e, e) for e in _COARSE if e)], key=at)
    for step in _STEPS:
        best = _descended(at, best, step, _TOGETHER if together else _APART)
    return scaled(best)


def _descended(
    at: Callable[[Exponents], float], best: Exponents, step: float, moves: tuple[tuple[int, int], ...]
) -> Exponents:
    """The place from which no move of a step lowers the error."""
    while True:
        around = [(best[0] + step * low, best[1] + step * high) for low, high in moves]
        found = min(around, key=at)
        if not at(found) < at(best):
            return best
        best = found
