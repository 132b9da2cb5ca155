"""Operations on single elements.

Functions of float16 and bfloat16 are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import pi, sqrt
from typing import Any

import numpy as np

from ...dialects import nn
from ...dialects.nn.attributes import Predicate
from ...ir.dtypes import numpy_dtype
from ..erf import erf
from ..precision import wide
from . import Array, Kernel, kernel

Function = Callable[[Array], Array]
"""A function of a float32 or float64 array of rank 1 or more, which it must not write to."""


def _widened(function: Function) -> Function:
    """`function` for every float type: narrow ones are computed in float32. numpy makes numbers of arrays of rank 0."""

    def run(x: Array) -> Array:
        y = function(np.atleast_1d(x).astype(wide(x.dtype), copy=False))
        return y.astype(x.dtype, copy=False).reshape(x.shape)

    return run


def _sigmoid(x: Array) -> Array:
    y = np.exp(-x)
    np.add(y, 1, out=y)
    return np.reciprocal(y, out=y)


def _softplus(x: Array) -> Array:
    y = np.log1p(np.exp(-np.abs(x)))
    return np.add(y, np.maximum(x, 0), out=y)


def _hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    y = x * alpha
    np.add(y, beta, out=y)
    return np.clip(y, 0, 1, out=y)


def _gelu(x: Array) -> Array:
    y = erf(x * (1 / sqrt(2)))
    np.add(y, 1, out=y)
    np.multiply(y, x, out=y)
    return np.multiply(y, 0.5, out=y)


def _gelu_tanh(x: Array) -> Array:
    y = np.square(x)
    np.multiply(y, 0.044715, out=y)
    np.add(y, 1, out=y)
    np.multiply(y, x, out=y)
    np.tanh(np.multiply(y, sqrt(2 / pi), out=y), out=y)
    np.add(y, 1, out=y)
    np.multiply(y, x, out=y)
    return np.multiply(y, 0.5, out=y)


def _elu(x: Array, alpha: float) -> Array:
    negative = np.expm1(np.minimum(x, 0))
    np.multiply(negative, alpha, out=negative)
    np.copyto(negative, x, where=x > 0)
    return negative


def _leaky_relu(x: Array, alpha: Array | float) -> Array:
    return np.where(x < 0, x * alpha, x)


def _quotient(lhs: Array, rhs: Array) -> Array:
    if lhs.dtype.kind not in "iu":
        return np.divide(lhs, rhs)
    if not np.all(rhs):
        raise ValueError("integer division by zero")
    quotient = lhs // rhs
    # numpy rounds down: one too low if the signs differ and there is a remainder
    quotient += ((lhs % rhs != 0) & ((lhs < 0) != (rhs < 0))).astype(quotient.dtype)
    return quotient


_POWERS: dict[float, Function] = {2.0: np.square, 3.0: lambda x: x * x * x}
"""Exponents that need one or two products instead of a logarithm."""


def _power(lhs: Array, rhs: Array) -> Array:
    if lhs.dtype.kind in "iu":
        return _integer_power(lhs, rhs)
    if rhs.size == 1 and rhs.ndim <= lhs.ndim and (function := _POWERS.get(float(rhs.reshape(())))):
        return _widened(function)(lhs)
    dtype = wide(lhs.dtype)
    return np.power(lhs.astype(dtype, copy=False), rhs.astype(dtype, copy=False)).astype(lhs.dtype, copy=False)


def _integer_power(lhs: Array, rhs: Array) -> Array:
    """Powers of integers: exact for non-negative integer exponents, otherwise rounded towards zero."""
    if rhs.dtype.kind in "iu" and not np.any(rhs < 0):
        return np.power(lhs, rhs.astype(lhs.dtype))
    return np.power(lhs.astype(np.float64), rhs.astype(np.float64)).astype(lhs.dtype)


_PLAIN: dict[type[nn.UnaryOp], Function] = {
    nn.SigmoidOp: _sigmoid,
    nn.TanhOp: np.tanh,
    nn.SoftplusOp: _softplus,
    nn.ErfOp: erf,
    nn.ExpOp: np.exp,
    nn.SinOp: np.sin,
    nn.CosOp: np.cos,
    nn.LogOp: np.log,
    nn.SqrtOp: np.sqrt,
    nn.ReciprocalOp: np.reciprocal,
    nn.FloorOp: np.floor,
    nn.CeilOp: np.ceil,
    nn.RoundOp: np.rint,
}
"""Float functions without parameters."""

_ANY_TYPE: dict[type[nn.NNOp], Callable[..., Array]] = {
    nn.NegOp: np.negative,
    nn.AbsOp: np.abs,
    nn.NotOp: np.logical_not,
    nn.AddOp: np.add,
    nn.SubOp: np.subtract,
    nn.MulOp: np.multiply,
    nn.MinOp: np.minimum,
    nn.MaxOp: np.maximum,
    nn.AndOp: np.logical_and,
    nn.OrOp: np.logical_or,
    nn.WhereOp: np.where,
    nn.PReluOp: _leaky_relu,
    nn.DivOp: _quotient,
    nn.PowOp: _power,
}
"""Functions for every type."""


@kernel(*_PLAIN)
def plain(op: nn.UnaryOp) -> Kernel:
    return _widened(_PLAIN[type(op)])


@kernel(*_ANY_TYPE)
def any_type(op: nn.NNOp) -> Kernel:
    return _ANY_TYPE[type(op)]


def _clipped(low: float, high: float) -> Callable[[Array], Array]:
    """`min(max(x, low), high)` in the type of x; NaN stays NaN. np.clip is several times faster than np.maximum."""
    floats = _widened(lambda x: np.clip(x, x.dtype.type(low), x.dtype.type(high)))
    return lambda x: np.clip(x, *_bounds(low, high, x.dtype)) if x.dtype.kind in "iu" else floats(x)


def _bounds(low: float, high: float, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Converts to the nearest values of an integer type."""
    info = np.iinfo(dtype)
    return dtype.type(min(max(low, info.min), info.max)), dtype.type(min(max(high, info.min), info.max))


