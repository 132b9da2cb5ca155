"""Matrix products: small integers make float sums exact, so results must be equal."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from amct_opt.dialects import nn

SHAPES = [
    ((3, 4), (4, 5)),
    ((2, 3, 4), (4, 5)),
    ((2, 1, 3, 4), (6, 4, 5)),
    ((4,), (4, 5)),
    ((2, 3, 4), (4,)),
    ((4,), (4,)),
    ((1, 0, 4), (4, 5)),
    ((3, 0), (0, 5)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.uint64])
def test_matmul(run, rng, left, right, dtype) -> None:
    a, b = rng.integers(0, 5, left), rng.integers(0, 5, right)
    np.testing.assert_array_equal(run(nn.MatMulOp, a.astype(dtype), b.astype(dtype)), (a @ b).astype(dtype))


@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(False, True), (True, False), (True, True)])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_transposes_and_bias(run, small_integers, transpose_a, transpose_b, batch) -> None:
    a, b, bias = small_integers((*batch, 3, 4)), small_integers((*batch, 4, 5)), small_integers((5,))
    lhs = a.swapaxes(-1, -2).copy() if transpose_a else a
    rhs = b.swapaxes(-1, -2).copy() if transpose_b else b
    y = run(nn.MatMulOp, lhs, rhs, bias, transpose_a=transpose_a, transpose_b=transpose_b, dynamic=True)
    np.testing.assert_array_equal(y, a @ b + bias)


def test_float16_is_rounded_once(run) -> None:
    # 2049 ones: float16 sums would stall at 2048
    a, b = np.ones((1, 4099), np.float16), np.ones((4099, 1), np.float16)
    assert run(nn.MatMulOp, a, b).tolist() == [[4100.0]]  # 4099 lies halfway between 4096 and 4100 + 2: nearest even


def test_infinities_make_no_noise(run) -> None:
    a = np.array([[np.inf, -np.inf], [3e38, 3e38]], np.float32)
    y = run(nn.MatMulOp, a, np.ones((2, 1), np.float32))
    assert np.isnan(y[0, 0])
    assert np.isposinf(y[1, 0])


@pytest.mark.parametrize(
    ("shape", "layout", "axis"), [((2, 3, 4), "nchw", 1), ((2, 4, 3), "nhwc", 2), ((2, 3), "nchw", 1)]
)
def test_bias_add(run, small_integers, shape, layout, axis) -> None:
    x, bias = small_integers(shape), small_integers((3,))
    expected = x + bias.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    np.testing.assert_array_equal(run(nn.BiasAddOp, x, bias, layout=layout), expected)
