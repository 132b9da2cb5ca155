"""Pooling against windows written out one by one."""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from amct_opt.dialects import nn
from amct_opt.dialects.nn.shapes import window_size
from amct_opt.runtime.kernels import Array


def naive_pool(x: Array, g: dict[str, Any], out: list[int]) -> tuple[Array, Array, Array]:
    """Largest element, mean of what lies in the input, and mean of what lies in the padded input, of every window."""
    n = len(out)
    largest, mean, padded_mean = (np.empty((*x.shape[:2], *out)) for _ in range(3))
    for at in product(*map(range, out)):
        spans = [
            [a * s - b + t * d for t in range(k)]
            for a, s, b, k, d in zip(at, g["strides"], g["pads"], g["kernel"], g["dilations"], strict=False)
        ]
        inside = [[p for p in span if 0 <= p < size] for span, size in zip(spans, x.shape[2:], strict=True)]
        padded = [
            [p for p in span if -b <= p < size + e]
            for span, size, b, e in zip(spans, x.shape[2:], g["pads"][:n], g["pads"][n:], strict=True)
        ]
        values = x[np.ix_(range(x.shape[0]), range(x.shape[1]), *inside)].reshape(*x.shape[:2], -1).astype(np.float64)
        largest[(..., *at)] = values.max(-1, initial=-np.inf)
        mean[(..., *at)] = values.sum(-1) / max(values.shape[-1], 1)
        padded_mean[(..., *at)] = values.sum(-1) / np.prod([len(p) for p in padded])
    return largest, mean, padded_mean


@st.composite
def geometries(draw: st.DrawFn) -> dict[str, Any]:
    rank = draw(st.integers(1, 3))
    kernel = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    return {
        "kernel": kernel,
        "strides": draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank)),
        "dilations": draw(st.lists(st.integers(1, 2), min_size=rank, max_size=rank)),
        # less than the kernel, so that no window lies in the padding alone
        "pads": [draw(st.integers(0, k - 1)) for k in kernel * 2],
        "ceil_mode": draw(st.booleans()),
        "spatial": draw(st.lists(st.integers(1, 7), min_size=rank, max_size=rank)),
    }


@given(g=geometries(), layout=st.sampled_from(["nchw", "nhwc"]))
@settings(max_examples=150)
def test_pools_of_any_geometry(run, g: dict[str, Any], layout: str) -> None:
    rank = len(g["kernel"])
    spans = [d * (k - 1) + 1 for k, d in zip(g["kernel"], g["dilations"], strict=True)]
    sums = zip(g["spatial"], g["pads"][:rank], g["pads"][rank:], spans, strict=True)
    assume(all(s + b + e >= span for s, b, e, span in sums))
    x = np.random.default_rng(0).integers(-9, 10, (2, 3, *g["spatial"])).astype(np.float32)
    rows = zip(g["spatial"], g["kernel"], g["strides"], g["dilations"], g["pads"][:rank], g["pads"][rank:], strict=True)
    out = [window_size(s, k, t, d, b, e, g["ceil_mode"]) for s, k, t, d, b, e in rows]
    largest, mean, padded_mean = naive_pool(x, g, out)
    # a dilated window can still miss the input: it has no mean, and the padding as its largest element
    met = np.isfinite(largest)
    keys = {k: g[k] for k in ("kernel", "strides", "dilations", "pads", "ceil_mode")}
    last = layout == "nhwc"
    image = np.moveaxis(x, 1, -1) if last else x

    def pooled(op: type[nn.PoolOp], **more: Any) -> Array:
        y = run(op, image, layout=layout, **keys, **more)
        return np.moveaxis(y, -1, 1) if last else y

    np.testing.assert_array_equal(pooled(nn.MaxPoolOp), largest)
    # exact sums, one division per axis: at most 3 roundings
    np.testing.assert_allclose(pooled(nn.AveragePoolOp)[met], mean[met], rtol=3e-7)
    np.testing.assert_allclose(pooled(nn.AveragePoolOp, count_include_pad=True), padded_mean, rtol=3e-7)


@pytest.mark.parametrize(("same", "pads"), [("same_upper", (0, 0, 1, 1)), ("same_lower", (1, 1, 0, 0))])
def test_same_padding(run, small_integers, same, pads) -> None:
    # ceil(8 / 3) windows of 3 and ceil(9 / 2) of 2 need one element more than there is, on each axis
    x = small_integers((1, 2, 8, 9))
    geometry = {"kernel": (3, 2), "strides": (3, 2)}
    largest, mean, _ = naive_pool(x, {**geometry, "pads": pads, "dilations": (1, 1)}, [3, 5])
    np.testing.assert_array_equal(run(nn.MaxPoolOp, x, auto_pad=same, dynamic=True, **geometry), largest)
    np.testing.assert_allclose(run(nn.AveragePoolOp, x, auto_pad=same, dynamic=True, **geometry), mean, rtol=3e-7)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float16, ml_dtypes.bfloat16, np.float64])
def test_max_pool_of_other_types(run, dtype) -> None:
    x = np.array([[[-3, -7, -5, -128]]]).astype(dtype)
    expected = np.maximum(x[..., :-1], x[..., 1:])
    np.testing.assert_array_equal(run(nn.MaxPoolOp, x, kernel=(2,), pads=(1, 1))[..., 1:-1], expected)
    # padding never wins
    np.testing.assert_array_equal(run(nn.MaxPoolOp, x, kernel=(2,), pads=(1, 1))[..., 0], x[..., 0])


def test_nan_is_the_largest(run) -> None:
    x = np.array([[[1, np.nan, 2, 3]]], np.float32)
    np.testing.assert_array_equal(run(nn.MaxPoolOp, x, kernel=(2,)), [[[np.nan, np.nan, 3]]])


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_global_pools(run, small_integers, layout) -> None:
    x = small_integers((2, 3, 4, 8))  # a power of two of elements: the mean is exact
    axes = (1, 2) if layout == "nhwc" else (2, 3)
    np.testing.assert_array_equal(run(nn.GlobalAveragePoolOp, x, layout=layout), x.mean(axes, keepdims=True))
    np.testing.assert_array_equal(run(nn.GlobalMaxPoolOp, x, layout=layout), x.max(axes, keepdims=True))


def test_means_of_float16_are_wider_inside(run) -> None:
    x = np.full((1, 1, 64, 64), 60000, np.float16)
    assert run(nn.GlobalAveragePoolOp, x).reshape(-1).tolist() == [60000 // 32 * 32]
    assert run(nn.AveragePoolOp, x, kernel=(64, 64)).reshape(-1).tolist() == [60000 // 32 * 32]
