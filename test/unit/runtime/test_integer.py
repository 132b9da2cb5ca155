"""Exact integer products: against int64 sums, with the values that break a careless float path."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from amct_opt.runtime import integer
from amct_opt.runtime.integer import matmul_any, matmul_int8, prepare_conv, prepare_matmul
from amct_opt.runtime.kernels import Array

# 1024 products of -128 * -128 make 2^24, the last sum that float32 holds for sure; 4608 = 512 channels of 3 x 3
DEPTHS = (1, 1023, 1024, 1025, 1040, 2049, 4608)


def worst(depth: int, low: int) -> tuple[Array, Array]:
    """All products of the largest size and the same sign, but the last one odd: a rounding anywhere would show."""
    row = np.full(depth, low)
    row[-1] = 1
    column = row.copy()
    column[-1] = 3
    return row, column


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("zero_point", [0, -128, 127, 5])
def test_matmul_worst_case(depth: int, zero_point: int) -> None:
    row, column = worst(depth, -128)
    x, w = np.stack([row, -1 - row]).astype(np.int8), np.stack([column, -1 - column, row], axis=1).astype(np.int8)
    bias = np.array([2**20, -(2**20), 7], np.int32)
    expected = (x.astype(np.int64) - zero_point) @ w.astype(np.int64) + bias
    y = matmul_int8(x, w, bias, zero_point=zero_point)
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("depth", DEPTHS)
def test_matmul_of_uint8_worst_case(depth: int) -> None:
    x, w = np.full((2, depth), 255, np.uint8), np.full((depth, 2), -128, np.int8)
    w[-1], x[1, -1] = 1, 3
    expected = (x.astype(np.int64) - 200) @ w.astype(np.int64)
    np.testing.assert_array_equal(matmul_int8(x, w, zero_point=200), expected)


@pytest.mark.parametrize(("input_dtype", "weight_dtype", "depth"), [(np.int16, np.int8, 500), (np.int16, np.int16, 1)])
def test_matmul_of_int16_worst_case(input_dtype: type, weight_dtype: type, depth: int) -> None:
    x = np.full((2, depth), np.iinfo(input_dtype).min, input_dtype)
    w = np.full((depth, 2), np.iinfo(weight_dtype).min, weight_dtype)
    x[0, -1], w[-1, 1] = 1, 1
    expected = x.astype(np.int64) @ w.astype(np.int64)
    np.testing.assert_array_equal(matmul_int8(x, w), expected)


def test_the_worst_case_breaks_plain_float32() -> None:
    """What the slices are for: the same product in one float32 sum is wrong from 1025 on."""
    row, column = worst(1025, -128)
    x, w = row.astype(np.float32), column.astype(np.float32)
    assert int(x @ w) != int(row @ column)


def test_int4_weights() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.integers(-128, 128, (3, 50), np.int8), rng.integers(-8, 8, (50, 4), np.int8)
    expected = (x.astype(np.int64) - 9) @ w.astype(np.int64)
    np.testing.assert_array_equal(matmul_int8(x, w.astype(ml_dtypes.int4), zero_point=9), expected)


def test_batched_matmul() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.integers(-128, 128, (3, 2, 5, 70), np.int8), rng.integers(-128, 128, (2, 70, 4), np.int8)
    expected = (x.astype(np.int64) + 3) @ w.astype(np.int64)
    np.testing.assert_array_equal(matmul_int8(x, w, zero_point=-3), expected)


@pytest.mark.parametrize("value", [-128, 127])
def test_overflow_of_int32_is_an_error(value: int) -> None:
    depth = 2**31 // 127**2 + 1400  # enough for 127 * -128 too
    x, w = np.full((1, depth), value, np.int8), np.full((depth, 1), -128, np.int8)
    with pytest.raises(ValueError, match=f"to {value * -128 * depth} do not fit into int32"):
        matmul_int8(x, w)


def test_a_sum_that_only_passes_through_large_values_is_exact() -> None:
    """The raw product and the zero point's correction lie outside int32 each, their sum does not."""
    depth = 2**31 // 128**2 + 8
    x, w = np.full((1, depth), -128, np.int8), np.full((depth, 1), -128, np.int8)
    x[0, -1] = -127
    assert int(matmul_int8(x, w, zero_point=-128)[0, 0]) == -128


