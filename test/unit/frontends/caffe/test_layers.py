"""Each layer against OpenCV; where OpenCV is wrong or has no such layer, against arithmetic in float64 or onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amct_opt.dialects import nn
from amct_opt.ir.functions import main_function

from ...values import normal as f

Array = np.ndarray[Any, np.dtype[Any]]
Build = Callable[[Any], object]


def one(kind: str, blobs: tuple[Array, ...] = (), bottom: str = "data", **params: Any) -> Build:
    return lambda net: net.add("y", kind, bottom, blobs=blobs, **params)


def conv(blobs: tuple[Array, ...], kind: str = "Convolution", **params: Any) -> Build:
    return one(kind, blobs, convolution_param=params)


def pool(**params: Any) -> Build:
    return one("Pooling", pooling_param=params)


def two(kind: str, **params: Any) -> Build:
    """A layer on two blobs computed from the input."""

    def build(net: Any) -> None:
        net.add("a", "Power", power_param={"scale": 2.0, "shift": -0.5})
        net.add("b", "TanH")
        net.add("y", kind, ["a", "b"], **params)

    return build


def sliced(*points: int, axis: int = 1, tops: int = 2) -> Build:
    def build(net: Any) -> None:
        names = [f"s{i}" for i in range(tops)]
        net.add("s", "Slice", top=names, slice_param={"axis": axis, "slice_point": points})
        net.add("y", "Concat", names[::-1], concat_param={"axis": axis})

    return build


def split(net: Any) -> None:
    net.add("s", "Split", top=["s1", "s2"])
    net.add("t", "TanH", "s1")
    net.add("y", "Eltwise", ["t", "s2"])


def batch_norm_scale(net: Any) -> None:
    net.add("bn", "BatchNorm", top="y", blobs=NORM, batch_norm_param={"eps": 1e-3})
    net.add("sc", "Scale", "y", "y", blobs=(*f(2, 4),), scale_param={"bias_term": True})


def crop(**params: Any) -> Build:
    def build(net: Any) -> None:
        net.add("r", "Pooling", pooling_param={"kernel_size": 3, "stride": 2})
        net.add("y", "Crop", ["data", "r"], crop_param=params)

    return build


def scale_by_bottom(net: Any) -> None:
    net.add("p", "Pooling", pooling_param={"pool": "AVE", "global_pooling": True})
    net.add("r", "Reshape", "p", reshape_param={"shape": {"dim": [0, -1]}})
    net.add("y", "Scale", ["data", "r"], scale_param={"axis": 0})


def bias_by_bottom(net: Any) -> None:
    net.add("r", "Reduction", reduction_param={"axis": 1})
    net.add("y", "Bias", ["data", "r"], bias_param={"axis": 0})


NORM = (f(4, seed=1), np.abs(f(4, seed=2)) + 0.5, np.array([7.5], np.float32))
W, B = f(6, 3, 3, 3), f(6)
IMAGE = (2, 4, 7, 6)

OPENCV: dict[str, tuple[tuple[int, ...], Build]] = {
    "convolution": ((1, 3, 9, 8), conv((W, B), num_output=6, kernel_size=[3], pad=[1], stride=[2])),
    "convolution-hw": (
        (2, 3, 9, 8),
        conv(
            (f(4, 3, 3, 1),),
            num_output=4,
            kernel_h=3,
            kernel_w=1,
            pad_h=1,
            pad_w=0,
            stride_h=1,
            stride_w=2,
            bias_term=False,
        ),
    ),
    "convolution-lists": (
        (1, 3, 9, 8),
        conv((f(4, 3, 3, 2), f(4)), num_output=4, kernel_size=[3, 2], pad=[0, 1], stride=[2, 1], dilation=[1, 2]),
    ),
    "convolution-group": ((1, 4, 8, 8), conv((f(8, 2, 3, 3), f(8)), num_output=8, kernel_size=[3], group=2)),
    "convolution-depthwise": ((1, 5, 8, 8), conv((f(5, 1, 3, 3), f(5)), num_output=5, kernel_size=[3], group=5)),
    "convolution-dilation": ((1, 3, 12, 12), conv((W, B), num_output=6, kernel_size=[3], pad=[2], dilation=[2])),
    "convolution-volume": ((1, 3, 6, 7, 8), conv((f(4, 3, 2, 3, 2), f(4)), num_output=4, kernel_size=[2, 3, 2])),
    "deconvolution": (
        (1, 4, 5, 5),
        conv((f(4, 3, 4, 4), f(3)), "Deconvolution", num_output=3, kernel_size=[4], stride=[2], pad=[1]),
    ),
    "deconvolution-group": (
        (1, 4, 5, 5),
        conv((f(4, 2, 3, 3),), "Deconvolution", num_output=4, kernel_size=[3], stride=[2], group=2, bias_term=False),
    ),
    "deconvolution-depthwise": (
        (1, 4, 5, 6),
        conv((f(4, 1, 4, 4), f(4)), "Deconvolution", num_output=4, kernel_size=[4], stride=[2], pad=[1], group=4),
    ),
    "inner-product": ((2, 3, 4, 4), one("InnerProduct", (f(7, 48), f(7)), inner_product_param={"num_output": 7})),
    "inner-product-axis": (
        (2, 3, 4),
        one("InnerProduct", (f(5, 4),), inner_product_param={"num_output": 5, "axis": 2, "bias_term": False}),
    ),
    "inner-product-axis-minus": (
        (2, 3, 4),
        one("InnerProduct", (f(5, 4), f(5)), inner_product_param={"num_output": 5, "axis": -1}),
    ),
    "batch-norm": (IMAGE, one("BatchNorm", NORM, batch_norm_param={"use_global_stats": True})),
    "batch-norm-factor-0": (IMAGE, one("BatchNorm", (*NORM[:2], np.zeros(1, np.float32)))),
    "batch-norm-scale": (IMAGE, batch_norm_scale),
    "scale": (IMAGE, one("Scale", (f(4),))),
    "scale-bias": (IMAGE, one("Scale", (*f(2, 4),), scale_param={"bias_term": True})),
    "scale-axes": ((2, 4, 5), one("Scale", (f(4, 5),), scale_param={"axis": 1, "num_axes": 2})),
    "scale-bottom": (IMAGE, scale_by_bottom),
    "relu": (IMAGE, one("ReLU")),
    "relu-slope": (IMAGE, one("ReLU", relu_param={"negative_slope": 0.1})),
    "relu6": (IMAGE, one("ReLU6")),
    "prelu": (IMAGE, one("PReLU", (f(4),))),
    "elu": (IMAGE, one("ELU", elu_param={"alpha": 0.7})),
    "sigmoid": (IMAGE, one("Sigmoid")),
    "tanh": (IMAGE, one("TanH")),
    "absval": (IMAGE, one("AbsVal")),
    "bnll": (IMAGE, one("BNLL")),
    "power": (IMAGE, one("Power", power_param={"power": 2, "scale": 0.5, "shift": 1})),
    "power-linear": (IMAGE, one("Power", power_param={"scale": -0.5, "shift": 3})),
    "power-plain": (IMAGE, one("Power", power_param={"power": 3})),
    "exp": (IMAGE, one("Exp", exp_param={"base": 2.0, "scale": 0.5, "shift": 1})),
    "exp-e": (IMAGE, one("Exp")),
    **{
        f"pooling-{kind.lower()}-{name}": (shape, pool(pool=kind, **params))
        for kind in ("MAX", "AVE")
        for name, shape, params in (
            ("ceil", (1, 2, 8, 7), {"kernel_size": 3, "stride": 2}),
            ("pad-odd", (1, 2, 7, 7), {"kernel_size": 3, "stride": 2, "pad": 1}),
            ("pad-even", (1, 2, 8, 8), {"kernel_size": 3, "stride": 2, "pad": 1}),
            ("pad-clipped", (1, 2, 7, 8), {"kernel_size": 2, "stride": 3, "pad": 1}),
            ("hw", (1, 2, 9, 8), {"kernel_h": 3, "kernel_w": 2, "stride_h": 1, "stride_w": 3, "pad_h": 1, "pad_w": 0}),
            ("floor", (1, 2, 8, 7), {"kernel_size": 3, "stride": 2, "ceil_mode": False}),
            ("global", (2, 3, 8, 7), {"global_pooling": True}),
        )
    },
    "eltwise-sum": (IMAGE, two("Eltwise")),
    "eltwise-coefficients": (IMAGE, two("Eltwise", eltwise_param={"operation": "SUM", "coeff": [0.5, -1.0]})),
    "eltwise-prod": (IMAGE, two("Eltwise", eltwise_param={"operation": "PROD"})),
    "eltwise-max": (IMAGE, two("Eltwise", eltwise_param={"operation": "MAX"})),
    "concat": (IMAGE, two("Concat")),
    "concat-axis": (IMAGE, two("Concat", concat_param={"axis": 2})),
    "concat-dim": (IMAGE, two("Concat", concat_param={"concat_dim": 1})),
    "slice-points": ((1, 6, 4, 5), sliced(2)),
    "slice-equal": ((1, 6, 4, 6), sliced(axis=3, tops=3)),
    "split": (IMAGE, split),
    "softmax": (IMAGE, one("Softmax")),
    "softmax-axis": (IMAGE, one("Softmax", softmax_param={"axis": 2})),
    "lrn": ((1, 8, 4, 4), one("LRN", lrn_param={"local_size": 5, "alpha": 0.1, "beta": 0.75})),
    "flatten": (IMAGE, one("Flatten")),
    "flatten-axis": (IMAGE, one("Flatten", flatten_param={"axis": 2})),
    "flatten-end": (IMAGE, one("Flatten", flatten_param={"axis": 1, "end_axis": 2})),
    "reshape": (IMAGE, one("Reshape", reshape_param={"shape": {"dim": [0, 0, -1]}})),
    "reshape-axes": (IMAGE, one("Reshape", reshape_param={"shape": {"dim": [2, -1]}, "axis": 1, "num_axes": 1})),
    "permute": (IMAGE, one("Permute", permute_param={"order": [0, 2, 3, 1]})),
    "crop": ((1, 4, 9, 9), crop(axis=2, offset=[1, 2])),
    "crop-offset": ((1, 4, 9, 9), crop(axis=2, offset=[3])),
    "dropout": (IMAGE, lambda net: (net.add("d", "Dropout"), net.add("y", "ReLU", "d"))),
    "interp-zoom": ((1, 2, 5, 4), one("Interp", interp_param={"zoom_factor": 3})),
    "interp-size": ((1, 2, 5, 4), one("Interp", interp_param={"height": 9, "width": 3})),
}


@pytest.mark.parametrize("name", OPENCV)
def test_opencv(caffe: Any, new_net: Any, assert_close: Any, name: str) -> None:
    shape, build = OPENCV[name]
    net = new_net(shape)
    build(net)
    inputs = {"data": f(*shape)}
    (expected,) = caffe.opencv(net, inputs)
    (actual,) = caffe.run(net, inputs).values()
    assert_close(actual, expected)


def v4(numbers: Array) -> Array:
    return numbers.astype(np.float64).reshape(1, -1, 1, 1)


def neighbours(x: Array) -> Array:
    """The sum over each channel, the one before and the one after it."""
    padded = np.pad(x, ((0, 0), (1, 1), (0, 0), (0, 0)))
    return padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]


def lrn_within(x: Array, size: int, alpha: float, beta: float) -> Array:
    p = size // 2
    squares = np.pad(x**2, ((0, 0), (0, 0), (p, p), (p, p)))
    windows = np.lib.stride_tricks.sliding_window_view(squares, (size, size), (2, 3))
    return x / (1 + alpha * windows.mean((4, 5))) ** beta


def resized(x: Array, axis: int, size: int) -> Array:
    """Linear along one axis, first on first and last on last."""
    at = np.arange(size) * ((x.shape[axis] - 1) / (size - 1))
    low = np.minimum(at.astype(int), x.shape[axis] - 2)
    weight = (at - low).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    return x.take(low, axis) * (1 - weight) + x.take(low + 1, axis) * weight


def top_pairs(x: Array, count: int) -> tuple[Array, Array]:
    """Indices and values of the largest of each row, Caffe's order: by value, then by index, both falling."""
    rows = [sorted(((v, i) for i, v in enumerate(row)), reverse=True)[:count] for row in x]
    return np.array([[i for _, i in r] for r in rows]), np.array([[v for v, _ in r] for r in rows])


