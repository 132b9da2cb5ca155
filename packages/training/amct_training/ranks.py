"""The rank to which AMCT's tensor decomposition cuts a weight, from its singular values."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.floating[Any]]

_STEP = 16
"""Ranks are multiples of this number of channels, and at least it."""
_WIDE = 256
"""Least number of channels, both in and out, of layers from which less is cut away."""
_GOLDEN = 0.5 * (3 - sqrt(5))
_PRECISION = sqrt(2.2e-16)
_TOLERANCE = 1e-5
_MOST = 500
"""The evaluations after which the search for a minimum ends."""


class _Undefined(Exception):
    """A noise for which the free energy is not a number."""


def rank_of(values: Values, channels: tuple[int, int], kernel: tuple[int, int]) -> int:
    """The rank to keep of a convolution's weight, as a matrix with the smaller number of channels times the smaller side of
    the kernel as rows.

    `values` are the singular values of this matrix, the largest first. The rank lies between a sixth and a seventh of the
    rows, or between a quarter and a fifth if both numbers of channels are at least 256; within these bounds it is the estimate
    of `evident`. The rule is that of AMCT (`TensorDecomposition::EstimateRanks`).
    """
    rows, columns = min(channels) * min(kernel), max(channels) * max(kernel)
    divisor = 4 if min(channels) >= _WIDE else 6
    wanted = max(min(evident(values, columns), rows // divisor), rows // (divisor + 1))
    rank = max(_STEP, (wanted + _STEP // 2) // _STEP * _STEP)
    return min(rank + _STEP if rank < 0.9 * wanted else rank, rows)


def evident(values: Values, columns: int) -> int:
    """The number of singular values above the noise, by empirical variational Bayesian matrix factorization.

    The matrix has as many rows as singular values, and `columns` columns, not fewer. Source: Nakajima, Sugiyama, Babacan and
    Tomioka, "Global analytic solution of fully-observed variational Bayesian matrix factorization", JMLR 14 (2013).
    """
    rows = len(values)
    ratio = rows / columns
    edge = 2.5129 * sqrt(ratio)
    bound = (1 + edge) * (1 + ratio / edge)
    squares = values**2
    last = min(ceil(rows / (1 + ratio)) - 1, rows) - 1
    lowest = max(squares[last + 1] / (columns * bound), squares[last:].mean() / columns)
    highest = squares.sum() / (rows * columns)
    try:
        noise = _minimum(lambda x: _free_energy(squares, x, ratio, columns, bound), lowest, highest)
    except _Undefined:
        noise = (lowest + highest) / 2
    return int(np.count_nonzero(values > sqrt(columns * noise * bound)))


def _free_energy(squares: Values, noise: float, ratio: float, columns: int, bound: float) -> float:
    """The function of the noise's variance that is smallest at the estimate. Raises _Undefined where it is not a number."""
    with np.errstate(all="ignore"):
        x = squares / (columns * noise)
        signal, rest = x[x > bound], x[x <= bound]
        centred = signal - (1 + ratio)
        tau = 0.5 * (centred + np.sqrt(centred**2 - 4 * ratio))
        energy = np.sum(rest - np.log(rest)) + np.sum(signal - tau) + np.sum(np.log((tau + 1) / signal))
        energy += ratio * np.sum(np.log(tau / ratio + 1))
    if not np.isfinite(energy):
        raise _Undefined
    return float(energy)


def _minimum(function: Callable[[float], float], low: float, high: float) -> float:
    """Brent's search for a minimum between two bounds, to an absolute tolerance of 1e-5.

    The noise of small weights is less than the tolerance: the rank depends on the steps of the search, which are those of
    AMCT and of `scipy.optimize.fminbound`. Source: Forsythe, Malcolm and Moler, "Computer Methods for Mathematical
    Computations" (1977), chapter 8.
    """
    if low > high:
        raise _Undefined
    best = second = third = low + _GOLDEN * (high - low)
    at_best = at_second = at_third = function(best)
    step = before = 0.0
    for _ in range(_MOST - 1):
        middle = 0.5 * (low + high)
        least = _PRECISION * abs(best) + _TOLERANCE / 3
        if abs(best - middle) <= 2 * least - 0.5 * (high - low):
            break
        offset = inf  # from the parabola through the three best points
        if abs(before) > least:
            r = (best - second) * (at_best - at_third)
            q = (best - third) * (at_best - at_second)
            p = (best - third) * q - (best - second) * r
            q = 2 * (q - r)
            p, q = (-p if q > 0 else p), abs(q)
            before, step_before = step, before
            if abs(p) < abs(0.5 * q * step_before) and q * (low - best) < p < q * (high - best):
                offset = p / q
                if min(best + offset - low, high - best - offset) < 2 * least:
                    offset = least if middle >= best else -least
        if offset == inf:
            before = (low if best >= middle else high) - best
            offset = _GOLDEN * before
        step = offset
        x = best + max(abs(step), least) * (-1 if step < 0 else 1)
        at = function(x)
        if at <= at_best:
            low, high = (low, best) if x < best else (best, high)
            third, at_third, second, at_second, best, at_best = second, at_second, best, at_best, x, at
            continue
        low, high = (x, high) if x < best else (low, x)
        if at <= at_second or second == best:
            third, at_third, second, at_second = second, at_second, x, at
        elif at <= at_third or third in (best, second):
            third, at_third = x, at
    return best
