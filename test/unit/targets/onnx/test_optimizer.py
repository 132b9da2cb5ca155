"""What onnxruntime's optimizer does wrong is kept from it: a written file gives the same with its optimizations and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from amct_opt import frontends
from amct_opt.runtime.executor import Executable
from amct_opt.session.universe import new_session
from amct_opt.targets.onnx import OnnxTarget

from ...values import parsed

IMAGE = (1, 2, 5, 5)


def model(nodes: list[onnx.NodeProto], outputs: list[str], **constants: object) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, IMAGE)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def run(file: Path, level: onnxruntime.GraphOptimizationLevel) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = level
    x = np.random.default_rng(0).normal(size=IMAGE).astype(np.float32) - 3
    session: Any = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})


def assert_equal_when_optimized(source: onnx.ModelProto, folder: Path) -> None:
    onnx.save(source, folder / "source.onnx")
    session = new_session()
    module = frontends.read(folder / "source.onnx", session)
    OnnxTarget().write(module, folder / "written.onnx", session)
    levels = onnxruntime.GraphOptimizationLevel
    expected = run(folder / "source.onnx", levels.ORT_DISABLE_ALL)
    for a, b in zip(expected, run(folder / "written.onnx", levels.ORT_ENABLE_ALL), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)


WIDE = """
module attributes {nn.metadata = {profile = "PROFILE"}} {
  func.func @main(%x: tensor<1x2x5x5xf32> {nn.name = "x"}) -> (tensor<1x2x3x3xf32> {nn.name = "y"}) {
    %w = nn.constant dense<[[[[3]], [[-127]]], [[[126]], [[5]]]]> : tensor<2x2x1x1xi8>
    %b = nn.constant dense<[-1000, 1000]> : tensor<2xi32>
    %wd = nn.dequantize %w by <i8, scale = 0.03125> : (tensor<2x2x1x1xi8>) -> tensor<2x2x1x1xf32>
    %bd = nn.dequantize %b by <i32, scale = 3.0517578125e-05> : (tensor<2xi32>) -> tensor<2xf32>
    %q = nn.quantize %x by <i16, scale = 0.0009765625, zero_point = -100> : (tensor<1x2x5x5xf32>) -> tensor<1x2x5x5xi16>
    %d = nn.dequantize %q by <i16, scale = 0.0009765625, zero_point = -100> : (tensor<1x2x5x5xi16>) -> tensor<1x2x5x5xf32>
    %c = nn.conv %d, %wd, %bd : (tensor<1x2x5x5xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x5x5xf32>
    %r = nn.relu %c : tensor<1x2x5x5xf32>
    %p = nn.quantize %r by <i16, scale = 0.001, zero_point = -32768> : (tensor<1x2x5x5xf32>) -> tensor<1x2x5x5xi16>
    %e = nn.dequantize %p by <i16, scale = 0.001, zero_point = -32768> : (tensor<1x2x5x5xi16>) -> tensor<1x2x5x5xf32>
    %y = nn.max_pool %e kernel [3, 3] : (tensor<1x2x5x5xf32>) -> tensor<1x2x3x3xf32>
    func.return %y : tensor<1x2x3x3xf32>
  }
}
"""
"""Sums below 2^24 of integers of 16 and 8 bits, which float32 adds exactly in any order."""


@pytest.mark.parametrize(("profile", "integers"), [("ascend", TensorProto.INT16), ("qdq", TensorProto.UINT16)])
def test_activations_of_16_bits(profile: str, integers: int, tmp_path: Path) -> None:
    """The file is raised to opset 21, with a remark, and gives the simulation's numbers to the bit."""
    module, session = parsed(WIDE.replace("PROFILE", profile))
    OnnxTarget().write(module, tmp_path / "net.onnx", session)
    written = onnx.load(tmp_path / "net.onnx")
    assert written.opset_import[0].version == 21
    assert "takes no" in next(r.reason for r in session.remarks if r.rule == "opset")
    types = {
        n.op_type: i.data_type for n in written.graph.node for i in written.graph.initializer if i.name in n.input[2:]
    }
    assert types["QuantizeLinear"] == integers
    (y,) = run(tmp_path / "net.onnx", onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
    x = np.random.default_rng(0).normal(size=IMAGE).astype(np.float32) - 3
    np.testing.assert_array_equal(y, Executable(module).run({"x": x})["y"])
    read = Executable(frontends.read(tmp_path / "net.onnx", new_session())).run({"x": x})["y"]
    np.testing.assert_array_equal(y, read)


@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 0, 1, 0)])
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_zeros_before_a_pool(kind: str, pads: tuple[int, ...], tmp_path: Path) -> None:
    """Keras writes ResNet50V2 so: after its first convolution are negative values, a pad and a max pool."""
    counted: dict[str, Any] = {"count_include_pad": 1} if kind == "AveragePool" else {}
    nodes = [
        helper.make_node("Pad", ["x", "pads", "zero"], ["padded"]),
        helper.make_node(kind, ["padded"], ["y"], kernel_shape=[2, 2], strides=[1, 1], pads=pads, **counted),
    ]
    constants = {"pads": np.array([0, 0, 1, 1, 0, 0, 0, 0]), "zero": np.float32(0)}
    assert_equal_when_optimized(model(nodes, ["y"], **constants), tmp_path)


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_the_sum_of_two_convolutions_with_quantized_weights(order: tuple[str, str], tmp_path: Path) -> None:
    """One of them an output of the graph."""
    rng = np.random.default_rng(1)
    nodes = [
        helper.make_node("DequantizeLinear", ["w1", "scale", "zero"], ["u"], axis=0),
        helper.make_node("DequantizeLinear", ["w2", "scale", "zero"], ["v"], axis=0),
        helper.make_node("Conv", ["x", "u", "bias"], ["a"]),
        helper.make_node("Conv", ["x", "v"], ["b"]),
        helper.make_node("Add", order, ["y"]),
    ]
    constants = {
        "w1": rng.integers(-128, 127, (3, 2, 1, 1), np.int8),
        "w2": rng.integers(-128, 127, (3, 2, 1, 1), np.int8),
        "scale": np.full(3, 0.01, np.float32),
        "zero": np.zeros(3, np.int8),
        "bias": rng.normal(size=3).astype(np.float32),
    }
    assert_equal_when_optimized(model(nodes, ["a", "y"], **constants), tmp_path)