def test_int32_limits_are_reached_exactly() -> None:
    x, w = np.array([[1]], np.int8), np.array([[1, -1]], np.int8)
    bias = np.array([2**31 - 2, 1 - 2**31], np.int32)
    np.testing.assert_array_equal(matmul_int8(x, w, bias), [[2**31 - 1, -(2**31)]])


@st.composite
def cases(draw: st.DrawFn) -> dict[str, object]:
    rank = draw(st.integers(1, 3))
    return {
        "rank": rank,
        "kernel": draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank)),
        "strides": draw(st.lists(st.integers(1, 2), min_size=rank, max_size=rank)),
        "dilations": draw(st.lists(st.integers(1, 2), min_size=rank, max_size=rank)),
        "pads": draw(st.lists(st.integers(0, 2), min_size=2 * rank, max_size=2 * rank)),
        "groups": draw(st.integers(1, 3)),
        "per_in": draw(st.integers(1, 3)),
        "zero_point": draw(st.sampled_from([-128, -1, 0, 127])),
        "extreme": draw(st.booleans()),
    }


def conv(x: Array, weight: Array, bias: Array | None = None, *, pads: Any, **geometry: Any) -> Array:
    return prepare_conv(weight, bias, x.dtype, **geometry)(x, pads).astype(np.int32, copy=False)


@given(case=cases())
@settings(max_examples=60)
def test_conv_is_exact(case) -> None:
    rng = np.random.default_rng(1)
    values = np.array([-128, 127]) if case["extreme"] else np.arange(-128, 128)
    groups, per_in, zero_point = case["groups"], case["per_in"], case["zero_point"]
    x = rng.choice(values, (2, groups * per_in, *[6] * case["rank"])).astype(np.int8)
    w = rng.choice(values, (groups * 2, per_in, *case["kernel"])).astype(np.int8)
    bias = rng.integers(-(2**16), 2**16, w.shape[0], np.int32)
    geometry = {k: case[k] for k in ("strides", "dilations", "groups")}
    y = conv(x, w, bias, zero_point=zero_point, pads=case["pads"], **geometry)
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y, exact_conv(x, w, bias, zero_point, case["pads"], **geometry))


