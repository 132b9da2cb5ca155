"""Layers that stay float between quantized ones run in float in onnxruntime, whose optimizer would quantize their weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import SSAValue

import amct_opt
from amct_opt.configuration.settings import Settings
from amct_opt.dialects import nn
from amct_opt.runtime.executor import Executable
from amct_opt.runtime.integer_plan import in_integers
from amct_opt.runtime.metrics import difference
from amct_opt.session.universe import new_session

from ...targets.nets import i8
from .nets import Chain, Point, reals
from .peer import both, in_onnxruntime, written

IN, OUT = Point(0.031, 5), Point(0.43, -11)

IMAGE, ROWS = (1, 6, 9, 8), (7, 6)


def weight(net: Chain, *shape: int) -> SSAValue:
    return net.constant(net.rng.normal(size=shape).astype(np.float32), f"w{len(list(net.block.ops))}")


def conv(net: Chain, x: SSAValue) -> SSAValue:
    return net.add(nn.ConvOp, x, weight(net, 5, 6, 3, 3), weight(net, 5), pads=(1, 1, 1, 1))


def depthwise(net: Chain, x: SSAValue) -> SSAValue:
    return net.add(nn.ConvOp, x, weight(net, 6, 1, 3, 3), groups=6)


def conv_transpose(net: Chain, x: SSAValue) -> SSAValue:
    return net.add(nn.ConvTransposeOp, x, weight(net, 6, 5, 3, 3), weight(net, 5), strides=(2, 2))


def padded(net: Chain, x: SSAValue) -> SSAValue:
    """The optimizer merges the padding into the convolution."""
    return conv(net, net.add(nn.PadOp, x, pads=(0, 0, 1, 1, 0, 0, 1, 1)))


def moved(net: Chain, x: SSAValue) -> SSAValue:
    """The optimizer moves DequantizeLinear after the transpose."""
    return conv(net, net.add(nn.TransposeOp, x, perm=(0, 1, 3, 2)))


def pooled(net: Chain, x: SSAValue) -> SSAValue:
    return conv(net, net.add(nn.MaxPoolOp, x, kernel=(2, 2)))


def gemm(net: Chain, x: SSAValue) -> SSAValue:
    return net.add(nn.MatMulOp, x, weight(net, 4, 6), weight(net, 4), transpose_b=True)


def product_and_sum(net: Chain, x: SSAValue) -> SSAValue:
    """The optimizer makes them a Gemm."""
    return net.add(nn.AddOp, net.add(nn.MatMulOp, x, weight(net, 6, 4)), weight(net, 4))


def float_bias(net: Chain, x: SSAValue) -> SSAValue:
    """A weight that is quantized by itself; the optimizer would round the bias."""
    return net.add(nn.MatMulOp, x, dequantized(net, 0), weight(net, 4))


def asymmetric_weight(net: Chain, x: SSAValue) -> SSAValue:
    return net.add(nn.MatMulOp, x, dequantized(net, 17))


def dequantized(net: Chain, zero_point: int) -> SSAValue:
    integers = net.constant(net.rng.integers(-128, 128, (6, 4)).astype(np.int8), "w.i8")
    params = nn.QParamsAttr.of(i8, 0.01, zero_point)
    return net.add(nn.DequantizeOp, integers, qparams=params, result_types=[TensorType(f32, (6, 4))])


class Case(NamedTuple):
    shape: tuple[int, ...]
    layer: Callable[[Chain, SSAValue], SSAValue]


CASES = {
    layer.__name__: Case(shape, layer)
    for shape, layers in {
        IMAGE: (conv, depthwise, conv_transpose, padded, moved, pooled),
        ROWS: (gemm, product_and_sum, float_bias, asymmetric_weight),
    }.items()
    for layer in layers
}

KEPT = {"float_bias": 2, "asymmetric_weight": 2}
"""Where a weight has integers, another Max keeps the product's input from being rounded to int8 (MatMulNBits)."""

INTEGERS = {"QLinearConv", "QGemm", "QLinearMatMul", "MatMulIntegerToFloat", "ConvInteger"}


