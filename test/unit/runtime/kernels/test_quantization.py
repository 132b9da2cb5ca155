"""Quantize and dequantize against ONNX's formula, worked out in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, Signedness, TensorType, f16, f32

from amct_opt.dialects import nn
from amct_opt.ir.dtypes import integer_range, numpy_dtype

STORAGES = [
    IntegerType(4),
    IntegerType(8),
    IntegerType(16),
    IntegerType(32),
    IntegerType(4, Signedness.UNSIGNED),
    IntegerType(8, Signedness.UNSIGNED),
    IntegerType(16, Signedness.UNSIGNED),
]


def exact(x: np.float32, scale: float, zero_point: int, storage: IntegerType) -> int:
    """One float32 division, then rounding half to even, zero point and saturation in integers."""
    quotient = x / np.float32(scale)
    low, high = integer_range(storage)
    if np.isinf(quotient):
        return high if quotient > 0 else low
    return min(max(round(Fraction(float(quotient))) + zero_point, low), high)


@pytest.mark.parametrize("storage", STORAGES, ids=str)
@pytest.mark.parametrize("scale", [0.5, 0.1, 3.0])
@pytest.mark.parametrize("shift", [0, 3])
def test_quantize(run, storage, scale, shift) -> None:
    low, high = integer_range(storage)
    zero_point = 0 if storage.width.data > 16 else low + shift
    ties = np.arange(-9, 10) / 2
    ends = [v + d for v in (low - zero_point, high - zero_point) for d in (-2, -1, -0.5, 0, 0.5, 1, 2)]
    x = (np.concatenate([ties, ends, [1e9, -1e9, 1e38, -1e38]]) * np.float32(scale)).astype(np.float32)
    x = np.append(x, np.array([np.inf, -np.inf], np.float32))
    q = run(nn.QuantizeOp, x, qparams=nn.QParamsAttr.of(storage, scale, zero_point))
    assert q.dtype == numpy_dtype(storage)
    assert q.astype(np.int64).tolist() == [exact(v, scale, zero_point, storage) for v in x]


def test_single_numbers(run) -> None:
    params = nn.QParamsAttr.of(IntegerType(8), 0.5, -12)
    q = run(nn.QuantizeOp, np.float32(1.25), qparams=params)
    assert (q.shape, q.dtype, int(q)) == ((), np.int8, -10)
    assert run(nn.DequantizeOp, q, qparams=params) == 1.0


@pytest.mark.parametrize("storage", STORAGES, ids=str)
def test_nan_is_the_least_integer(run, storage) -> None:
    q = run(nn.QuantizeOp, np.array([np.nan, 1], np.float32), qparams=nn.QParamsAttr.of(storage, 1.0))
    assert q.tolist() == [integer_range(storage)[0], 1]


def test_halves_go_to_even(run) -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.5, -128.5, -129.5], np.float32)
    q = run(nn.QuantizeOp, x, qparams=nn.QParamsAttr.of(IntegerType(8), 1.0))
    assert q.tolist() == [0, 2, 2, 0, -2, 126, 127, -128, -128]


def test_division_not_multiplication_by_the_reciprocal(run) -> None:
    """ONNX divides; the product with the rounded reciprocal lands on the other side of some halves."""
    scale = np.float32(1 / 3 * 0.1)
    x = ((np.arange(-127, 127) + np.float32(0.5)) * scale).astype(np.float32)
    q = run(nn.QuantizeOp, x, qparams=nn.QParamsAttr.of(IntegerType(8), float(scale)))
    np.testing.assert_array_equal(q, np.rint(x / scale))
    assert (np.rint(x / scale) != np.rint(x * (np.float32(1) / scale))).any(), "the data do not tell the two apart"


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("channels", [3, 40])  # inline, and next to the text
def test_per_axis(run, rng, axis, channels) -> None:
    shape = [2, 2, 2]
    shape[axis] = channels
    x = rng.normal(size=shape).astype(np.float32)
    scales = rng.uniform(0.001, 0.02, channels).astype(np.float32)
    points = rng.integers(-5, 5, channels).tolist() if channels <= 16 else 4
    params = nn.QParamsAttr.of(IntegerType(8), scales, points, axis)
    q = run(nn.QuantizeOp, x, qparams=params)
    along = [-1 if i == axis else 1 for i in range(3)]
    wide_points = np.broadcast_to(np.array(points), channels).reshape(along)
    expected = np.clip(np.rint(x / scales.reshape(along)) + wide_points, -128, 127)
    np.testing.assert_array_equal(q, expected)
    y = run(nn.DequantizeOp, q, qparams=params, result_types=[TensorType(f32, shape)])
    np.testing.assert_array_equal(y, (q - wide_points).astype(np.float32) * scales.reshape(along))


@pytest.mark.parametrize("storage", STORAGES, ids=str)
def test_dequantize(run, storage) -> None:
    low, high = integer_range(storage)
    q = np.array([low, low + 1, 0, 1, high - 1, high], np.int64).astype(numpy_dtype(storage))
    zero_point = 0 if storage.width.data > 16 else 2
    params = nn.QParamsAttr.of(storage, 0.1, zero_point)
    y = run(nn.DequantizeOp, q, qparams=params, result_types=[TensorType(f32, (6,))])
    # ONNX: int32 becomes float32 first; smaller integers are exact in it
    expected = (q.astype(np.int64) - zero_point).astype(np.float32) * np.float32(0.1)
    np.testing.assert_array_equal(y, expected)


def test_float16_values(run) -> None:
    params = nn.QParamsAttr.of(IntegerType(8), 0.1)
    x = np.array([1.0, 2.54, 100], np.float16)
    np.testing.assert_array_equal(run(nn.QuantizeOp, x, qparams=params), [10, 25, 127])
    q = np.array([1, 3, 127], np.int8)
    y = run(nn.DequantizeOp, q, qparams=params, result_types=[TensorType(f16, (3,))])
    np.testing.assert_array_equal(y, (q.astype(np.float32) * np.float32(0.1)).astype(np.float16))
    wide = np.array([1.0, 300.0], ml_dtypes.bfloat16)
    np.testing.assert_array_equal(run(nn.QuantizeOp, wide, qparams=params), [10, 127])


def test_observe_is_the_identity(run) -> None:
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(run(nn.ObserveOp, x, point="a:0", observer="min-max"), x)
