"""Activations, arithmetic, comparison, selection and cast against TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from ...frameworks import later, tf
from ...values import normal
from .conftest import kinds

Agrees = Callable[..., Any]
raw = later("tensorflow.raw_ops")

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


def each(names: str, *arrays: np.ndarray, form: str = "", more: Sequence[Any] = ()) -> dict[str, Case]:
    """Operators of TensorFlow on the same arrays; `form` is added to the names of the cases, `more` to the arguments."""
    operators = {name.rpartition(".")[2]: later(f"tensorflow.{name}") for name in names.split()}
    return {name + form: (lambda *x, f=f: f(*x, *more), arrays) for name, f in operators.items()}


UNARY: dict[str, Case] = {
    **each("nn.relu nn.relu6 nn.elu nn.selu nn.softplus nn.softsign sigmoid tanh math.erf math.erfc exp sin cos", REAL),
    **each("math.expm1 square negative abs floor math.ceil round math.rint math.reciprocal sign", REAL),
    **each("math.log math.log1p sqrt math.rsqrt", POSITIVE),
    **each("nn.leaky_relu", REAL),
    **each("nn.leaky_relu", REAL, form="-alpha", more=[0.03]),
    **each("nn.relu nn.relu6 abs negative square sign round", WHOLE, form="-int"),
    "inv": (lambda x: raw.Inv(x=x), [POSITIVE]),
    **each("logical_not", TRUTH),
    **each("math.is_nan", np.array([1, np.nan], np.float32)),
    **each("math.is_inf math.is_finite", np.array([1, np.nan, np.inf, -np.inf, 3e38], np.float32)),
    **each("sign", np.array([1, np.nan, -np.inf], np.float32), form="-nan"),
    "zeros_like": (lambda x: x + tf.zeros_like(x), [REAL]),
    "ones_like": (lambda x: x + tf.ones_like(x), [WHOLE]),
}

BINARY: dict[str, Case] = {
    **each("add subtract multiply maximum minimum", REAL, OTHER),
    **each("divide math.squared_difference math.floordiv", REAL, ROW),
    **each("math.floordiv math.floormod truncatediv truncatemod maximum add", WHOLE, DIVISORS, form="-int"),
    **each("math.floordiv math.floormod", WHOLE, form="-five", more=[5]),
    **each("math.floordiv math.floormod", WHOLE, form="-minus-five", more=[-5]),
    **each("math.floordiv math.floormod", BYTES, form="-uint8", more=[5]),
    **each("math.divide_no_nan math.multiply_no_nan", REAL, HOLES, form="-by-0"),
    "add-1": (lambda x, y: raw.Add(x=x, y=y), [REAL, ROW]),
    "div-int": (lambda x, y: raw.Div(x=x, y=y), [WHOLE, DIVISORS]),
    "mod-int": (lambda x, y: raw.Mod(x=x, y=y), [WHOLE, DIVISORS]),
    **each("pow", POSITIVE, ROW),
    **each("pow", WHOLE, form="-int", more=[3]),
    "pow-square": (lambda x: x**2.0, [REAL]),
    "add_n": (lambda *v: tf.add_n(v), [REAL, OTHER, POSITIVE]),
    "add_n-one": (lambda x: tf.add_n([x]), [REAL]),
    **each("add", REAL[:, :1], OTHER[:1], form="-broadcast"),
    "row": (lambda x: x + ROW, [REAL]),
    "clip": (lambda x: tf.clip_by_value(x, -1.0, 2.0), [REAL]),
    "clip-op": (lambda x: raw.ClipByValue(t=x, clip_value_min=-1.0, clip_value_max=2.0), [REAL]),
    "clip-relu6": (lambda x: raw.ClipByValue(t=x, clip_value_min=0.0, clip_value_max=6.0), [REAL * 3]),
    "clip-runtime": (lambda x, y: raw.ClipByValue(t=x, clip_value_min=y, clip_value_max=4.0), [REAL, ROW[0]]),
}

SELECTION: dict[str, Case] = {
    **each("equal not_equal less less_equal", WHOLE, WHOLE[::-1]),
    **each("greater greater_equal", REAL, ROW),
    **each("logical_and logical_or math.logical_xor", TRUTH, TRUTH[:, :1]),
    **each("equal", TRUTH, TRUTH[::-1], form="-bool"),
    **each("where", TRUTH, REAL, OTHER),
    "where-broadcast": (lambda c, x: tf.where(c[:, :1], x, 0.0), [TRUTH, REAL]),
    "select": (lambda c, x, y: raw.Select(condition=c, x=x, y=y), [TRUTH, REAL, OTHER]),
    "select-rows": (lambda c, x, y: raw.Select(condition=c, x=x, y=y), [TRUTH[:, 0, 1], REAL, OTHER]),
    "select-one": (lambda c, x, y: raw.Select(condition=c, x=x, y=y), [TRUTH[0, 0, 1], REAL, OTHER]),
}

CASTS: dict[str, Case] = {
    f"cast-{source.dtype}-{target}": (lambda x, t=target: tf.cast(x, t), [source])
    for source in (REAL, WHOLE, TRUTH, BYTES)
    for target in ("float32", "float16", "int32", "int64", "bool")
}

CASES = UNARY | BINARY | SELECTION | CASTS


@pytest.mark.parametrize("name", CASES)
def test_elementwise(name: str, agrees: Agrees) -> None:
    function, arrays = CASES[name]
    agrees(function, *arrays)


UNKNOWN = (
    "relu", "floordiv-five", "floormod-int", "row", "where", "select-rows", "zeros_like", "ones_like",
    "cast-bool-float32",
)  # fmt: skip


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