def exact_conv(x, w, bias, zero_point, pads, strides, dilations, groups) -> Array:
    """int64 all through: the zero point is taken off first, padding is 0, one position of the window at a time."""
    n = len(strides)
    centred = np.pad(x.astype(np.int64) - zero_point, [(0, 0), (0, 0), *zip(pads[:n], pads[n:], strict=True)])
    sizes = zip(centred.shape[2:], w.shape[2:], strides, dilations, strict=True)
    out = [(s - d * (k - 1) - 1) // stride + 1 for s, k, stride, d in sizes]
    per_in, per_out = w.shape[1], w.shape[0] // groups
    y = np.zeros((x.shape[0], w.shape[0], *out), np.int64)
    for tap in np.ndindex(*w.shape[2:]):
        rows = zip(tap, out, strides, dilations, strict=True)
        view = centred[(..., *(slice(t * d, t * d + s * (o - 1) + 1, s) for t, o, s, d in rows))]
        for g in range(groups):
            weights = w[(slice(g * per_out, (g + 1) * per_out), slice(None), *tap)].astype(np.int64)
            y[:, g * per_out : (g + 1) * per_out] += np.einsum(
                "mc,nc...->nm...", weights, view[:, g * per_in : (g + 1) * per_in]
            )
    return y + bias.reshape(-1, *[1] * n)


@pytest.mark.parametrize(("channels", "groups"), [(113, 1), (114, 1), (512, 1), (456, 2)])
def test_conv_worst_case(channels: int, groups: int) -> None:
    # 113 channels of 3 x 3 are 1017 products, 114 are 1026
    per_in = channels // groups
    w = np.full((2 * groups, per_in, 3, 3), -128, np.int8)
    w[0, 0, 0, 0] = 1
    x = np.full((1, channels, 4, 5), -128, np.int8)
    x[0, 0, 1, 1] = 3
    bias = np.arange(2 * groups, dtype=np.int32)
    keys = {"strides": (1, 1), "dilations": (1, 1), "groups": groups}
    for zero_point in (0, 127):
        y = conv(x, w, bias, zero_point=zero_point, pads=(1, 1, 1, 1), **keys)
        np.testing.assert_array_equal(y, exact_conv(x, w, bias, zero_point, (1, 1, 1, 1), **keys))


def test_a_window_too_large_for_float32_is_still_exact() -> None:
    # 35 x 35 = 1225 products in one channel cannot be separated by channels
    x, w = np.full((1, 1, 40, 40), -128, np.int8), np.full((1, 1, 35, 35), -128, np.int8)
    w[0, 0, 0, 0] = x[0, 0, 3, 3] = 1
    keys = {"strides": (5, 1), "dilations": (1, 1), "groups": 1}
    expected = exact_conv(x, w, np.zeros(1, np.int64), 0, (0,) * 4, **keys)
    np.testing.assert_array_equal(conv(x, w, pads=(0,) * 4, **keys), expected)


def test_the_proof_decides_how_a_layer_runs() -> None:
    """sum |w| * 128 <= 2^24 lets any number of products into one float32 sum; one more unit of weight does not."""
    fits, exceeds = np.zeros((5000, 1), np.int8), np.zeros((5000, 1), np.int8)
    fits[:1032, 0], fits[1032, 0] = 127, 8  # 1032 * 127 + 8 = 131072 = 2^24 / 128
    exceeds[:1032, 0], exceeds[1032, 0] = 127, 9
    largest = integer._absolute_sums(fits, -2) * 128
    assert int(largest[0]) == 2**24
    assert integer._split(fits, np.dtype(np.int8), largest, 1) == (np.dtype(np.float32), 5000)
    largest = integer._absolute_sums(exceeds, -2) * 128
    # slices of at most 2^24 / (128 * 127) = 1032 products
    assert integer._split(exceeds, np.dtype(np.int8), largest, 1) == (np.dtype(np.float32), 1032)


def test_prepared_weights_serve_many_calls() -> None:
    rng = np.random.default_rng(0)
    w, x = rng.integers(-128, 128, (4, 3, 3, 3), np.int8), rng.integers(-128, 128, (2, 3, 8, 8), np.int8)
    keys = {"strides": (1, 1), "dilations": (1, 1), "groups": 1}
    run = prepare_conv(w, zero_point=1, **keys)
    for image in (x[:1], x[1:]):
        once = conv(image, w, zero_point=1, pads=(1,) * 4, **keys)
        np.testing.assert_array_equal(run(image, (1,) * 4), once)
    product = prepare_matmul(w[0, 0], zero_point=1)
    np.testing.assert_array_equal(product(x[0, 0, :, :3]), matmul_int8(x[0, 0, :, :3], w[0, 0], zero_point=1))


@pytest.mark.parametrize(("depth", "low"), [(7, -128), (2049, -128), (2049, 0)])
def test_large_weights_become_floats_by_columns(depth: int, low: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(depth)
    dtype = np.int8 if low else np.uint8
    w, x = rng.integers(-128, 128, (depth, 300), np.int8), rng.integers(low, low + 256, (2, 3, depth)).astype(dtype)
    monkeypatch.setattr(integer, "KEPT_WEIGHT", 0)
    product = prepare_matmul(w, np.arange(300, dtype=np.int32), x.dtype, zero_point=5)
    np.testing.assert_array_equal(product(x), (x.astype(np.int64) - 5) @ w.astype(np.int64) + np.arange(300))


def test_depth_zero_gives_the_bias() -> None:
    y = matmul_int8(np.zeros((2, 0), np.int8), np.zeros((0, 3), np.int8), np.array([1, 2, 3], np.int32))
    np.testing.assert_array_equal(y, [[1, 2, 3]] * 2)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
def test_products_of_any_integers_wrap_around(dtype: type) -> None:
    rng = np.random.default_rng(0)
    info = np.iinfo(dtype)
    for low, high in ((max(info.min, -9), 9), (info.min, info.max)):
        a = rng.integers(low, high, (2, 3, 4), dtype, endpoint=True)
        b = rng.integers(low, high, (4, 5), dtype, endpoint=True)
        bits = 8 * np.dtype(dtype).itemsize
        exact = a.astype(object) @ b.astype(object)
        wrapped = np.vectorize(lambda v, bits=bits: int(v) % 2**bits, otypes=[object])(exact)
        np.testing.assert_array_equal(matmul_any(a, b).astype(object) % 2**bits, wrapped)
