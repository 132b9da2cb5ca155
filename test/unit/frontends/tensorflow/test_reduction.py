"""Reductions against TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from ...frameworks import tf
from ...values import normal

Agrees = Callable[..., Any]

REAL = normal(2, 3, 4, 5)
WHOLE = np.random.default_rng(0).integers(-9, 9, (2, 3, 4, 5)).astype(np.int32)
TRUTH = WHOLE > -9

REDUCTIONS: dict[str, tuple[str, np.ndarray]] = {
    "mean": ("reduce_mean", REAL),
    "sum": ("reduce_sum", REAL),
    "max": ("reduce_max", REAL),
    "min": ("reduce_min", REAL),
    "prod": ("reduce_prod", REAL),
    "sum-int": ("reduce_sum", WHOLE),
    "max-int": ("reduce_max", WHOLE),
    "prod-int": ("reduce_prod", np.abs(WHOLE) % 3 + 1),
    "all": ("reduce_all", TRUTH),
    "any": ("reduce_any", ~TRUTH),
}
AXES = (None, 0, -1, [1, 2], [-2, 0])


@pytest.mark.parametrize(("name", "keepdims"), [*product(REDUCTIONS, (False, True))])
def test_reductions(name: str, keepdims: bool, agrees: Agrees) -> None:
    """Over every kind of axes, in one graph."""
    reduce, x = REDUCTIONS[name]
    agrees(lambda v: [getattr(tf, reduce)(v, axis=a, keepdims=keepdims) for a in AXES], x)


@pytest.mark.parametrize("keepdims", [False, True])
def test_unknown_sizes(keepdims: bool, agrees: Agrees) -> None:
    """The mean over space, as classifiers have it."""
    signature = [tf.TensorSpec([None, None, None, 5], tf.float32)]
    module = agrees(lambda x: tf.reduce_mean(x, [1, 2], keepdims=keepdims), REAL, signature=signature)
    (mean,) = (op for op in module.walk() if op.name.startswith("nn.") and op.name != "nn.constant")
    assert mean.name == "nn.reduce_mean"
    assert mean.axes.get_values() == (1, 2)


def test_float16(agrees: Agrees) -> None:
    agrees(lambda x: tf.reduce_mean(x, [1, 2]), REAL.astype(np.float16), rtol=2**-9, atol=2**-12)


@pytest.mark.parametrize("x", [REAL, WHOLE, WHOLE[..., :1]])
def test_places(x: np.ndarray, agrees: Agrees) -> None:
    """Of equal elements the first; along every axis."""
    module = agrees(lambda v: [tf.argmax(v, a) for a in range(4)] + [tf.argmin(v, -1, tf.int32)], x)
    assert not any(op.name == "nn.opaque" for op in module.walk())


def test_places_of_constants(agrees: Agrees) -> None:
    """What is largest in a constant is known."""
    table = np.array([[3, 9, 4], [7, 1, 7]], np.float32)
    agrees(lambda x: x + tf.argmax(table, 1) - tf.argmin(table, -1), np.array([10, 20], np.int64))
    agrees(lambda x: x + tf.argmax(table, 0, output_type=tf.int32), np.array([1, 2, 3], np.int32))
    agrees(lambda x: x + tf.cumsum(table, 1), np.ones((2, 3), np.float32))
