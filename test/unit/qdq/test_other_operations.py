"""Sums, products, pools and joins in integers equal onnxruntime's; what it has in tables differs by one step at most."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.dialects import nn

from .nets import Chain, Point, reals
from .peer import both

SHAPE = (2, 6, 13, 12)
A, B, OUT = Point(0.031, 5), Point(0.017, -77), Point(0.043, -11)


def every_pair() -> tuple[np.ndarray, np.ndarray]:
    """`[256, 256]` twice: each pair of integers of 8 bits."""
    first, second = np.meshgrid(np.arange(-128, 128), np.arange(-128, 128), indexing="ij")
    return first, second


SUMS = {
    "of different scales": (A, B, OUT),
    "of equal scales": (OUT, OUT, OUT),
    "with ties": (Point(2**-5, 1), Point(2**-6, -2), Point(2**-4, 3)),
    "that saturate": (Point(0.2, 100), Point(0.1, -128), Point(0.05)),
    "of far apart scales": (Point(1e-4, 3), Point(3.0, -128), Point(0.7, 17)),
}


KINDS = {"QLinearAdd": nn.AddOp, "QLinearMul": nn.MulOp}


@pytest.mark.parametrize("kernel", KINDS)
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("relu", [False, True])
def test_elementwise(kernel: str, name: str, relu: bool, tmp_path: Path) -> None:
    """All pairs of integers."""
    a, b, out = SUMS[name]
    net = Chain(256, 256)
    y = net.add(KINDS[kernel], net.at(net.x, a), net.at(net.input(256, 256), b))
    y = net.add(nn.ReluOp, y) if relu else y
    first, second = every_pair()
    arrays = [((q - p.zero_point) * np.float32(p.scale)).astype(np.float32) for q, p in ((first, a), (second, b))]
    pair = both(net.module(net.at(y, out)), arrays, tmp_path)
    assert pair.kernels[kernel] == 1
    assert pair.differing == 0


@pytest.mark.parametrize("kernel", KINDS)
@pytest.mark.parametrize("other", [(1, 6, 1, 1), (12,), (2, 1, 13, 12), (1,)])
def test_elementwise_that_broadcasts(kernel: str, other: tuple[int, ...], tmp_path: Path) -> None:
    net = Chain(*SHAPE)
    y = net.add(KINDS[kernel], net.at(net.x, A), net.at(net.input(*other), B))
    pair = both(net.module(net.at(y, OUT)), [reals(net.rng, SHAPE, A), reals(net.rng, other, B)], tmp_path)
    assert pair.kernels[kernel] == 1
    assert pair.differing == 0


WINDOWS: dict[str, dict[str, Any]] = {
    "plain": {"kernel": (3, 2)},
    "strides": {"kernel": (2, 2), "strides": (2, 2)},
    "padding": {"kernel": (3, 3), "strides": (2, 1), "pads": (1, 1, 1, 1)},
    "padding counted": {"kernel": (3, 3), "pads": (1, 1, 1, 1), "count_include_pad": True},
    "large": {"kernel": (13, 12)},
}


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("out", [OUT, Point(2**-6, 1), Point(0.004, -128)])
def test_average_pools(name: str, out: Point, tmp_path: Path) -> None:
    net = Chain(*SHAPE)
    point = Point(2**-5, -3)
    y = net.add(nn.AveragePoolOp, net.at(net.x, point), **WINDOWS[name])
    pair = both(net.module(net.at(y, out)), [reals(net.rng, SHAPE, point)], tmp_path)
    assert pair.kernels["QLinearAveragePool"] == 1
    assert pair.differing == 0


def test_windows_beyond_padding_that_counts(tmp_path: Path) -> None:
    """The last windows hold 4 or 6 positions of the padded input; onnxruntime divides their sums by 9."""
    net, point, out = Chain(1, 1, 3, 4), Point(0.05), Point(0.01, -128)
    y = net.add(
        nn.AveragePoolOp,
        net.at(net.x, point),
        kernel=(3, 3),
        strides=(2, 2),
        pads=(0, 0, 0, 0),
        ceil_mode=True,
        count_include_pad=True,
    )
    x = np.ones((1, 1, 3, 4), np.float32)
    pair = both(net.module(net.at(y, out)), [x], tmp_path)
    assert pair.kernels["QLinearAveragePool"] == 1
    np.testing.assert_allclose(pair.ours[0].ravel(), [1, 1], atol=0.005)
    np.testing.assert_allclose(pair.theirs[0].ravel(), [1, 6 / 9], atol=0.005)


@pytest.mark.parametrize("out", [OUT, Point(2**-9, 1), Point(0.004, -128)])
@pytest.mark.parametrize("space", [(13, 12), (8, 8), (1, 1)])
def test_global_average_pools(out: Point, space: tuple[int, int], tmp_path: Path) -> None:
    net = Chain(3, 40, *space)
    point = Point(2**-5, -3)
    y = net.add(nn.GlobalAveragePoolOp, net.at(net.x, point))
    pair = both(net.module(net.at(y, out)), [reals(net.rng, (3, 40, *space), point)], tmp_path)
    assert pair.kernels["QLinearGlobalAveragePool"] == 1
    assert pair.differing == 0


def test_maxima_and_movements_stay_integers(tmp_path: Path) -> None:
    """Between two convolutions: what is computed there moves integers."""
    net = Chain(1, 4, 12, 12)
    y = net.at(net.weighted(nn.ConvOp, net.at(net.x, A), A, (8, 4, 3, 3), 0.004), B)
    y = net.add(nn.MaxPoolOp, y, kernel=(2, 2), strides=(2, 2))
    y = net.add(nn.TransposeOp, y, perm=(0, 1, 3, 2))
    y = net.add(nn.PadOp, y, pads=(0, 0, 1, 0, 0, 0, 1, 2))
    y = net.at(net.weighted(nn.ConvOp, y, B, (5, 8, 3, 3), 0.004), OUT)
    pair = both(net.module(y), [reals(net.rng, (1, 4, 12, 12), A)], tmp_path)
    assert pair.kernels["QLinearConv"] == 2
    assert pair.differing == 0


@pytest.mark.parametrize("second", [A, B])
def test_concatenation(second: Point, tmp_path: Path) -> None:
    """Of equal and of different parameters; what is joined is requantized by a table there and in float here."""
    net = Chain(*SHAPE)
    y = net.add(nn.ConcatOp, [net.at(net.x, A), net.at(net.input(*SHAPE), second)], axis=1)
    arrays = [reals(net.rng, SHAPE, A), reals(net.rng, SHAPE, second)]
    pair = both(net.module(net.at(y, A)), arrays, tmp_path, rewrite=None)
    assert pair.kernels["QLinearConcat"] == 1
    assert pair.differing == 0


TABLES = {
    "sigmoid": (nn.SigmoidOp, {}, "QLinearSigmoid"),
    "leaky relu": (nn.LeakyReluOp, {"alpha": 0.1}, "QLinearLeakyRelu"),
}


@pytest.mark.parametrize("name", TABLES)
def test_activations_by_table(name: str, tmp_path: Path) -> None:
    """onnxruntime fills a table with its own float function; here the activation runs in float."""
    kind, properties, kernel = TABLES[name]
    net = Chain(*SHAPE)
    y = net.add(kind, net.at(net.x, A), **properties)
    out = B if name == "leaky relu" else Point(2**-8, -128)
    pair = both(net.module(net.at(y, out)), [reals(net.rng, SHAPE, A)], tmp_path, rewrite=None)
    assert pair.kernels[kernel] == 1
    assert pair.steps(out.scale) <= 1.001


@pytest.mark.parametrize("shape", [(40, 10), (2, 8, 16, 16), (3, 1000)])
@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize(("scale", "out"), [(0.04, 1 / 304.6), (0.2, 1 / 256), (1.7, 1 / 700), (0.01, 1 / 16)])
def test_softmax(shape: tuple[int, ...], axis: int, scale: float, out: float, tmp_path: Path) -> None:
    """Also where results exceed their range, and where `1 / scale` is far from an integer."""
    net, point = Chain(*shape), Point(scale, 9)
    y = net.add(nn.SoftmaxOp, net.at(net.x, point), axis=axis)
    pair = both(net.module(net.at(y, Point(out, -128))), [reals(net.rng, shape, point)], tmp_path)
    assert pair.kernels["QLinearSoftmax"] == 1
    assert pair.differing == 0


def test_softmax_of_few_classes(tmp_path: Path) -> None:
    """onnxruntime overflows and gives 0 for the largest values; here they stay the largest."""
    net, point, out = Chain(50, 2), Point(0.2, 9), Point(1 / 300, -128)
    y = net.add(nn.SoftmaxOp, net.at(net.x, point), axis=-1)
    x = reals(net.rng, (50, 2), point)
    pair = both(net.module(net.at(y, out)), [x], tmp_path)
    (ours,), (theirs,) = pair.ours, pair.theirs
    kept = np.clip(np.rint(x / 0.2), -137, 118) * 0.2
    right = np.clip(1 / (1 + np.exp(kept[:, ::-1] - kept)), 0, 255 / 300)
    assert np.abs(ours - right).max() < 1.001 * out.scale
    assert ours.max() == pytest.approx(255 / 300)
    assert (theirs[ours == ours.max()] == 0).any()