@pytest.mark.parametrize("of_16_bits", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("kind", ["MatMul", "Gemm"])
def test_the_input_of_a_product_with_a_quantized_weight(kind: str, bits: int, of_16_bits: bool, tmp_path: Path) -> None:
    """It stays float, or of 16 bits: MatMulNBits, which the optimizer would make of it, rounds it to int8."""
    rng = np.random.default_rng(2)
    least = -(2 ** (bits - 1))
    element = {4: TensorProto.INT4, 8: TensorProto.INT8}[bits]
    numbers = rng.integers(least, -least, 25 * 16)
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["rows"]),
        helper.make_node("DequantizeLinear", ["w", "scale"], ["v"], axis=1),
        helper.make_node(kind, ["d" if of_16_bits else "rows", "v"], ["y"]),
    ]
    constants = {"scale": np.linspace(0.01, 0.02, 16, dtype=np.float32), "shape": np.array([2, 25])}
    if of_16_bits:
        constants |= {"step": np.float32(2**-12), "zero": np.uint16(2**15)}
        nodes.insert(1, helper.make_node("QuantizeLinear", ["rows", "step", "zero"], ["q"]))
        nodes.insert(2, helper.make_node("DequantizeLinear", ["q", "step", "zero"], ["d"]))
    source = model(nodes, ["y"], **constants)
    source.opset_import[0].version, source.ir_version = 21, 10
    source.graph.initializer.append(helper.make_tensor("w", element, (25, 16), numbers))
    assert_equal_when_optimized(source, tmp_path)


FOUR_BITS = {
    "Conv": helper.make_node("Conv", ["d", "v"], ["a"]),
    "MaxPool": helper.make_node("MaxPool", ["d"], ["a"], kernel_shape=[2, 2]),
    "Relu": helper.make_node("Relu", ["d"], ["a"]),
    "Clip": helper.make_node("Clip", ["d", "least"], ["a"]),
}


@pytest.mark.parametrize("node", FOUR_BITS.values(), ids=FOUR_BITS)
def test_integers_of_four_bits(node: onnx.NodeProto, tmp_path: Path) -> None:
    """onnxruntime has no kernels of them: it rejects what it makes of a Conv and a MaxPool, and drops a Relu."""
    rng = np.random.default_rng(3)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "scale"], ["v"]),
        node,
        helper.make_node("QuantizeLinear", ["a", "scale", "zero"], ["b"]),
        helper.make_node("DequantizeLinear", ["b", "scale", "zero"], ["y"]),
    ]
    weight = rng.integers(-1, 2, (3, 2, 1, 1), np.int8)
    source = model(nodes, ["y"], w=weight, scale=np.float32(0.5), least=np.float32(-2))
    source.opset_import[0].version, source.ir_version = 21, 10
    source.graph.initializer.append(helper.make_tensor("zero", TensorProto.INT4, [], [0]))
    assert_equal_when_optimized(source, tmp_path)


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_pads_as_wide_as_a_kernel(dtype: Any, tmp_path: Path) -> None:
    """onnxruntime refuses them, and leaves dilations out of what it pads for SAME: the expected numbers are ONNX's."""
    window: dict[str, Any] = {"kernel_shape": [1, 2], "dilations": [1, 3], "auto_pad": "SAME_UPPER"}
    x = np.array([-9, -1, -5, -3, -7, -2, -8], dtype).reshape(1, 1, 1, 7)
    given, made = ([helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)] for n in "xy")
    graph = helper.make_graph([helper.make_node("MaxPool", ["x"], ["y"], **window)], "g", given, made)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    session = new_session()
    OnnxTarget().write(frontends.read(tmp_path / "m.onnx", session), tmp_path / "written.onnx", session)
    (y,) = map(np.asarray, onnxruntime.InferenceSession(tmp_path / "written.onnx").run(None, {"x": x}))
    row, places = x.reshape(-1), [(i - 1, i + 2) for i in range(7)]  # one of three elements of padding is before
    np.testing.assert_array_equal(y.reshape(-1), [max(row[i] for i in pair if 0 <= i < 7) for pair in places])