TRANSPOSED, SHIFT, MAP, SLOPE = f(48, 7), f(4), f(4, 7), f()

FLOAT64: dict[str, tuple[tuple[int, ...], Build, Callable[[Array], Array]]] = {
    "inner-product-transpose": (
        (2, 3, 4, 4),
        one("InnerProduct", (TRANSPOSED, B[:1].repeat(7)), inner_product_param={"num_output": 7, "transpose": True}),
        lambda x: x.reshape(2, -1) @ TRANSPOSED.astype(np.float64) + B[0],
    ),
    "bias": (IMAGE, one("Bias", (SHIFT,)), lambda x: x + v4(SHIFT)),
    "bias-axes": (IMAGE, one("Bias", (MAP,), bias_param={"num_axes": 2}), lambda x: x + MAP[None, :, :, None]),
    "scale-all-axes": (
        (4, 7),
        one("Scale", (MAP,), scale_param={"axis": 0, "num_axes": -1}),
        lambda x: x * MAP.astype(np.float64),
    ),
    "scale-scalar": (IMAGE, one("Scale", (SLOPE,), scale_param={"num_axes": 0}), lambda x: x * float(SLOPE)),
    "prelu-shared": (
        IMAGE,
        one("PReLU", (SLOPE,), prelu_param={"channel_shared": True}),
        lambda x: np.where(x > 0, x, x * float(SLOPE)),
    ),
    "clip": (IMAGE, one("Clip", clip_param={"min": -0.5, "max": 0.25}), lambda x: x.clip(-0.5, 0.25)),
    "threshold": (IMAGE, one("Threshold", threshold_param={"threshold": 0.25}), lambda x: x > 0.25),
    "clip-6": (IMAGE, one("Clip", clip_param={"min": 0, "max": 6}), lambda x: x.clip(0, 6)),
    "log": (
        IMAGE,
        one("Log", log_param={"base": 10.0, "scale": 0.1, "shift": 2}),
        lambda x: np.log10(2 + np.float32(0.1).astype(np.float64) * x),
    ),
    "log-e": (IMAGE, one("Log", log_param={"shift": 8}), lambda x: np.log(x + 8)),
    "exp-base": (IMAGE, one("Exp", exp_param={"base": 10.0, "shift": 1}), lambda x: 10 ** (x + 1)),
    "power-0": (IMAGE, one("Power", power_param={"power": 0}), lambda x: np.ones_like(x)),
    "pooling-round-mode": (
        (1, 2, 8, 8),
        pool(kernel_size=3, stride=2, round_mode="FLOOR"),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[:, :, ::2, ::2].max((4, 5)),
    ),
    "lrn-k": (
        (1, 8, 4, 4),
        one("LRN", lrn_param={"local_size": 3, "alpha": 0.5, "beta": 0.75, "k": 2}),
        lambda x: x / (2 + 0.5 / 3 * neighbours(x**2)) ** 0.75,
    ),
    "lrn-within": (
        (1, 3, 6, 7),
        one("LRN", lrn_param={"norm_region": "WITHIN_CHANNEL", "local_size": 3, "alpha": 0.5, "beta": 0.75, "k": 9}),
        lambda x: lrn_within(x, 3, 0.5, 0.75),
    ),
    "reduction-asum": (
        IMAGE,
        one("Reduction", reduction_param={"operation": "ASUM", "axis": -2, "coeff": 0.5}),
        lambda x: np.abs(x).sum((2, 3)) * 0.5,
    ),
    "reduction-sumsq": (
        IMAGE,
        one("Reduction", reduction_param={"operation": "SUMSQ", "axis": 1}),
        lambda x: (x**2).sum((1, 2, 3)),
    ),
    "reduction-mean": (
        IMAGE,
        one("Reduction", reduction_param={"operation": "MEAN", "axis": 2}),
        lambda x: x.mean((2, 3)),
    ),
    "reduction-all": (IMAGE, one("Reduction"), lambda x: x.sum()),
    "argmax-axis": (IMAGE, one("ArgMax", argmax_param={"axis": 1}), lambda x: x.argmax(1)[:, None]),
    "argmax-axis-values": (
        IMAGE,
        one("ArgMax", argmax_param={"axis": -1, "top_k": 2, "out_max_val": True}),
        lambda x: np.sort(x, -1)[..., :-3:-1],
    ),
    "argmax": (
        IMAGE,
        one("ArgMax", argmax_param={"top_k": 3}),
        lambda x: top_pairs(x.reshape(2, -1), 3)[0][:, None, :, None],
    ),
    "argmax-values": (
        (3, 9),
        one("ArgMax", argmax_param={"top_k": 2, "out_max_val": True}),
        lambda x: np.stack(top_pairs(x, 2), 1),
    ),
    "argmax-equal": (
        (2, 9),
        lambda net: (
            net.add("c", "Clip", clip_param={"min": -0.1, "max": 0.1}),
            net.add("y", "ArgMax", "c", argmax_param={"top_k": 4}),
        ),
        lambda x: top_pairs(x.clip(np.float32(-0.1), np.float32(0.1)), 4)[0][:, None],
    ),
    "interp-shrink": (
        (1, 2, 9, 8),
        one("Interp", interp_param={"shrink_factor": 2, "zoom_factor": 3, "pad_beg": -1}),
        lambda x: resized(resized(x[:, :, 1:, 1:], 2, 10), 3, 10),
    ),
    "interp-height": (
        (1, 2, 5, 4),
        one("Interp", interp_param={"height": 8, "width": 7}),
        lambda x: resized(resized(x, 2, 8), 3, 7),
    ),
    "upsample": ((1, 2, 3, 4), one("Upsample", upsample_param={"scale": 3}), lambda x: x.repeat(3, 2).repeat(3, 3)),
    "bias-by-bottom": (IMAGE, bias_by_bottom, lambda x: x + x.sum((1, 2, 3), keepdims=True)),
}