_COMPARISONS: dict[Predicate, Callable[[Array, Array], Array]] = {
    Predicate.EQ: np.equal,
    Predicate.NE: np.not_equal,
    Predicate.LT: np.less,
    Predicate.LE: np.less_equal,
    Predicate.GT: np.greater,
    Predicate.GE: np.greater_equal,
}


_MADE: dict[type[nn.NNOp], Callable[[Any], Kernel]] = {
    **dict.fromkeys((nn.ReluOp, nn.ClipOp), lambda op: _clipped(*op.bounds)),
    nn.CompareOp: lambda op: _COMPARISONS[op.predicate.data],
    nn.EluOp: lambda op: _widened(partial(_elu, alpha=op.alpha.value.data)),
    nn.GeluOp: lambda op: _widened(_gelu if op.tanh_approximation is None else _gelu_tanh),
    nn.HardSigmoidOp: lambda op: _widened(partial(_hard_sigmoid, alpha=op.alpha.value.data, beta=op.beta.value.data)),
    nn.LeakyReluOp: lambda op: _widened(partial(_leaky_relu, alpha=op.alpha.value.data)),
}
"""Functions that depend on an operation's properties."""


@kernel(*_MADE)
def made(op: nn.NNOp) -> Kernel:
    return _MADE[type(op)](op)


@kernel(nn.CastOp)
def cast_elements(op: nn.CastOp) -> Kernel:
    """Converts floats to integers; values out of range wrap modulo the type's size, on every processor."""
    dtype = numpy_dtype(op.result.type.element_type)
    narrow = dtype.name.lstrip("u").startswith("int") and dtype.itemsize < 8

    def run(x: Array) -> Array:
        if narrow and x.dtype.kind not in "iub":
            x = x.astype(np.int64)
        return x.astype(dtype, copy=False)

    return run
