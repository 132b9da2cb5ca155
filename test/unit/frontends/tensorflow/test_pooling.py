"""Pooling against TensorFlow, in both layouts, of known and of unknown sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from ...frameworks import later, tf
from .conftest import kinds

Agrees = Callable[..., ModuleOp]
raw = later("tensorflow.raw_ops")

X = np.random.default_rng(0).normal(size=(2, 7, 8, 3)).astype(np.float32)
CUBE = np.random.default_rng(1).normal(size=(2, 5, 6, 7, 3)).astype(np.float32)

MAX, AVERAGE = "max_pool", "average_pool"
POOLS = {
    "MaxPool": (lambda x, **how: raw.MaxPool(input=x, **how), MAX),
    "MaxPoolV2": (lambda x, **how: raw.MaxPoolV2(input=x, **how), MAX),
    "AvgPool": (lambda x, **how: raw.AvgPool(value=x, **how), AVERAGE),
}
CUBES = {
    "MaxPool3D": (lambda x, **how: raw.MaxPool3D(input=x, **how), MAX),
    "AvgPool3D": (lambda x, **how: raw.AvgPool3D(input=x, **how), AVERAGE),
}
WINDOWS = [((2, 2), (2, 2)), ((3, 2), (1, 1)), ((3, 3), (2, 3)), ((1, 1), (2, 2)), ((7, 8), (1, 1))]


def arranged(values: Sequence[int], layout: str) -> list[int]:
    """A list over axes, the channels last, in a layout."""
    return [values[0], values[-1], *values[1:-1]] if layout.startswith("NC") else list(values)


def in_layout(x: np.ndarray, layout: str) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(x, -1, 1)) if layout.startswith("NC") else x


def signature(x: np.ndarray, sizes: str) -> list[Any] | None:
    return [tf.TensorSpec([None] * x.ndim, x.dtype)] if sizes == "unknown" else None


# TensorFlow's own kernels of the others take the channels last only
LAYOUTS = [("MaxPool", "NCHW"), ("AvgPool", "NCHW"), *((name, "NHWC") for name in POOLS)]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", ["known", "unknown"])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize(("name", "layout"), LAYOUTS)
def test_pool(agrees: Agrees, name: str, window: Any, padding: str, layout: str, sizes: str) -> None:
    """Of unknown sizes are all axes; the values of MaxPoolV2's window and strides are inputs."""
    (pool, kind), (kernel, strides), x = POOLS[name], window, in_layout(X, layout)
    how = {"ksize": arranged([1, *kernel, 1], layout), "strides": arranged([1, *strides, 1], layout)}
    module = agrees(lambda x: pool(x, padding=padding, data_format=layout, **how), x, signature=signature(x, sizes))
    assert kinds(module) == [kind]


@pytest.mark.parametrize("sizes", ["known", "unknown"])
def test_explicit_padding(agrees: Agrees, sizes: str) -> None:
    pairs = [[0, 0], [1, 0], [2, 1], [0, 0]]
    module = agrees(lambda x: tf.nn.max_pool2d(x, 3, 2, pairs), X - 9, signature=signature(X, sizes))
    assert kinds(module) == [MAX]


@pytest.mark.parametrize("sizes", ["known", "unknown"])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("layout", ["NDHWC", "NCDHW"])
@pytest.mark.parametrize("name", CUBES)
def test_pool_3d(agrees: Agrees, name: str, layout: str, padding: str, sizes: str) -> None:
    (pool, kind), x = CUBES[name], in_layout(CUBE, layout)
    how = {"ksize": arranged([1, 2, 3, 2, 1], layout), "strides": arranged([1, 2, 1, 3, 1], layout)}
    module = agrees(lambda x: pool(x, padding=padding, data_format=layout, **how), x, signature=signature(x, sizes))
    assert kinds(module) == [kind]


def test_pooling_over_channels_is_carried(frozen: Callable[..., Any]) -> None:
    graph = frozen(lambda x: tf.nn.max_pool(x, [1, 1, 1, 3], [1, 1, 1, 3], "VALID"), X)
    assert kinds(graph.read()) == ["opaque"]