@pytest.mark.parametrize("name", FLOAT64)
def test_float64(caffe: Any, new_net: Any, assert_close: Any, name: str) -> None:
    shape, build, expected = FLOAT64[name]
    net = new_net(shape)
    build(net)
    x = f(*shape)
    (actual,) = caffe.run(net, {"data": x}).values()
    assert_close(actual, np.asarray(expected(x.astype(np.float64)), np.float64))


def test_pad_along_one_axis(caffe: Any, new_net: Any) -> None:
    """What `pad_h` leaves out is 0; OpenCV leaves `pad_h` out, too."""
    w, x = f(4, 3, 3, 1), f(1, 3, 9, 8)
    results: list[Array] = []
    both: tuple[dict[str, Any], ...] = ({"pad_h": 1}, {"pad_h": 1, "pad_w": 0})
    for pads in both:
        net = new_net(x.shape)
        conv((w,), num_output=4, kernel_h=3, kernel_w=1, bias_term=False, **pads)(net)
        results += caffe.run(net, {"data": x}).values()
    assert results[0].shape == (1, 4, 9, 8)
    one, other = results
    np.testing.assert_array_equal(one, other)


ONNXRUNTIME = {
    "Deconvolution": ("ConvTranspose", (4, 3, 3, 2), 6, 2),  # OpenCV leaves the dilation out
    "Convolution": ("Conv", (4, 1, 3, 3), 4, 4),  # and is wrong where a depthwise one pads by less than the dilation
}


