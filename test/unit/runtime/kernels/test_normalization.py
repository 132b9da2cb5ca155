"""Normalizations against their definitions in float64."""

from __future__ import annotations

import numpy as np
import pytest

from amct_opt.dialects import nn
from amct_opt.runtime.kernels import Array

# sums of some hundred float32 values of size about 1, then a division: well below 100 roundings
TOLERANCE = 100 * float(np.finfo(np.float32).eps)


def standardized(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def channels(v: Array, rank: int) -> Array:
    return v.astype(np.float64).reshape(-1, *[1] * (rank - 2))


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("shape", [(2, 5), (2, 5, 7), (2, 5, 3, 4), (1, 5, 2, 3, 2)])
def test_batch_norm(run, rng, shape, layout) -> None:
    x = rng.normal(size=shape).astype(np.float32)
    scale, offset, mean = (rng.normal(size=5).astype(np.float32) for _ in range(3))
    variance = rng.uniform(0.1, 2, 5).astype(np.float32)
    expected = (x.astype(np.float64) - channels(mean, x.ndim)) / np.sqrt(channels(variance, x.ndim) + 1e-3)
    expected = expected * channels(scale, x.ndim) + channels(offset, x.ndim)
    last = layout == "nhwc"
    image = np.moveaxis(x, 1, -1) if last else x
    y = run(nn.BatchNormOp, image, scale, offset, mean, variance, epsilon=1e-3, layout=layout)
    np.testing.assert_allclose(np.moveaxis(y, -1, 1) if last else y, expected, rtol=TOLERANCE, atol=TOLERANCE)


def test_batch_norm_of_float16_with_float32_parameters(run) -> None:
    x = np.array([[1, 2048]], np.float16)
    one = np.ones(2, np.float32)
    y = run(nn.BatchNormOp, x, one, np.array([0.5, 0.25], np.float32), 0 * one, one, epsilon=0.0)
    assert y.tolist() == [[1.5, 2048.0]]


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_instance_and_group_norm(run, rng, layout) -> None:
    x = (rng.normal(size=(2, 6, 5, 4)) * 3 + 10).astype(np.float32)
    scale, bias = rng.normal(size=6).astype(np.float32), rng.normal(size=6).astype(np.float32)
    last = layout == "nhwc"
    image = np.moveaxis(x, 1, -1) if last else x
    grouped = standardized(x.reshape(2, 3, -1), (2,), 1e-2).reshape(x.shape)
    for op, properties, normal in (
        (nn.InstanceNormOp, {}, standardized(x, (2, 3), 1e-2)),
        (nn.GroupNormOp, {"num_groups": 3}, grouped),
    ):
        y = run(op, image, scale, bias, epsilon=1e-2, layout=layout, **properties)
        expected = normal * channels(scale, 4) + channels(bias, 4)
        # the mean of 10 costs 10 eps before it is subtracted
        np.testing.assert_allclose(np.moveaxis(y, -1, 1) if last else y, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("axis", [-1, 1, -3])
@pytest.mark.parametrize("biased", [False, True])
def test_layer_norm(run, reference, rng, axis, biased) -> None:
    x = rng.normal(size=(2, 3, 8)).astype(np.float32)
    scale = rng.normal(size=x.shape[axis % 3 :]).astype(np.float32)
    parameters = [scale, scale[::-1].copy()] if biased else [scale]
    expected = standardized(x, tuple(range(axis % 3, 3)), 1e-5) * scale + (parameters[1] if biased else 0)
    y = run(nn.LayerNormOp, x, *parameters, axis=axis)
    np.testing.assert_allclose(y, expected, rtol=TOLERANCE, atol=TOLERANCE)


def test_layer_norm_of_float16_is_wider_inside(run) -> None:
    # squares of 300 exceed float16
    x = np.array([[300, -300, 300, -300]], np.float16)
    y = run(nn.LayerNormOp, x, np.ones(4, np.float16))
    assert y.tolist() == [[1, -1, 1, -1]]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 12])
def test_lrn(run, rng, size) -> None:
    x = rng.normal(size=(2, 7, 3, 2)).astype(np.float32)
    expected = np.empty(x.shape)
    for c in range(7):  # ONNX: from c - floor((size - 1) / 2) to c + ceil((size - 1) / 2)
        near = x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1].astype(np.float64)
        expected[:, c] = x[:, c] / (2 + 0.5 / size * (near**2).sum(1)) ** 0.6
    y = run(nn.LRNOp, x, size=size, alpha=0.5, beta=0.6, bias=2.0)
    np.testing.assert_allclose(y, expected, rtol=TOLERANCE)
    y = run(nn.LRNOp, np.moveaxis(x, 1, -1), size=size, alpha=0.5, beta=0.6, bias=2.0, layout="nhwc")
    np.testing.assert_allclose(np.moveaxis(y, -1, 1), expected, rtol=TOLERANCE)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_softmax(run, rng, axis, dtype) -> None:
    x = (rng.normal(size=(3, 4, 5)) * 30).astype(dtype)
    wide = x.astype(np.float64)
    logs = wide - wide.max(axis, keepdims=True)
    logs = logs - np.log(np.exp(logs).sum(axis, keepdims=True))
    eps = float(np.finfo(dtype).eps)
    tolerance = TOLERANCE + eps
    np.testing.assert_allclose(
        run(nn.SoftmaxOp, x, axis=axis), np.exp(logs), rtol=tolerance, atol=tolerance * 1e-3 + 6e-8
    )
    np.testing.assert_allclose(run(nn.LogSoftmaxOp, x, axis=axis), logs, rtol=tolerance, atol=tolerance)


def test_softmax_of_large_and_of_no_values(run) -> None:
    assert run(nn.SoftmaxOp, np.array([[1e4, 1e4, -np.inf]], np.float32)).tolist() == [[0.5, 0.5, 0]]
    assert run(nn.SoftmaxOp, np.zeros((2, 0), np.float32)).shape == (2, 0)
    assert np.isnan(run(nn.SoftmaxOp, np.full((1, 2), -np.inf, np.float32))).all()
