"""Activations, arithmetic, comparison, selection and cast against TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ...values import normal
from .conftest import kinds

Agrees = Callable[..., Any]
raw = tf.raw_ops

REAL = normal(2, 3, 4) * 3
REAL[0, 0] = [0, -0.0, 0.5, -2.5]
OTHER = normal(2, 3, 4, seed=1)
POSITIVE = np.abs(REAL) + np.float32(0.1)
ROW = np.array([1, -2, 3, 0.25], np.float32)
WHOLE = np.arange(-12, 12, dtype=np.int32).reshape(2, 3, 4)
DIVISORS = np.array([3, -3, 5, -1], np.int32)
HOLES = np.where(np.arange(24).reshape(2, 3, 4) % 3, OTHER, 0).astype(np.float32)
TRUTH = WHOLE % 2 == 0
BYTES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)

Case = tuple[Callable[..., Any], Sequence[np.ndarray]]


def floats(*operators: Callable[..., Any], x: np.ndarray = REAL) -> dict[str, Case]:
    return {f.__name__: (f, [x]) for f in operators}


UNARY: dict[str, Case] = {
    **floats(tf.nn.relu, tf.nn.relu6, tf.nn.elu, tf.nn.selu, tf.nn.softplus, tf.nn.softsign, tf.sigmoid, tf.tanh),
    **floats(
        tf.math.erf,
        tf.math.erfc,
        tf.exp,
        tf.sin,
        tf.cos,
        tf.math.expm1,
        tf.square,
        tf.negative,
        tf.abs,
        tf.floor,
        tf.math.ceil,
    ),
    **floats(tf.round, tf.math.rint, tf.math.reciprocal, tf.sign),
    **floats(tf.math.log, tf.math.log1p, tf.sqrt, tf.math.rsqrt, x=POSITIVE),
    "leaky_relu": (tf.nn.leaky_relu, [REAL]),
    "leaky_relu-alpha": (lambda x: tf.nn.leaky_relu(x, 0.03), [REAL]),
    "inv": (lambda x: raw.Inv(x=x), [POSITIVE]),
    "relu-int": (tf.nn.relu, [WHOLE]),
    "relu6-int": (tf.nn.relu6, [WHOLE]),
    "abs-int": (tf.abs, [WHOLE]),
    "negative-int": (tf.negative, [WHOLE]),
    "square-int": (tf.square, [WHOLE]),
    "sign-int": (tf.sign, [WHOLE]),
    "round-int": (tf.round, [WHOLE]),
    "not": (tf.logical_not, [TRUTH]),
    "is_nan": (tf.math.is_nan, [np.array([1, np.nan], np.float32)]),
    "is_inf": (tf.math.is_inf, [np.array([1, np.nan, np.inf, -np.inf, 3e38], np.float32)]),
    "is_finite": (tf.math.is_finite, [np.array([1, np.nan, np.inf, -np.inf, 3e38], np.float32)]),
    "sign-nan": (tf.sign, [np.array([1, np.nan, -np.inf], np.float32)]),
    "zeros_like": (lambda x: x + tf.zeros_like(x), [REAL]),
    "ones_like": (lambda x: x + tf.ones_like(x), [WHOLE]),
}

BINARY: dict[str, Case] = {
    **{f.__name__: (f, [REAL, OTHER]) for f in (tf.add, tf.subtract, tf.multiply, tf.maximum, tf.minimum)},
    **{f.__name__: (f, [REAL, ROW]) for f in (tf.divide, tf.math.squared_difference, tf.math.floordiv)},
    **{f"{f.__name__}-int": (f, [WHOLE, DIVISORS]) for f in (tf.math.floordiv, tf.math.floormod, tf.truncatediv)},
    **{f"{f.__name__}-int": (f, [WHOLE, DIVISORS]) for f in (tf.truncatemod, tf.maximum, tf.add)},
    **{f"{f.__name__}-five": (lambda x, f=f: f(x, 5), [WHOLE]) for f in (tf.math.floordiv, tf.math.floormod)},
    **{f"{f.__name__}-minus-five": (lambda x, f=f: f(x, -5), [WHOLE]) for f in (tf.math.floordiv, tf.math.floormod)},
    **{f"{f.__name__}-uint8": (lambda x, f=f: f(x, 5), [BYTES]) for f in (tf.math.floordiv, tf.math.floormod)},
    **{f"{f.__name__}-by-0": (f, [REAL, HOLES]) for f in (tf.math.divide_no_nan, tf.math.multiply_no_nan)},
    "add-1": (lambda x, y: raw.Add(x=x, y=y), [REAL, ROW]),
    "div-int": (lambda x, y: raw.Div(x=x, y=y), [WHOLE, DIVISORS]),
    "mod-int": (lambda x, y: raw.Mod(x=x, y=y), [WHOLE, DIVISORS]),
    "pow": (tf.pow, [POSITIVE, ROW]),
    "pow-int": (lambda x: tf.pow(x, 3), [WHOLE]),
    "pow-square": (lambda x: x**2.0, [REAL]),
    "add_n": (lambda *v: tf.add_n(v), [REAL, OTHER, POSITIVE]),
    "add_n-one": (lambda x: tf.add_n([x]), [REAL]),
    "broadcast": (tf.add, [REAL[:, :1], OTHER[:1]]),
    "row": (lambda x: x + ROW, [REAL]),
    "clip": (lambda x: tf.clip_by_value(x, -1.0, 2.0), [REAL]),
    "clip-op": (lambda x: raw.ClipByValue(t=x, clip_value_min=-1.0, clip_value_max=2.0), [REAL]),
    "clip-relu6": (lambda x: raw.ClipByValue(t=x, clip_value_min=0.0, clip_value_max=6.0), [REAL * 3]),
    "clip-runtime": (lambda x, y: raw.ClipByValue(t=x, clip_value_min=y, clip_value_max=4.0), [REAL, ROW[0]]),
}

SELECTION: dict[str, Case] = {
    **{f.__name__: (f, [WHOLE, WHOLE[::-1]]) for f in (tf.equal, tf.not_equal, tf.less, tf.less_equal)},
    **{f.__name__: (f, [REAL, ROW]) for f in (tf.greater, tf.greater_equal)},
    **{f.__name__: (f, [TRUTH, TRUTH[:, :1]]) for f in (tf.logical_and, tf.logical_or, tf.math.logical_xor)},
    "equal-bool": (tf.equal, [TRUTH, TRUTH[::-1]]),
    "where": (tf.where, [TRUTH, REAL, OTHER]),
    "where-broadcast": (lambda c, x: tf.where(c[:, :1], x, 0.0), [TRUTH, REAL]),
    "select": (lambda c, x, y: raw.Select(condition=c, x=x, y=y), [TRUTH, REAL, OTHER]),
    "select-rows": (lambda c, x, y: raw.Select(condition=c, x=x, y=y), [TRUTH[:, 0, 1], REAL, OTHER]),
    "select-one": (lambda c, x, y: raw.Select(condition=c, x=x, y=y), [TRUTH[0, 0, 1], REAL, OTHER]),
}

CASTS: dict[str, Case] = {
    f"cast-{source.dtype}-{target.name}": (lambda x, t=target: tf.cast(x, t), [source])
    for source in (REAL, WHOLE, TRUTH, BYTES)
    for target in (tf.float32, tf.float16, tf.int32, tf.int64, tf.bool)
}

CASES = UNARY | BINARY | SELECTION | CASTS


@pytest.mark.parametrize("name", CASES)
def test_elementwise(name: str, agrees: Agrees) -> None:
    function, arrays = CASES[name]
    agrees(function, *arrays)


UNKNOWN = (
    "relu",
    "floordiv-five",
    "floor_mod-int",
    "row",
    "where",
    "select-rows",
    "zeros_like",
    "ones_like",
    "cast-bool-float32",
)


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_sizes(name: str, agrees: Agrees) -> None:
    function, arrays = CASES[name]
    agrees(function, *arrays, signature=[tf.TensorSpec([None] * a.ndim, a.dtype) for a in arrays])


HALF = ("relu", "leaky_relu", "elu", "softplus", "sigmoid", "tanh", "exp", "rsqrt", "add", "divide", "clip", "maximum")


@pytest.mark.parametrize("name", HALF)
def test_float16(name: str, agrees: Agrees) -> None:
    """As exact as the format: 2^-10 of the result."""
    function, arrays = CASES[name]
    agrees(function, *(a.astype(np.float16) for a in arrays), rtol=2**-10, atol=2**-14)


def test_sines_of_constants(agrees: Agrees) -> None:
    """Positions are encoded at import: one addition is left."""

    def encoded(x: Any) -> Any:
        angles = tf.range(6, dtype=tf.float32)[:, None] / 10.0 ** tf.linspace(0.0, 1.0, 2)[None, :]
        return x + tf.concat([tf.sin(angles), tf.cos(angles)], axis=1)

    module = agrees(encoded, np.ones((6, 4), np.float32))
    assert kinds(module) == ["add"]


def test_folded_normalization(agrees: Agrees) -> None:
    """What scales and shifts channels is computed at import: a product and a sum are left."""
    mean, variance, gamma, beta = (np.arange(1, 4, dtype=np.float32) * k for k in (0.5, 1.0, 2.0, 0.1))

    def normalized(x: Any) -> Any:
        mean_, variance_, gamma_, beta_ = (tf.reshape(v, [1, 1, 1, 3]) for v in (mean, variance, gamma, beta))
        factor = tf.math.rsqrt(variance_ + 1e-3) * gamma_
        return x * factor + (beta_ - mean_ * factor)

    module = agrees(normalized, np.ones((1, 2, 2, 3), np.float32))
    assert kinds(module) == ["mul", "add"]