@pytest.mark.parametrize("name", CASES)
def test_weights_stay_float(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    net = Chain(*case.shape)
    y = net.at(case.layer(net, net.at(net.x, IN)), OUT)
    pair = both(net.module(y), [reals(net.rng, case.shape, IN)], tmp_path, rewrite=None)
    assert not INTEGERS & set(pair.kernels)
    assert pair.kernels["Max"] == KEPT.get(name, 1)
    assert pair.steps(OUT.scale) < 0.001 or pair.differing <= 1  # a sum on a tie


def test_a_float_layer_behind_float_is_written_as_it_is(tmp_path: Path) -> None:
    net = Chain(*IMAGE)
    y = net.at(conv(net, net.add(nn.TanhOp, net.at(net.x, IN))), OUT)
    operators = [n.op_type for n in onnx.load(written(net.module(y), tmp_path)).graph.node]
    assert "Max" not in operators


def test_the_file_reads_back_as_the_module(tmp_path: Path) -> None:
    net = Chain(*IMAGE)
    module = net.module(net.at(conv(net, net.at(net.x, IN)), OUT))
    again, _ = amct_opt.load(written(module, tmp_path))
    assert not [op for op in again.walk() if isinstance(op, nn.MaxOp)]
    x = reals(net.rng, IMAGE, IN)
    (before,), (after,) = (list(e.run({e.inputs[0]: x}).values()) for e in (Executable(module), Executable(again)))
    np.testing.assert_array_equal(before, after)


LAYERS = 8


def network(rng: np.random.Generator, path: Path) -> None:
    """Convolutions `conv0` ... and what stands between them in networks, as an ONNX file."""
    nodes, weights = [], []

    def parameter(*shape: int) -> str:
        array = (rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        weights.append(numpy_helper.from_array(array, f"w{len(weights)}"))
        return weights[-1].name

    value = "x"
    for i in range(LAYERS):
        nodes.append(
            helper.make_node("Conv", [value, parameter(6, 6, 3, 3), parameter(6)], [f"c{i}"], f"conv{i}", pads=[1] * 4)
        )
        between = str(rng.choice(["none", "Relu", "Sigmoid", "Transpose", "MaxPool", "Add"]))
        before, value = value, f"c{i}" if between == "none" or i == LAYERS - 1 else f"v{i}"
        attributes: dict[str, Any] = {
            "Transpose": {"perm": [0, 1, 3, 2]},
            "MaxPool": {"kernel_shape": [3, 3], "pads": [1] * 4},
        }
        if value == f"v{i}":
            inputs = [f"c{i}", before] if between == "Add" else [f"c{i}"]
            nodes.append(helper.make_node(between, inputs, [value], f"op{i}", **attributes.get(between, {})))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 6, 8, 8]) for n in ("x", value)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.mark.parametrize("profile", ["qdq", "ascend"])
@pytest.mark.parametrize("seed", range(6))
def test_layers_that_are_skipped_at_random(seed: int, profile: str, tmp_path: Path) -> None:
    """None of these runs in integers, and the outputs are those of the interpreter."""
    rng = np.random.default_rng(seed)
    network(rng, tmp_path / "model.onnx")
    x = rng.normal(size=(2, 6, 8, 8)).astype(np.float32)
    skipped = {f"conv{i}" for i in range(LAYERS) if rng.random() < 0.5}
    session = new_session()
    session.profile = profile
    module, session = amct_opt.load(tmp_path / "model.onnx", session)
    amct_opt.run_pipeline(module, "fuse-all", session)
    amct_opt.quantize(module, session, Settings(skip_layers=tuple(skipped)), data=[{"x": x}])
    amct_opt.save(module, tmp_path / "q.onnx", session, "onnx")
    (theirs,), _ = in_onnxruntime(tmp_path / "q.onnx", [x], tmp_path)
    graph = onnx.load(tmp_path / "optimized.onnx").graph
    integer = {n.name.partition("_")[0] for n in graph.node if n.op_type == "QLinearConv"}
    assert not integer & skipped
    assert not any(i.name.endswith("_weight_q") for i in graph.initializer)
    rewrite = in_integers if profile == "qdq" else None
    (ours,) = Executable(module, rewrite=rewrite).run({"x": x}).values()
    assert difference(ours, theirs).sqnr > 40  # sums in float on ties
