"""Elementwise kernels against the formula in float64, and against onnx.reference where types matter."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from amct_opt.dialects import nn
from amct_opt.ir.dtypes import element_type
from amct_opt.runtime.erf import erf
from amct_opt.runtime.kernels import Array

BF16 = ml_dtypes.bfloat16


def softplus(v: float) -> float:
    return max(v, 0) + math.log1p(math.exp(-abs(v)))


FORMULAS: list[tuple[type[nn.UnaryOp], dict[str, Any], Callable[[float], float]]] = [
    (nn.SigmoidOp, {}, lambda v: 1 / (1 + math.exp(-v))),
    (nn.TanhOp, {}, math.tanh),
    (nn.SoftplusOp, {}, softplus),
    (nn.SoftsignOp, {}, lambda v: v / (1 + abs(v))),
    (nn.MishOp, {}, lambda v: v * math.tanh(softplus(v))),
    (nn.ErfOp, {}, math.erf),
    (nn.ExpOp, {}, math.exp),
    (nn.SinOp, {}, math.sin),
    (nn.CosOp, {}, math.cos),
    (nn.GeluOp, {}, lambda v: v * 0.5 * math.erfc(-v / math.sqrt(2))),
    (
        nn.GeluOp,
        {"tanh_approximation": True},
        lambda v: v / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))),
    ),
    (nn.EluOp, {"alpha": 0.5}, lambda v: v if v > 0 else 0.5 * math.expm1(v)),
    (nn.SeluOp, {"alpha": 2.0, "gamma": 3.0}, lambda v: 3 * (v if v > 0 else 2 * math.expm1(v))),
    (nn.LeakyReluOp, {"alpha": 0.25}, lambda v: v if v > 0 else 0.25 * v),
    (nn.LeakyReluOp, {"alpha": -2.0}, lambda v: v if v > 0 else -2 * v),
    (nn.HardSigmoidOp, {"alpha": 0.25, "beta": 0.625}, lambda v: max(0, min(1, 0.25 * v + 0.625))),
    (nn.HardSwishOp, {}, lambda v: v * max(0, min(1, v / 6 + 0.5))),
    (nn.ReciprocalOp, {}, lambda v: 1 / v),
    (nn.FloorOp, {}, math.floor),
    (nn.CeilOp, {}, math.ceil),
    (nn.RoundOp, {}, round),  # Python rounds halves to even
    (nn.ReluOp, {}, lambda v: max(v, 0)),
    (nn.Relu6Op, {}, lambda v: min(max(v, 0), 6)),
    (nn.ClipOp, {"min": -1.5, "max": 2.0}, lambda v: min(max(v, -1.5), 2)),
    (nn.ClipOp, {"max": 2.0}, lambda v: min(v, 2)),
    (nn.ClipOp, {"min": 3.0, "max": 2.0}, lambda v: 2),
    (nn.NegOp, {}, lambda v: -v),
    (nn.AbsOp, {}, abs),
]
POSITIVE: list[tuple[type[nn.UnaryOp], dict[str, Any], Callable[[float], float]]] = [
    (nn.LogOp, {}, math.log),
    (nn.SqrtOp, {}, math.sqrt),
    (nn.RsqrtOp, {}, lambda v: 1 / math.sqrt(v)),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, BF16])
@pytest.mark.parametrize(("op", "properties", "formula"), FORMULAS + POSITIVE)
def test_functions(run, op, properties, formula, dtype) -> None:
    x = np.concatenate([np.linspace(-9, 9, 181), [-2.5, -0.5, 0.5, 1.5, 2.5, 1e-3, -1e-3]])
    x = x[x != 0]
    x = np.abs(x) if any(op is row[0] for row in POSITIVE) else x
    x = x.astype(dtype).reshape(-1, 1)
    expected = np.array([[formula(float(v))] for v in x[:, 0]])
    y = run(op, x, dynamic=True, **properties).astype(np.float64)
    # a few roundings of the computing type, each at most eps relative to the largest intermediate value (below 10);
    # then one rounding to the type itself
    computing = np.finfo(np.float64 if dtype == np.float64 else np.float32).eps
    eps = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_array_less(
        np.abs(y - expected), 40 * computing + (eps + 8 * computing) * np.abs(expected) + 1e-300
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("op", "properties", "formula"), FORMULAS + POSITIVE)
def test_single_numbers(run, op, properties, formula, dtype) -> None:
    y = run(op, np.asarray(1.25, dtype), **properties)
    assert (y.shape, y.dtype) == ((), dtype)
    np.testing.assert_allclose(float(y), formula(1.25), rtol=2e-3)


def test_erf_is_as_exact_as_float32_allows() -> None:
    x = np.concatenate([np.linspace(-6, 6, 60001), np.logspace(-38, 0, 2000)]).astype(np.float32)
    exact = np.array([math.erf(v) for v in x.astype(np.float64)])
    # half a unit for the rounding, and what the quotient may be off: 1.8e-9 / 2^-24 units
    units = np.abs(erf(x) - exact) / np.spacing(np.abs(exact).astype(np.float32))
    assert units.max() <= 0.54
    y = erf(np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32))
    np.testing.assert_array_equal(y, np.array([1, -1, np.nan, 0, -0.0], np.float32))
    assert np.signbit(y[4])


def test_erf_of_float64_and_of_views() -> None:
    x = np.linspace(-3, 3, 24).reshape(4, 6)
    np.testing.assert_array_equal(erf(x), np.vectorize(math.erf)(x))
    view = x.astype(np.float32).T[::2]
    np.testing.assert_array_equal(erf(view), erf(view.copy()))
    assert erf(np.zeros((0, 3), np.float32)).shape == (0, 3)


@pytest.mark.parametrize("op", [row[0] for row in FORMULAS + POSITIVE])
def test_infinities_and_nan_make_no_noise(run, op) -> None:
    """Warnings are errors in these tests; NaN stays NaN."""
    y = run(op, np.array([np.inf, -np.inf, np.nan, 0.0, 3e38, -3e38], np.float32))
    assert np.isnan(y[2])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_clips_of_integers(run, dtype) -> None:
    x = np.arange(256).astype(dtype)
    np.testing.assert_array_equal(run(nn.ReluOp, x), np.maximum(x, 0))
    np.testing.assert_array_equal(run(nn.Relu6Op, x), np.clip(x, 0, 6))
    np.testing.assert_array_equal(run(nn.ClipOp, x, min=-1000.0, max=100.0), np.minimum(x, 100))


BINARY = [
    (nn.AddOp, "Add", {}),
    (nn.SubOp, "Sub", {}),
    (nn.MulOp, "Mul", {}),
    (nn.MinOp, "Min", {}),
    (nn.MaxOp, "Max", {}),
    (nn.CompareOp, "Equal", {"predicate": "eq"}),
    (nn.CompareOp, "Less", {"predicate": "lt"}),
    (nn.CompareOp, "LessOrEqual", {"predicate": "le"}),
    (nn.CompareOp, "Greater", {"predicate": "gt"}),
    (nn.CompareOp, "GreaterOrEqual", {"predicate": "ge"}),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16, np.int32, np.uint8])
@pytest.mark.parametrize(("op", "onnx_op", "properties"), BINARY)
def test_binary_operations_broadcast(run, reference, rng, op, onnx_op, properties, dtype) -> None:
    a, b = rng.integers(-5, 6, (2, 1, 4)).astype(dtype), rng.integers(-5, 6, (3, 1)).astype(dtype)
    y = run(op, a, b, **properties)
    assert y.shape == (2, 3, 4)
    np.testing.assert_array_equal(y, reference(onnx_op, a, b))


def test_nan_wins_and_unequal(run) -> None:
    a, b = np.array([np.nan, 1, 2], np.float32), np.array([1, np.nan, 3], np.float32)
    for op in (nn.MinOp, nn.MaxOp):
        assert np.isnan(run(op, a, b)).tolist() == [True, True, False]
    assert run(nn.CompareOp, a, a, predicate="ne").tolist() == [True, False, False]


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_integer_division_truncates(run, dtype) -> None:
    a = np.array([7, -7, 7, -7, 6, -6, 0, -128], dtype)
    b = np.array([2, 2, -2, -2, 3, 3, -5, 127], dtype)
    assert run(nn.DivOp, a, b).tolist() == [3, -3, -3, 3, 2, -2, 0, -1]


def test_division(run) -> None:
    assert run(nn.DivOp, np.array([200, 7], np.uint8), np.array([3, 8], np.uint8)).tolist() == [66, 0]
    y = run(nn.DivOp, np.array([1, -1, 0], np.float32), np.zeros(1, np.float32))
    np.testing.assert_array_equal(y, [np.inf, -np.inf, np.nan])
    with pytest.raises(ValueError, match="integer division by zero"):
        run(nn.DivOp, np.ones(2, np.int32), np.array([1, 0], np.int32))


def test_powers(run) -> None:
    x = np.array([-2, 0, 1.5, 3], np.float32)
    np.testing.assert_array_equal(run(nn.PowOp, x, np.array([2], np.int64)), x * x)
    np.testing.assert_array_equal(run(nn.PowOp, x, np.array([3], np.float32)), x**3)
    np.testing.assert_array_equal(run(nn.PowOp, x, np.array([0, 1, 1, -1], np.float32)), [1, 0, 1.5, np.float32(1) / 3])
    assert np.isnan(run(nn.PowOp, x, np.array([0.5], np.float32))[0])
    # an integer base keeps its type: exact while the exponent is a natural number, else rounded towards zero
    big = np.array([3**39, 2], np.int64)
    assert run(nn.PowOp, big, np.array([1, 62], np.int64)).tolist() == [3**39, 2**62]
    assert run(nn.PowOp, np.array([9, 2], np.int32), np.array([0.5, -1], np.float32)).tolist() == [3, 0]
    # the exponent's shape counts even where its value has a shortcut
    assert run(nn.PowOp, x[:1], np.array([[[2.0]]], np.float32)).shape == (1, 1, 1)
    half = np.array([300], np.float16)
    assert run(nn.PowOp, half, np.array([2], np.float16)).tolist() == [np.inf]  # 90000 exceeds 65504


def test_prelu_where_and_logic(run, reference, rng) -> None:
    x, slope = rng.normal(size=(2, 3, 4)).astype(np.float32), rng.normal(size=(3, 1)).astype(np.float32)
    np.testing.assert_array_equal(run(nn.PReluOp, x, slope), np.where(x < 0, x * slope, x))
    c = rng.integers(0, 2, (3, 1)).astype(bool)
    np.testing.assert_array_equal(run(nn.WhereOp, c, x, -x[:1, :1]), reference("Where", c, x, -x[:1, :1]))
    p, q = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert run(nn.AndOp, p, q).tolist() == [True, False, False, False]
    assert run(nn.OrOp, p, q).tolist() == [True, True, True, False]
    assert run(nn.NotOp, p).tolist() == [False, False, True, True]


def cast(run, x: Array, dtype: Any) -> Array:
    from xdsl.dialects.builtin import TensorType

    return run(nn.CastOp, x, result_types=[TensorType(element_type(np.dtype(dtype)), x.shape)])


def test_casts(run) -> None:
    x = np.array([-1.9, -0.5, 0, 0.5, 2.7, 127.5], np.float32)
    assert cast(run, x, np.int8).tolist() == [-1, 0, 0, 0, 2, 127]
    assert cast(run, x, np.bool_).tolist() == [True, True, False, True, True, True]
    assert cast(run, x, np.int64).tolist() == [-1, 0, 0, 0, 2, 127]
    assert cast(run, np.array([300, -1, 511], np.float32), np.uint8).tolist() == [44, 255, 255]
    assert cast(run, np.array([300, -1], np.int32), np.int8).tolist() == [44, -1]
    assert cast(run, np.array([1e30, np.nan], np.float32), np.float16).tolist()[0] == np.inf
    assert cast(run, np.array([True, False]), np.float32).tolist() == [1, 0]
    assert cast(run, np.array([1.00390625], np.float32), BF16).astype(float).tolist() == [1.0]  # halfway: to even
    assert cast(run, np.array([-8, 7], np.int8), ml_dtypes.int4).astype(int).tolist() == [-8, 7]
    assert cast(run, np.array([3.9, -3.9], np.float32), ml_dtypes.int4).astype(int).tolist() == [3, -3]
