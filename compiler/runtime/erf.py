"""The error function, which numpy lacks."""

from __future__ import annotations

from collections.abc import Sequence
from math import erf as exact
from typing import Any

import numpy as np

from .kernels import Array

# erf(x) / x as a quotient of polynomials in x^2, fitted on |x| <= LIMIT for the least relative error (1.8e-9).
_LIMIT = 3.92
"""The number from which on erf differs from 1 by less than half the spacing of float32."""
_NUMERATOR = (
    1.12837916914515,
    0.1851352883149828,
    0.05424399671202507,
    0.0038386241348117604,
    0.00037675950818991875,
    4.609248636160653e-06,
    -1.2799873190777464e-08,
)
_DENOMINATOR = (
    1.0,
    0.49740528363383135,
    0.1138737718040644,
    0.015430053061473869,
    0.0013015259284256137,
    6.239931521822939e-05,
)

_BLOCK = 1 << 13
"""Elements at a time: three float64 arrays of this length stay in the second-level cache."""

_exact: Any = np.frompyfunc(exact, 1, 1)


def erf(x: Array) -> Array:
    """The error function of a float32 array, within 0.54 units in the last place; of float64 one element at a time."""
    if x.dtype == np.float64:
        return np.asarray(_exact(x), np.float64)
    y = np.empty(x.shape, x.dtype)
    source, target = x.reshape(-1), y.reshape(-1)
    for begin in range(0, source.size, _BLOCK):
        target[begin : begin + _BLOCK] = _rational(source[begin : begin + _BLOCK].astype(np.float64))
    return y


def _rational(x: Array) -> Array:
    np.clip(x, -_LIMIT, _LIMIT, out=x)
    square = x * x
    np.multiply(x, _polynomial(square, _NUMERATOR), out=x)
    return np.divide(x, _polynomial(square, _DENOMINATOR), out=x)


def _polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    y = x * coefficients[-1]
    for c in coefficients[-2:0:-1]:
        np.add(y, c, out=y)
        np.multiply(y, x, out=y)
    return np.add(y, coefficients[0], out=y)