@pytest.mark.parametrize("kind", ONNXRUNTIME)
def test_dilation(caffe: Any, new_net: Any, assert_close: Any, kind: str) -> None:
    """onnxruntime has weights of the same layout."""
    ort = pytest.importorskip("onnxruntime")
    from onnx import helper

    op_type, shape, outputs, group = ONNXRUNTIME[kind]
    w, b, x = f(*shape), f(outputs), f(1, 4, 5, 6)
    net = new_net(x.shape)
    params = {
        "num_output": outputs,
        "group": group,
        "kernel_size": shape[2:],
        "stride": [2],
        "pad": [1],
        "dilation": [2],
    }
    conv((w, b), kind, **params)(net)
    attributes = {"group": group, "strides": [2, 2], "pads": [1] * 4, "dilations": [2, 2]}
    nodes = [helper.make_node(op_type, ["x", "w", "b"], ["y"], **attributes)]
    values = [helper.make_tensor_value_info(n, 1, a.shape) for n, a in (("x", x), ("w", w), ("b", b))]
    graph = helper.make_graph(nodes, "g", values, [helper.make_tensor_value_info("y", 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert_close(caffe.run(net, {"data": x})["y"], session.run(None, {"x": x, "w": w, "b": b})[0])


DEPLOYED = ("Quant", "DeQuant", "AntiQuant")
"""Of AMCT's deploy form, tested with the other deployable files."""


def test_every_converter_is_tested() -> None:
    from amct_opt.frontends.caffe.ops import CONVERTERS

    built: set[str] = set()

    class Collect:
        def add(self, name: str, kind: str, *_: Any, **__: Any) -> str:
            built.add(kind)
            return name

    for build in [*(b for _, b in OPENCV.values()), *(b for _, b, _ in FLOAT64.values())]:
        build(Collect())
    assert set(CONVERTERS) - built == {"DepthwiseConvolution", *DEPLOYED}


def test_depthwise_convolution_is_a_convolution(caffe: Any, new_net: Any, assert_close: Any) -> None:
    w, x = f(4, 1, 3, 3), f(1, 4, 6, 6)
    results: list[Array] = []
    for kind in ("Convolution", "DepthwiseConvolution"):
        net = new_net(x.shape)
        conv((w,), kind, num_output=4, kernel_size=[3], group=4, bias_term=False)(net)
        results += caffe.run(net, {"data": x}).values()
    one, other = results
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("build", "kinds"),
    [
        (one("Power", power_param={"scale": 2.0}), ["nn.mul"]),
        (one("Power", power_param={"shift": 2.0}), ["nn.add"]),
        (one("ReLU"), ["nn.relu"]),
        (one("Clip", clip_param={"min": 0, "max": 6}), ["nn.relu6"]),
        (two("Eltwise"), ["nn.mul", "nn.add", "nn.tanh", "nn.add"]),
        (pool(pool="AVE", kernel_size=2, stride=2), ["nn.average_pool"]),
        (pool(global_pooling=True), ["nn.global_max_pool"]),
    ],
)
def test_operations(caffe: Any, new_net: Any, build: Build, kinds: list[str]) -> None:
    """Nothing is emitted that changes nothing."""
    net = new_net((1, 4, 6, 6))
    build(net)
    block = main_function(caffe.load(net)).body.block
    assert [op.name for op in block.ops if isinstance(op, nn.NNOp)] == kinds


def test_the_documentation_lists_every_layer() -> None:
    from amct_opt.frontends.caffe.ops import CONVERTERS

    text = (Path(__file__).parents[4] / "docs" / "caffe.md").read_text("utf-8")
    rows = text.partition("## Layers")[2].partition("**Pooling.**")[0].splitlines()[4:]
    listed = [name for row in rows if row.startswith("|") for name in row.split("|")[1].strip().split(", ")]
    assert sorted(listed) == sorted(CONVERTERS)
