"""Convolutions and matrix products in integers: no element differs from onnxruntime's integer kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amct_opt.dialects import nn
from amct_opt.dialects.nn.shapes import DYNAMIC, shape_of

from .nets import Chain, Point, channel_scales, reals
from .peer import both

IN, OUT = Point(0.031, 5), Point(0.43, -11)

GEOMETRIES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 5, 9, 8), (7, 5, 3, 3), {}),
    "pointwise": ((2, 33, 6, 5), (19, 33, 1, 1), {}),
    "padding": ((1, 5, 9, 8), (7, 5, 3, 3), {"pads": (1, 1, 1, 1)}),
    "uneven padding": ((1, 5, 9, 8), (7, 5, 3, 2), {"pads": (0, 1, 2, 0)}),
    "stride": ((1, 5, 11, 10), (7, 5, 3, 3), {"strides": (2, 3), "pads": (1, 1, 1, 1)}),
    "pointwise stride": ((1, 5, 11, 10), (7, 5, 1, 1), {"strides": (2, 2)}),
    "dilation": ((1, 5, 11, 10), (7, 5, 3, 3), {"dilations": (2, 3), "pads": (2, 2, 2, 2)}),
    "groups": ((1, 8, 7, 7), (12, 2, 3, 3), {"groups": 4, "pads": (1, 1, 1, 1)}),
    "depthwise": ((1, 16, 9, 9), (16, 1, 3, 3), {"groups": 16, "pads": (1, 1, 1, 1)}),
    "depthwise 5x5": ((1, 20, 9, 9), (20, 1, 5, 5), {"groups": 20, "pads": (2, 2, 2, 2), "strides": (2, 2)}),
    "depthwise times 2": ((1, 6, 9, 9), (12, 1, 3, 3), {"groups": 6}),
    "one axis": ((2, 6, 17), (9, 6, 3), {"pads": (1, 1)}),
    "three axes": ((1, 3, 5, 6, 7), (4, 3, 2, 3, 2), {"pads": (0, 1, 0, 1, 1, 1)}),
}


@pytest.mark.parametrize("name", GEOMETRIES)
def test_convolution(name: str, tmp_path: Path) -> None:
    x_shape, w_shape, properties = GEOMETRIES[name]
    net = Chain(*x_shape)
    scales = channel_scales(net.rng, w_shape[0])
    y = net.weighted(nn.ConvOp, net.at(net.x, IN), IN, w_shape, scales, **properties)
    pair = both(net.module(net.at(y, OUT)), [reals(net.rng, x_shape, IN)], tmp_path)
    assert pair.kernels["QLinearConv"] == 1
    assert pair.differing == 0


@pytest.mark.parametrize("bias", [False, True])
def test_one_scale_for_all_channels(bias: bool, tmp_path: Path) -> None:
    net = Chain(1, 5, 9, 8)
    y = net.weighted(nn.ConvOp, net.at(net.x, IN), IN, (7, 5, 3, 3), 0.004, bias=bias)
    pair = both(net.module(net.at(y, OUT)), [reals(net.rng, (1, 5, 9, 8), IN)], tmp_path)
    assert pair.kernels["QLinearConv"] == 1
    assert pair.differing == 0


BOUNDS = {
    "relu": (nn.ReluOp, {}),
    "relu6": (nn.Relu6Op, {}),
    "clip": (nn.ClipOp, {"min": -7.3, "max": 11.9}),
    "clip from below": (nn.ClipOp, {"min": -3.1}),
}


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("zero_point", [-128, -11, 127])
def test_linear_activations(bound: str, zero_point: int, tmp_path: Path) -> None:
    """Also where the range reaches beyond the bounds, and onnxruntime bounds integers that it has quantized before."""
    kind, properties = BOUNDS[bound]
    net = Chain(1, 5, 9, 8)
    y = net.weighted(nn.ConvOp, net.at(net.x, IN), IN, (7, 5, 3, 3), channel_scales(net.rng, 7), pads=(1, 1, 1, 1))
    bounded = net.add(kind, y, **properties)
    pair = both(net.module(net.at(bounded, Point(0.11, zero_point))), [reals(net.rng, (1, 5, 9, 8), IN)], tmp_path)
    assert pair.kernels["QLinearConv"] == 1
    assert pair.differing == 0


def test_an_activation_that_is_an_output_too(tmp_path: Path) -> None:
    """The file gives what is not rounded; such a layer is float."""
    net = Chain(1, 5, 9, 8)
    y = net.weighted(nn.ConvOp, net.at(net.x, IN), IN, (7, 5, 3, 3), channel_scales(net.rng, 7))
    bounded = net.add(nn.ReluOp, y)
    module = net.module(bounded, net.at(bounded, Point(0.11, -11)))
    pair = both(module, [reals(net.rng, (1, 5, 9, 8), IN)], tmp_path, rewrite=None)
    assert pair.kernels["QLinearConv"] == 0
    np.testing.assert_allclose(pair.ours[0], pair.theirs[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("zero_point", [-128, -127, 0, 1, 127])
def test_ties_and_saturation(zero_point: int, tmp_path: Path) -> None:
    """Scales are powers of two: one sum in 128 lies halfway between two integers, and many lie beyond both ends."""
    point = Point(2.0**-5, zero_point)
    net = Chain(1, 4, 24, 24)
    y = net.weighted(nn.ConvOp, net.at(net.x, point), point, (32, 4, 3, 3), 2.0**-6)
    result = Point(2.0**-3, zero_point)
    pair = both(net.module(net.at(y, result)), [reals(net.rng, (1, 4, 24, 24), point)], tmp_path)
    integers = pair.ours[0] / 2.0**-3 + zero_point
    assert {-128, 127} <= set(np.unique(integers))
    assert pair.differing == 0


@pytest.mark.parametrize("weight", [-128, 127])
@pytest.mark.parametrize("zero_point", [-128, 127])
@pytest.mark.parametrize("part", [2, 100])
def test_the_largest_sums(weight: int, zero_point: int, part: int, tmp_path: Path) -> None:
    """512 channels of 3 x 3, all products as large as they get but for a few: float32 does not hold such sums."""
    point = Point(0.5, zero_point)
    net = Chain(1, 512, 4, 4)
    integers = np.full((3, 512, 3, 3), weight, np.int8)
    integers[1, 5, 1, 1] = 3
    integers[2, ::3] = 63
    y = net.weighted(nn.ConvOp, net.at(net.x, point), point, integers.shape, [2**-9, 2**-9, 2**-8], weight=integers)
    x = np.full((1, 512, 4, 4), -255 * 0.5 if zero_point == 127 else 255 * 0.5, np.float32)
    x[0, 7, 2, 1] *= 253 / 255
    largest = 255 * 128 * 4608 * 2.0**-10
    pair = both(net.module(net.at(y, Point(largest / part))), [x], tmp_path)
    assert pair.kernels["QLinearConv"] == 1
    assert np.abs(pair.ours[0]).max() > largest / 4
    assert pair.differing == 0


def test_layers_in_a_row(tmp_path: Path) -> None:
    """Convolutions around a pool, with the flattened rest in a product: only the borders of the graph are float."""
    net = Chain(2, 3, 16, 16)
    points = [Point(0.02, -7), Point(0.3, -128), Point(2.1, -128), Point(9.0, 3), Point(31.0, 4)]
    value = net.at(net.x, points[0])
    for i, (channels, more) in enumerate([(3, 16), (16, 16), (16, 24)]):
        shape = (more, channels, 3, 3)
        scales = channel_scales(net.rng, more)
        value = net.weighted(nn.ConvOp, value, points[i], shape, scales, pads=(1, 1, 1, 1))
        value = net.at(net.add(nn.ReluOp, value), points[i + 1])
        if i == 1:
            value = net.add(nn.MaxPoolOp, value, kernel=(2, 2), strides=(2, 2))
    flat = net.add(nn.FlattenOp, value)
    scales = channel_scales(net.rng, 10)
    y = net.weighted(nn.MatMulOp, flat, points[3], (24 * 64, 10), scales, axis=1)
    pair = both(net.module(net.at(y, points[4])), [reals(net.rng, (2, 3, 16, 16), points[0])], tmp_path)
    assert pair.kernels["QLinearConv"] == 3
    assert pair.kernels["QGemm"] == 1
    assert len(np.unique(pair.ours[0])) > 5
    assert pair.differing == 0


PRODUCTS: dict[str, tuple[tuple[int, ...], tuple[int, ...], int, dict[str, Any]]] = {
    "matrices": ((33, 40), (40, 21), 1, {}),
    "batch": ((2, 3, 9, 40), (40, 21), 1, {}),
    "any batch": ((DYNAMIC, 3, 9, 40), (40, 21), 1, {}),
    "second transposed": ((33, 40), (21, 40), 0, {"transpose_b": True}),
    "first transposed": ((40, 33), (40, 21), 1, {"transpose_a": True}),
}
FLOAT_BIAS = ("any batch",)
"""Where onnxruntime does not make one operation of product and bias."""


def taken(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(2 if size == DYNAMIC else size for size in shape)


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
def test_matrix_products(name: str, bias: bool, per_channel: bool, tmp_path: Path) -> None:
    x_shape, w_shape, axis, properties = PRODUCTS[name]
    net = Chain(*x_shape)
    scales = channel_scales(net.rng, 21) if per_channel else 0.004
    y = net.weighted(nn.MatMulOp, net.at(net.x, IN), IN, w_shape, scales, axis=axis, bias=bias, **properties)
    pair = both(net.module(net.at(y, OUT)), [reals(net.rng, taken(x_shape), IN)], tmp_path)
    integer = pair.kernels["QGemm"] + pair.kernels["QLinearMatMul"]
    assert (integer, pair.kernels["MatMulIntegerToFloat"]) == ((0, 1) if bias and name in FLOAT_BIAS else (1, 0))
    assert pair.differing == 0


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("bias", [False, True])
def test_products_that_stay_float(name: str, bias: bool, tmp_path: Path) -> None:
    """Sums are integers, the result is float."""
    x_shape, w_shape, axis, properties = PRODUCTS[name]
    net = Chain(*x_shape)
    scales = channel_scales(net.rng, 21)
    y = net.weighted(nn.MatMulOp, net.at(net.x, IN), IN, w_shape, scales, axis=axis, bias=bias, **properties)
    pair = both(net.module(y), [reals(net.rng, taken(x_shape), IN)], tmp_path)
    assert pair.kernels["QGemm"] + pair.kernels["MatMulIntegerToFloat"] == 1, pair.kernels
    assert pair.differing == 0


def test_a_product_that_stays_float_of_what_is_moved(tmp_path: Path) -> None:
    net = Chain(2, 40, 3, 9)
    moved = net.add(nn.TransposeOp, net.at(net.x, IN), perm=(0, 2, 3, 1))
    y = net.weighted(nn.MatMulOp, moved, IN, (40, 21), channel_scales(net.rng, 21), axis=1)
    pair = both(net.module(y), [reals(net.rng, (2, 40, 3, 9), IN)], tmp_path)
    assert pair.kernels["QGemm"] == 1
    assert pair.differing == 0


@pytest.mark.parametrize("transposed", [False, True])
def test_product_of_activations(transposed: bool, tmp_path: Path) -> None:
    """As between the queries and keys of attention; the second zero point is not 0 either."""
    net = Chain(2, 3, 9, 40)
    other = Point(0.017, -31)
    keys = net.input(2, 3, 12, 40) if transposed else net.input(2, 3, 40, 12)
    y = net.add(nn.MatMulOp, net.at(net.x, IN), net.at(keys, other), transpose_b=transposed)
    arrays = [reals(net.rng, (2, 3, 9, 40), IN), reals(net.rng, shape_of(keys), other)]
    pair = both(net.module(net.at(y, OUT)), arrays, tmp_path)
    assert pair.kernels["QLinearMatMul"] == 1, pair.kernels
    assert pair.differing == 0
