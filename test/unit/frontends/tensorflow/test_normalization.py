"""Normalizations and softmax against TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from ...frameworks import later, tf
from ...values import normal
from .conftest import kinds

Agrees = Callable[..., ModuleOp]
raw = later("tensorflow.raw_ops")


SCALE, OFFSET, MEAN = normal(3, 4)
VARIANCE = (10.0 ** np.random.default_rng(0).uniform(-3, 1, 4)).astype(np.float32)
PARAMETERS = [SCALE, OFFSET, MEAN, VARIANCE]

NORMS = {"1": "FusedBatchNorm", "2": "FusedBatchNormV2", "3": "FusedBatchNormV3"}
SHAPES = {"NHWC": (2, 3, 5, 4), "NCHW": (2, 4, 3, 5), "NDHWC": (2, 3, 2, 3, 4), "NCDHW": (2, 4, 3, 2, 3)}


def norm(version: str, x: Any, parameters: Any, **how: Any) -> Any:
    scale, offset, mean, variance = parameters
    return getattr(raw, NORMS[version])(
        x=x, scale=scale, offset=offset, mean=mean, variance=variance, **{"is_training": False, **how}
    )


@pytest.mark.parametrize("sizes", ["known", "unknown"])
@pytest.mark.parametrize(
    ("version", "layout"), [(v, f) for v in NORMS for f in SHAPES if v == "3" or len(SHAPES[f]) == 4]
)
def test_batch_norm(agrees: Agrees, version: str, layout: str, sizes: str) -> None:
    """With the epsilon that a graph leaves out, and with another."""
    x = normal(*SHAPES[layout])
    signature = [tf.TensorSpec([None if d != 4 else d for d in x.shape])] if sizes == "unknown" else None

    def normalized(x: Any, *parameters: Any) -> Any:
        y = norm(version, x, parameters, data_format=layout)[0]
        return norm(version, y, parameters, data_format=layout, epsilon=1e-2)[0]

    module = agrees(normalized, x, variables=PARAMETERS, signature=signature, rtol=1e-4, atol=1e-4)
    assert kinds(module) == ["batch_norm", "batch_norm"]


@pytest.mark.parametrize("version", NORMS)
def test_statistics_of_inference_are_the_given_ones(agrees: Agrees, version: str) -> None:
    agrees(lambda x, *p: list(norm(version, x, p)[:3]), normal(2, 3, 5, 4), variables=PARAMETERS, rtol=1e-4)


def test_half_precision_beside_single(agrees: Agrees) -> None:
    """The result is one rounding to float16 away."""
    x = normal(2, 3, 5, 4).astype(np.float16)
    agrees(lambda x, *p: norm("3", x, p)[0], x, variables=PARAMETERS, rtol=2**-10, atol=2**-10)


def test_training_is_carried(frozen: Callable[..., Any]) -> None:
    graph = frozen(
        lambda x, s, o, *_: norm("3", x, [s, o, [], []], is_training=True)[0], normal(2, 3, 5, 4), variables=PARAMETERS
    )
    assert kinds(graph.read()) == ["opaque"]


@pytest.mark.parametrize("sizes", ["known", "unknown"])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_statistics_of_one_sample(agrees: Agrees, layout: str, sizes: str) -> None:
    """As tf_keras normalizes layers."""
    x = normal(1, *SHAPES[layout][1:]) + 3
    signature = [tf.TensorSpec([d if d in (1, 4) else None for d in x.shape])] if sizes == "unknown" else None
    module = agrees(
        lambda x, s, o, *_: norm("3", x, [s, o, [], []], is_training=True, data_format=layout, epsilon=1e-3)[0],
        x,
        variables=PARAMETERS,
        signature=signature,
        rtol=1e-4,
        atol=1e-4,
    )
    assert "opaque" not in kinds(module)


def test_statistics_that_are_read_are_carried(frozen: Callable[..., Any]) -> None:
    def function(x: Any, s: Any, o: Any, *_: Any) -> Any:
        return list(norm("3", x, [s, o, [], []], is_training=True)[:2])

    assert kinds(frozen(function, normal(1, 3, 5, 4), variables=PARAMETERS).read()) == ["opaque"]


@pytest.mark.parametrize(
    "how",
    [{}, {"depth_radius": 2, "bias": 2.0, "alpha": 1e-2, "beta": 0.75}, {"depth_radius": 1, "alpha": 0.5}],
    ids=str,
)
def test_lrn(agrees: Agrees, how: dict[str, Any]) -> None:
    x = normal(2, 3, 4, 7)
    for signature in (None, [tf.TensorSpec([None, None, None, 7])]):
        assert kinds(agrees(lambda x: raw.LRN(input=x, **how), x, signature=signature)) == ["lrn"]


@pytest.mark.parametrize("function", ["softmax", "log_softmax"])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4), (2, 3, 4, 5)], ids=str)
def test_softmax(agrees: Agrees, function: str, shape: tuple[int, ...]) -> None:
    x = 10 * normal(*shape)
    for signature in (None, [tf.TensorSpec([None] * len(shape))]):
        agrees(getattr(tf.nn, function), x, signature=signature)


def test_softmax_along_another_axis(agrees: Agrees) -> None:
    """TensorFlow moves the axis to the end and back."""
    x = normal(2, 3, 4)
    agrees(lambda x: tf.nn.softmax(x, axis=1), x)
    agrees(lambda x: tf.nn.softmax(x, axis=1), x, signature=[tf.TensorSpec([None, 3, None])])
