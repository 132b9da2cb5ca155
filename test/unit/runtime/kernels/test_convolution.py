"""Convolutions against sums written out in float64. Small integers make float32 exact, so nothing is tolerated."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from amct_opt.dialects import nn
from amct_opt.runtime import convolve as core
from amct_opt.runtime.kernels import Array


def naive_conv(x: Array, w: Array, strides, pads, dilations, groups) -> Array:
    """One output position and group at a time, float64."""
    n = len(strides)
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *zip(pads[:n], pads[n:], strict=True)])
    spans = [d * (k - 1) + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    out = [(s - span) // st_ + 1 for s, span, st_ in zip(padded.shape[2:], spans, strides, strict=True)]
    y = np.zeros((x.shape[0], w.shape[0], *out))
    per_in, per_out = w.shape[1], w.shape[0] // groups
    for g, position in product(range(groups), product(*map(range, out))):
        window = tuple(
            slice(p * s, p * s + span, d) for p, s, span, d in zip(position, strides, spans, dilations, strict=True)
        )
        patch = padded[(slice(None), slice(g * per_in, (g + 1) * per_in), *window)].reshape(x.shape[0], -1)
        rows = slice(g * per_out, (g + 1) * per_out)
        y[(slice(None), rows, *position)] = patch @ w[rows].astype(np.float64).reshape(per_out, -1).T
    return y


@st.composite
def geometries(draw: st.DrawFn) -> dict[str, Any]:
    rank = draw(st.integers(1, 3))
    most = {1: 11, 2: 9, 3: 5}[rank]
    kernel = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    dilations = draw(st.lists(st.integers(1, 2), min_size=rank, max_size=rank))
    pads = draw(st.lists(st.integers(0, 2), min_size=2 * rank, max_size=2 * rank))
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
    least = [max(1, s - b - e) for s, b, e in zip(spans, pads[:rank], pads[rank:], strict=True)]
    return {
        "spatial": [draw(st.integers(low, max(most, low))) for low in least],
        "kernel": kernel,
        "strides": draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank)),
        "dilations": dilations,
        "pads": pads,
        "groups": draw(st.integers(1, 3)),
        "per_in": draw(st.integers(1, 3)),
        "per_out": draw(st.integers(1, 3)),
        "batch": draw(st.integers(1, 2)),
    }


def arrays_of(g: dict[str, Any]) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, (g["batch"], g["groups"] * g["per_in"], *g["spatial"])).astype(np.float32)
    w = rng.integers(-4, 5, (g["groups"] * g["per_out"], g["per_in"], *g["kernel"])).astype(np.float32)
    return x, w, rng.integers(-4, 5, w.shape[0]).astype(np.float32)


@given(
    g=geometries(),
    layout=st.sampled_from(["nchw", "nhwc"]),
    dynamic=st.booleans(),
    block=st.sampled_from([1, 600, 2**22]),
)
@settings(max_examples=150)
def test_conv_of_any_geometry(run, g: dict[str, Any], layout: str, dynamic: bool, block: int) -> None:
    x, w, b = arrays_of(g)
    keys = {k: g[k] for k in ("strides", "pads", "dilations", "groups")}
    expected = naive_conv(x, w, **keys) + b.reshape(-1, *[1] * len(g["kernel"]))
    last = layout == "nhwc"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core, "COLUMN_BYTES", block)  # 1: one output row at a time; 600: a few channels
        y = run(nn.ConvOp, np.moveaxis(x, 1, -1) if last else x, w, b, layout=layout, dynamic=dynamic, **keys)
    np.testing.assert_array_equal(np.moveaxis(y, -1, 1) if last else y, expected)


@pytest.mark.parametrize("same", ["same_upper", "same_lower"])
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "dilation"), [(7, 4, 2, 1), (8, 3, 2, 1), (5, 2, 1, 2), (6, 1, 4, 1)]
)
def test_conv_same_padding(run, small_integers, same, size, kernel, stride, dilation) -> None:
    x, w = small_integers((1, 2, size, size + 1)), small_integers((3, 2, kernel, kernel))
    total = [max((-(-s // stride) - 1) * stride + dilation * (kernel - 1) + 1 - s, 0) for s in (size, size + 1)]
    upper = [t // 2 for t in total]
    begins = upper if same == "same_upper" else [t - t // 2 for t in total]
    pads = [*begins, *(t - b for t, b in zip(total, begins, strict=True))]
    geometry = {"strides": (stride, stride), "dilations": (dilation, dilation)}
    y = run(nn.ConvOp, x, w, auto_pad=same, dynamic=True, **geometry)
    np.testing.assert_array_equal(y, naive_conv(x, w, pads=pads, groups=1, **geometry))
    assert y.shape[2:] == (-(-size // stride), -(-(size + 1) // stride))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_conv_of_other_float_types_is_rounded_once(run, small_integers, dtype) -> None:
    # 2 * 64 * 9 products of at most 16: float32 holds the sum exactly, the result is its rounding
    x, w, b = small_integers((2, 64, 5, 5)), small_integers((3, 64, 3, 3)), small_integers((3,))
    y = run(nn.ConvOp, x.astype(dtype), w.astype(dtype), b.astype(dtype))
    exact = naive_conv(x, w, (1, 1), (0,) * 4, (1, 1), 1) + b.reshape(-1, 1, 1)
    np.testing.assert_array_equal(y, exact.astype(dtype))


def test_conv_of_a_transposed_view(run, small_integers) -> None:
    x, w = small_integers((1, 5, 6, 3)).transpose(0, 3, 1, 2), small_integers((4, 3, 3, 3))
    keys = {"strides": (1, 2), "pads": (1, 0, 1, 0), "dilations": (1, 1), "groups": 1}
    np.testing.assert_array_equal(run(nn.ConvOp, x, w, **keys), naive_conv(x, w, **keys))


def test_results_survive_the_next_call(run, small_integers) -> None:
    """Working memory is used again, results must not lie in it."""
    w = small_integers((2, 2, 3, 3))
    first = run(nn.ConvOp, small_integers((1, 2, 6, 6)), w, pads=(1,) * 4)
    kept = first.copy()
    run(nn.ConvOp, small_integers((1, 2, 6, 6)), w, pads=(1,) * 4)
    np.testing.assert_array_equal(first, kept)


def test_huge_images_use_bounded_columns(run, small_integers) -> None:
    x, w = small_integers((1, 1, 3000, 700)), small_integers((2, 1, 3, 3))
    keys = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1), "groups": 1}
    y = run(nn.ConvOp, x, w, **keys)
    assert 9 * prod(y.shape[2:]) * 4 > 4 * core.COLUMN_BYTES, "not large enough to be cut into blocks"
    corner = naive_conv(x[..., :40, :40], w, **keys)
    np.testing.assert_array_equal(y[..., :39, :39], corner[..., :39, :39])
    bottom = naive_conv(x[..., -40:, -40:], w, **keys)
    np.testing.assert_array_equal(y[..., -39:, -39:], bottom[..., -39:, -39:])


def test_wrong_channels_are_refused() -> None:
    x, w = np.zeros((1, 4, 5, 5), np.float32), np.zeros((2, 3, 3, 3), np.float32)
    with pytest.raises(ValueError, match="4 input channels for 1 groups of 3"):
        core.convolve(x, w, strides=(1, 1), dilations=(1, 1), pads=(0,) * 4, groups=1)


def naive_conv_transpose(x: Array, w: Array, strides, pads, dilations, extra, groups) -> Array:
    """Every input element spreads the kernel over the output, float64; pads (also negative ones) are cut off."""
    n = len(strides)
    sizes = zip(x.shape[2:], w.shape[2:], strides, dilations, extra, strict=True)
    full = [s_ * (s - 1) + e + d * (k - 1) + 1 for s, k, s_, d, e in sizes]
    y = np.zeros((x.shape[0], w.shape[1] * groups, *full))
    per_in, per_out = x.shape[1] // groups, w.shape[1]
    for g, at, tap in product(range(groups), product(*map(range, x.shape[2:])), product(*map(range, w.shape[2:]))):
        to = tuple(a * s + t * d for a, s, t, d in zip(at, strides, tap, dilations, strict=True))
        values = x[(slice(None), slice(g * per_in, (g + 1) * per_in), *at)].astype(np.float64)
        weights = w[(slice(g * per_in, (g + 1) * per_in), slice(None), *tap)].astype(np.float64)
        y[(slice(None), slice(g * per_out, (g + 1) * per_out), *to)] += values @ weights
    grown = np.pad(y, [(0, 0), (0, 0), *((max(-b, 0), max(-e, 0)) for b, e in zip(pads[:n], pads[n:], strict=True))])
    cut = [slice(max(b, 0), size - max(e, 0)) for b, e, size in zip(pads[:n], pads[n:], grown.shape[2:], strict=True)]
    return grown[(slice(None), slice(None), *cut)]


@given(g=geometries(), layout=st.sampled_from(["nchw", "nhwc"]))
@settings(max_examples=80)
def test_conv_transpose_of_any_geometry(run, g: dict[str, Any], layout: str) -> None:
    x, _, _ = arrays_of(g)
    rng = np.random.default_rng(1)
    w = rng.integers(-4, 5, (x.shape[1], g["per_out"], *g["kernel"])).astype(np.float32)
    b = rng.integers(-4, 5, w.shape[1] * g["groups"]).astype(np.float32)
    extra = [s - 1 for s in g["strides"]]
    rank = len(extra)
    sizes = zip(x.shape[2:], g["kernel"], g["strides"], g["dilations"], extra, strict=True)
    full = [s_ * (s - 1) + e + d * (k - 1) + 1 for s, k, s_, d, e in sizes]
    pads = [min(p, (f - 1) // 2) for p, f in zip(g["pads"], full * 2, strict=True)]
    keys = {"strides": g["strides"], "pads": pads, "dilations": g["dilations"], "groups": g["groups"]}
    last = layout == "nhwc"
    image = np.moveaxis(x, 1, -1) if last else x
    y = run(nn.ConvTransposeOp, image, w, b, output_padding=extra, layout=layout, **keys)
    expected = naive_conv_transpose(x, w, extra=extra, **keys) + b.reshape(-1, *[1] * rank)
    np.testing.assert_array_equal(np.moveaxis(y, -1, 1) if last else y, expected)


@pytest.mark.parametrize(
    ("properties", "attributes"),
    [
        ({"output_shape": (10, 8)}, {"output_shape": [10, 8]}),
        ({"auto_pad": "same_upper"}, {"auto_pad": "SAME_UPPER"}),
        ({"auto_pad": "same_lower"}, {"auto_pad": "SAME_LOWER"}),
    ],
)
def test_conv_transpose_sizes_from_elsewhere(run, reference, small_integers, properties, attributes) -> None:
    x, w = small_integers((1, 1, 3, 3)), small_integers((1, 2, 3, 3))
    y = run(nn.ConvTransposeOp, x, w, strides=(3, 2), **properties)
    np.testing.assert_array_equal(y, reference("ConvTranspose", x, w, strides=[3, 2], **attributes))
