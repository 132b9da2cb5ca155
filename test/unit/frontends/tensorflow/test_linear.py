"""Matrix products and BiasAdd against TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt.dialects import nn

from ...frameworks import later, tf
from ...values import normal
from .conftest import kinds

Agrees = Callable[..., ModuleOp]
raw = later("tensorflow.raw_ops")
SUMS = {"atol": 1e-5}

FLAGS = [(False, False), (True, False), (False, True), (True, True)]


def turned(x: np.ndarray, flag: bool) -> np.ndarray:
    return np.ascontiguousarray(x.swapaxes(-1, -2)) if flag else x


@pytest.mark.parametrize("sizes", ["known", "unknown"])
@pytest.mark.parametrize(("a", "b"), FLAGS)
def test_matmul(agrees: Agrees, a: bool, b: bool, sizes: str) -> None:
    x, w = turned(normal(3, 5), a), turned(normal(5, 4), b)
    signature = [tf.TensorSpec([None, None])] if sizes == "unknown" else None
    function = lambda x, w: raw.MatMul(a=x, b=w, transpose_a=a, transpose_b=b)  # noqa: E731
    module = agrees(function, x, variables=[w], signature=signature, **SUMS)
    assert kinds(module) == ["matmul"]


BATCHED = {
    "BatchMatMul": (lambda x, y, a, b: raw.BatchMatMul(x=x, y=y, adj_x=a, adj_y=b), (2, 3, 5, 4), (2, 3, 4, 6)),
    "V2": (lambda x, y, a, b: raw.BatchMatMulV2(x=x, y=y, adj_x=a, adj_y=b), (2, 1, 5, 4), (3, 4, 6)),
    "V3": (lambda x, y, a, b: raw.BatchMatMulV3(x=x, y=y, Tout=tf.float32, adj_x=a, adj_y=b), (2, 1, 5, 4), (3, 4, 6)),
}


@pytest.mark.parametrize("sizes", ["known", "unknown"])
@pytest.mark.parametrize(("a", "b"), FLAGS)
@pytest.mark.parametrize("name", BATCHED)
def test_batch_matmul(agrees: Agrees, name: str, a: bool, b: bool, sizes: str) -> None:
    function, left, right = BATCHED[name]
    arrays = turned(normal(*left), a), turned(normal(*right), b)
    signature = [tf.TensorSpec([None] * x.ndim) for x in arrays] if sizes == "unknown" else None
    module = agrees(lambda x, y: function(x, y, a, b), *arrays, signature=signature, **SUMS)
    assert kinds(module) == ["matmul"]


def test_dense_layer_on_sequences(agrees: Agrees) -> None:
    """As Keras writes it: reshapes around a product, of any batch and length."""
    x, w, b = normal(2, 7, 5), normal(5, 4), normal(4)
    function = lambda x, w, b: tf.tensordot(x, w, 1) + b  # noqa: E731
    agrees(function, x, variables=[w, b], **SUMS)
    agrees(function, x, variables=[w, b], signature=[tf.TensorSpec([None, None, 5])], **SUMS)


def test_integers_to_wider_ones_are_carried(frozen: Callable[..., Any]) -> None:
    x = np.ones((2, 3, 4), np.int8)
    graph = frozen(lambda x, y: raw.BatchMatMulV3(x=x, y=y, Tout=tf.int32), x, x.swapaxes(1, 2))
    assert kinds(graph.read()) == ["opaque"]


def test_products_of_integers(agrees: Agrees) -> None:
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    agrees(lambda x: tf.matmul(x, x, transpose_b=True), x)


BIASED = {"NHWC": [(2, 4), (2, 3, 4), (2, 3, 2, 4), (2, 3, 2, 2, 4)], "NCHW": [(2, 4, 3, 2), (2, 4, 3, 2, 2)]}


@pytest.mark.parametrize("sizes", ["known", "unknown"])
@pytest.mark.parametrize(("layout", "shape"), [(f, s) for f, shapes in BIASED.items() for s in shapes])
def test_bias_add(agrees: Agrees, layout: str, shape: tuple[int, ...], sizes: str) -> None:
    signature = [tf.TensorSpec([None] * len(shape))] if sizes == "unknown" else None
    function = lambda x, b: raw.BiasAdd(value=x, bias=b, data_format=layout)  # noqa: E731
    assert kinds(agrees(function, normal(*shape), variables=[normal(4)], signature=signature)) == ["bias_add"]


def test_bias_add_v1(agrees: Agrees) -> None:
    agrees(lambda x, b: raw.BiasAddV1(value=x, bias=b), normal(2, 3, 4), variables=[normal(4)])


def test_flags_stay_with_the_layer(agrees: Agrees) -> None:
    """What rules of quantization ask for."""
    module = agrees(lambda x: tf.matmul(x, x, transpose_a=True), normal(3, 3), **SUMS)
    op = next(op for op in module.walk() if isinstance(op, nn.MatMulOp))
    assert op.origin is not None
    assert "transpose_a" in op.origin.attributes.data
