"""Sums, products, pools and joins in integers equal onnxruntime's; what it has in tables differs by one step at most."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import pytest
from onnx.numpy_helper import to_array

import amct_opt
from amct_opt.dialects import nn
from amct_opt.runtime.integer_plan import in_integers
from amct_opt.session.universe import new_session
from amct_opt.transforms.quantization.options import SettingsOptions
from amct_opt.transforms.quantization.request import settings_of

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


FLOAT_WINDOWS: dict[str, dict[str, Any]] = {
    "dilations": {"kernel": (2, 2), "dilations": (2, 3)},
    "windows beyond padding that counts": {
        "kernel": (3, 3),
        "strides": (2, 2),
        "pads": (0, 0, 0, 0),
        "ceil_mode": True,
        "count_include_pad": True,
    },
}


@pytest.mark.parametrize("name", FLOAT_WINDOWS)
def test_average_pools_without_an_integer_kernel(name: str, tmp_path: Path) -> None:
    """QLinearAveragePool has no dilations, and divides by 9 what the last windows sum of 4 or 6 positions."""
    net, point, out = Chain(1, 3, 9, 10), Point(0.05), Point(0.01, -128)
    y = net.add(nn.AveragePoolOp, net.at(net.x, point), **FLOAT_WINDOWS[name])
    pair = both(net.module(net.at(y, out)), [reals(net.rng, (1, 3, 9, 10), point)], tmp_path, rewrite=None, opset=19)
    assert pair.kernels["AveragePool"] == 1
    assert pair.kernels["QLinearAveragePool"] == 0
    assert pair.steps(out.scale) <= 1.001  # means on ties


@pytest.mark.parametrize("out", [OUT, Point(2**-9, 1), Point(0.004, -128)])
@pytest.mark.parametrize("space", [(13, 12), (8, 8), (1, 1)])
@pytest.mark.parametrize("reduced", [False, True])
def test_global_average_pools(out: Point, space: tuple[int, int], reduced: bool, tmp_path: Path) -> None:
    """As a mean over axes, too, which is how PyTorch's exporter writes them."""
    net = Chain(3, 40, *space)
    point = Point(2**-5, -3)
    x = net.at(net.x, point)
    y = net.add(nn.ReduceMeanOp, x, axes=(-1, 2), keepdims=True) if reduced else net.add(nn.GlobalAveragePoolOp, x)
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


@pytest.mark.parametrize("shape", [(40, 2), (40, 10), (2, 8, 16, 16), (3, 1000)])
@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize(("scale", "out"), [(0.04, 1 / 304.6), (0.2, 1 / 256), (1.7, 1 / 700), (0.01, 1 / 16)])
def test_softmax_stays_float(shape: tuple[int, ...], axis: int, scale: float, out: float, tmp_path: Path) -> None:
    """QLinearSoftmax would give 0 for the largest values of few classes."""
    net, point = Chain(*shape), Point(scale, 9)
    y = net.add(nn.SoftmaxOp, net.at(net.x, point), axis=axis)
    pair = both(net.module(net.at(y, Point(out, -128))), [reals(net.rng, shape, point)], tmp_path, rewrite=None)
    assert pair.kernels["Softmax"] == 1
    assert pair.kernels["QLinearSoftmax"] == 0
    assert pair.steps(out) <= 1.001


PRODUCTS = {
    "a batch of weights": ((2, 4, 6), (2, 6, 5)),
    "a batch of one weight": ((2, 4, 6), (1, 6, 5)),
    "a batch of weights and a matrix": ((4, 6), (2, 6, 5)),
    "a vector as weight": ((2, 6), (6,)),
    "a vector as input": ((6,), (6, 5)),
    "two vectors": ((6,), (6,)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_other_ranks(name: str, tmp_path: Path) -> None:
    """From the file of the float model to integers: batches of weights have one scale, which QLinearMatMul takes."""
    x_shape, w_shape = PRODUCTS[name]
    net = Chain(*x_shape)
    weight = net.constant(net.rng.normal(size=w_shape).astype(np.float32), "w")
    module, x = net.module(net.add(nn.MatMulOp, net.x, weight)), net.rng.normal(size=x_shape).astype(np.float32)
    session = new_session()
    session.profile = "ppq"
    amct_opt.quantize(module, session, data=[{"x": x}])
    pair = both(module, [x], tmp_path)
    assert pair.kernels["QLinearMatMul"] == 1
    assert pair.differing == 0


FEW_BITS = {
    "a matrix": ((4, 6), (6, 5), nn.MatMulOp, {}),
    "a transposed matrix and a bias": ((4, 6), (5, 6), nn.MatMulOp, {"transpose_b": True}),
    "a batch of weights": ((2, 4, 6), (2, 6, 5), nn.MatMulOp, {}),
    "one spatial axis": ((2, 6, 9), (5, 6, 3), nn.ConvOp, {}),
}


@pytest.mark.parametrize("bits", [3, 4, 6, 7])
@pytest.mark.parametrize("name", FEW_BITS)
def test_weights_of_few_bits(name: str, bits: Literal[3, 4, 6, 7], tmp_path: Path) -> None:
    """Weights of 3 and 4 bits are INT4 in the file, multiplied in float by onnxruntime; others INT8, for its integer kernels."""
    x_shape, w_shape, kind, properties = FEW_BITS[name]
    net = Chain(*x_shape)
    operands = [net.constant(net.rng.normal(size=w_shape).astype(np.float32), "w")]
    if "bias" in name:
        operands.append(net.constant(net.rng.normal(size=5).astype(np.float32), "b"))
    module, x = net.module(net.add(kind, net.x, *operands, **properties)), net.rng.normal(size=x_shape)
    session = new_session()
    session.profile = "qdq" if bits <= 4 else "ppq"
    settings = settings_of(SettingsOptions(weight_bits=bits))
    amct_opt.quantize(module, session, settings, data=[{"x": x.astype(np.float32)}])
    pair = both(module, [x.astype(np.float32)], tmp_path, rewrite=None if bits <= 4 else in_integers)
    np.testing.assert_allclose(pair.theirs[0], pair.ours[0], rtol=0, atol=1e-5)
    graph = onnx.load(tmp_path / "qdq.onnx").graph
    (weight,) = [i for i in graph.initializer if tuple(i.dims) == w_shape]
    assert weight.data_type == (onnx.TensorProto.INT4 if bits <= 4 else onnx.TensorProto.INT8)
    low, high = int(to_array(weight).min()), int(to_array(weight).max())
    assert max(high, -1 - low) == 2 ** (bits - 1) - 1


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("axes", [(2, 3), (1, 2), (1, 3), (0, 1)])
def test_resizes_of_any_axes(mode: str, axes: tuple[int, int], tmp_path: Path) -> None:
    """As transposes that were moved leave them; onnxruntime interpolates along the last axes."""
    net = Chain(2, 3, 4, 5)
    scales = nn.RealsAttr([2.0 if a in axes else 1.0 for a in range(4)])
    y = net.add(nn.ResizeOp, net.x, scales=scales, mode=nn.ResizeModeAttr(nn.ResizeMode(mode)))
    x = net.rng.normal(size=(2, 3, 4, 5)).astype(np.float32)
    pair = both(net.module(y), [x], tmp_path, rewrite=None)
    np.testing.assert_allclose(pair.ours[0], pair.theirs[0], atol=1e-5)
