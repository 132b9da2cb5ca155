"""Small networks of TensorFlow through fusion, quantization and lowering to Ascend IR, where they run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt import frontends
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
from amct_opt.tools import amct_opt

from ...frameworks import tf

Frozen = Callable[..., Any]


def weight(*shape: int) -> np.ndarray:
    """Such that sums of products keep the size of the data."""
    return (np.random.default_rng(shape).normal(size=shape) / np.sqrt(np.prod(shape[:-1]))).astype(np.float32)


def norm(x: Any, layout: str) -> Any:
    channels = x.shape[-1 if layout == "NHWC" else 1]
    ones = np.ones(channels, np.float32)
    return tf.compat.v1.nn.fused_batch_norm(
        x, ones, ones / 8, ones / 4, ones, epsilon=1e-3, is_training=False, data_format=layout
    )[0]


def network(x: Any, *weights: Any, layout: str = "NHWC") -> Any:
    """Each layer that AMCT quantizes, once."""
    w, depthwise, transposed, rows = weights
    strides = [1, 2, 2, 1] if layout == "NHWC" else [1, 1, 2, 2]
    size = [2, 8, 8, 6] if layout == "NHWC" else [2, 6, 8, 8]
    y = tf.nn.relu(norm(tf.nn.conv2d(x, w, 1, "SAME", layout), layout))
    y = tf.nn.relu6(norm(tf.nn.depthwise_conv2d(y, depthwise, strides, "SAME", layout), layout))
    y = tf.nn.relu(tf.nn.conv2d_transpose(y, transposed, size, 2, "SAME", layout))
    y = tf.nn.avg_pool2d(y, 2, 2, "VALID", layout)
    y = tf.reduce_mean(y, axis=[1, 2] if layout == "NHWC" else [2, 3])
    return tf.nn.softmax(tf.nn.bias_add(tf.matmul(y, rows), np.zeros(5, np.float32)))


WEIGHTS = [weight(3, 3, 3, 4), weight(3, 3, 4, 1), weight(3, 3, 6, 4), weight(6, 5)]
LAYERS = ["AscendQuant", "AvgPool", "Conv2D", "Conv2DBackpropInput", "DepthwiseConv2D", "MatMulV2"]


def lowered(path: Path, out: Path, *flags: str) -> ModuleOp:
    assert amct_opt.run([str(path), *flags, "-o", str(out)]) == 0
    return frontends.read(out, new_session())


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_quantized_network(frozen: Frozen, tmp_path: Path, layout: str) -> None:
    shape = (2, 8, 8, 3) if layout == "NHWC" else (2, 3, 8, 8)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    graph = frozen(lambda x, *w: network(x, *w, layout=layout), x, variables=WEIGHTS)
    module = lowered(graph.path, tmp_path / "out.mlir", "--fuse-all", "--quantize", "--lower-to-ascend")
    names = {op.name.removeprefix("ascend.") for op in module.walk() if op.name.startswith("ascend.")}
    assert names >= set(LAYERS)
    assert not any(op.name.startswith("nn.") and op.name != "nn.constant" for op in module.walk())
    dequantized = sum(op.name == "ascend.AscendDequant" for op in module.walk())
    assert dequantized == len(LAYERS) - 1
    [y] = run(module, graph.inputs).values()
    np.testing.assert_allclose(y, graph.outputs["y0"], atol=0.02)


def trained(x: Any, w: Any, depthwise: Any) -> Any:
    """As training with quantization leaves it: activations per tensor, weights per channel, symmetric."""
    quantization = tf.quantization
    low, high = -np.full(4, 1, np.float32), np.full(4, 1, np.float32)
    y = quantization.fake_quant_with_min_max_vars(x, -4.0, 4.0)
    per_channel = quantization.fake_quant_with_min_max_vars_per_channel(w, low, high, narrow_range=True)
    y = tf.nn.relu6(tf.nn.bias_add(tf.nn.conv2d(y, per_channel, 1, "SAME"), np.ones(4, np.float32)))
    y = quantization.fake_quant_with_min_max_vars(y, 0.0, 6.0)
    per_tensor = quantization.fake_quant_with_min_max_vars(depthwise, -1.0, 1.0, narrow_range=True)
    return tf.nn.depthwise_conv2d(y, per_tensor, [1] * 4, "SAME")


def test_a_network_trained_with_quantization(frozen: Frozen, tmp_path: Path) -> None:
    """Its grids are kept: both layers compute in int8. A few numbers fall on the other side of a half: one step."""
    x = np.random.default_rng(0).normal(size=(2, 8, 8, 3)).astype(np.float32)
    graph = frozen(trained, x, variables=WEIGHTS[:2])
    module = lowered(graph.path, tmp_path / "out.mlir", "--fuse-all", "--lower-to-ascend")
    names = [op.name.removeprefix("ascend.") for op in module.walk() if op.name.startswith("ascend.")]
    assert [names.count(n) for n in ("AscendQuant", "AscendDequant", "Conv2D", "DepthwiseConv2D")] == [2, 2, 1, 1]
    [y] = run(module, graph.inputs).values()
    np.testing.assert_allclose(y, graph.outputs["y0"], atol=6 / 255)


def convolution_by_computed_filter(kind: str, x: Any, w: Any) -> Any:
    w = tf.tanh(w)
    match kind:
        case "Conv2D" | "Conv2D in groups":
            return tf.nn.conv2d(x, w, 2, "SAME")
        case "DepthwiseConv2D":
            return tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "VALID")
        case "Conv2DBackpropInput":
            return tf.nn.conv2d_transpose(x, w, [2, 12, 12, 3], 2, "SAME")
        case "Conv3D":
            return tf.nn.conv3d(x, w, [1] * 5, "SAME")
        case _:
            return tf.matmul(x, w)


@pytest.mark.parametrize(
    ("kind", "shape", "filters", "operations"),
    [
        ("Conv2D", (2, 6, 6, 4), (3, 3, 4, 5), ["Tanh", "Conv2D"]),
        ("Conv2D in groups", (2, 6, 6, 4), (3, 3, 2, 6), ["Tanh", "Conv2D"]),
        ("DepthwiseConv2D", (2, 6, 6, 4), (3, 3, 4, 2), ["Tanh", "DepthwiseConv2D"]),
        ("Conv2DBackpropInput", (2, 6, 6, 5), (3, 3, 3, 5), ["Tanh", "Conv2DBackpropInput"]),
        ("Conv3D", (1, 4, 4, 4, 3), (2, 2, 2, 3, 4), ["Tanh", "Conv3D"]),
        ("MatMulV2", (3, 4), (4, 5), ["Tanh", "MatMulV2"]),
        ("BatchMatMulV2", (2, 3, 4), (2, 4, 5), ["Tanh", "BatchMatMulV2"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "_",
)
def test_filters_that_are_computed_at_run_time(
    frozen: Frozen, tmp_path: Path, kind: str, shape: tuple[int, ...], filters: tuple[int, ...], operations: list[str]
) -> None:
    """The filter is used as it comes: `nn` transposes it, and `ascend` takes TensorFlow's order."""
    random = np.random.default_rng(0)
    given = [random.normal(size=sizes).astype(np.float32) for sizes in (shape, filters)]
    graph = frozen(lambda x, w: convolution_by_computed_filter(kind, x, w), *given)
    module = lowered(graph.path, tmp_path / "out.mlir", "--lower-to-ascend", "--legalize-ascend")
    assert [op.name.removeprefix("ascend.") for op in module.walk() if op.name.startswith("ascend.")] == operations
    [y] = run(module, graph.inputs).values()
    [found] = run(graph.read(), graph.inputs).values()
    np.testing.assert_array_equal(y, found)
    np.testing.assert_allclose(y, graph.outputs["y0"], atol=1e-4)
    [again] = run(lowered(graph.path, tmp_path / "out.onnx", "-t", "onnx-ascend"), graph.inputs).values()
    np.testing.assert_allclose(again, y, atol=1e-5)
