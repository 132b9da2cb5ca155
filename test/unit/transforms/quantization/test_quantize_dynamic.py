"""`--quantize-dynamic`: the integers of formulas, in the interpreter and in onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import UnknownLoc

from amct_opt import frontends
from amct_opt.dialects import ascend, nn
from amct_opt.ir.text import parse_module
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
from amct_opt.targets.onnx import OnnxTarget

from ...values import normal

DEPTH, WIDTH = 3000, 5
WEIGHT = (normal(DEPTH, WIDTH) * [1, 5, 0.1, 2, 3]).astype(np.float32)
WEIGHT[:, 3] = 2.0  # its sums are the largest: beyond what float32 holds exactly


def model(path: Path) -> Path:
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], "fc"), helper.make_node("Add", ["m", "b"], ["y"], "bias")]
    graph = helper.make_graph(
        nodes,
        "fc",
        [value("x", TensorProto.FLOAT, ["N", "S", DEPTH])],
        [value("y", TensorProto.FLOAT, ["N", "S", WIDTH])],
        [numpy_helper.from_array(WEIGHT, "w"), numpy_helper.from_array(np.arange(5, dtype=np.float32), "b")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def rows(rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Rows of very different sizes: of zeros, of numbers near the least and the largest ones, of one number."""
    x = rng.normal(size=(2, 4, DEPTH)).astype(np.float32)
    x[0, 1], x[0, 2], x[1, 0] = 0, x[0, 2] * 1e-42, x[1, 0] * 1e30
    x[1, 1] = 3.25
    return x


def formula(x: np.ndarray[Any, Any], step: Any = None) -> np.ndarray[Any, Any]:
    """In steps of float32, with sums of integers. The largest sum of two weights that kernels may add in 16 bits is 127."""
    f32 = np.float32
    sums_of_two = [np.maximum(sign * WEIGHT, 0).reshape(-1, 2, WIDTH).sum(1).max(0) for sign in (1, -1)]
    step = (np.maximum(*sums_of_two) / 127.0).astype(f32) if step is None else step
    weight = np.rint(WEIGHT / step).astype(np.int64)
    scale = np.maximum(np.abs(x).max(-1, keepdims=True), f32(127 * float(np.finfo(f32).tiny))) / f32(127)
    sums = np.rint(x / scale).astype(np.int64) @ weight
    return sums.astype(f32) * (scale * step) + np.arange(5, dtype=f32)


def test_the_file_has_the_integers_of_the_formula(amct_tool: Any, tmp_path: Path, rng: np.random.Generator) -> None:
    """Without data. The file is read back as it was written."""
    result = amct_tool(
        "quantize", model(tmp_path / "m.onnx"), "--profile", "qdq", "--dynamic", "--also", "nn", "-o", tmp_path / "out"
    )
    assert result.status == 0, result.err
    x, file = rows(rng), tmp_path / "out" / "m_qdq.onnx"
    expected, session = formula(x), new_session()
    assert np.abs(expected).max() > 1e30
    read, written = (frontends.read(tmp_path / "out" / name, session) for name in ("m_qdq.onnx", "m_nn.mlir"))
    assert sum(isinstance(op, nn.MatMulIntegerOp) for op in read.walk()) == 1
    for module in (read, written):
        np.testing.assert_array_equal(run(module, {"x": x})["y"], expected)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    np.testing.assert_array_equal(onnxruntime.InferenceSession(file, options).run(None, {"x": x})[0], expected)
    fused = np.asarray(onnxruntime.InferenceSession(file).run(None, {"x": x})[0])
    np.testing.assert_allclose(fused, expected, rtol=1e-6, atol=1e-6)


def test_ascend_multiplies_the_integers_of_the_formula(
    amct_tool: Any, tmp_path: Path, rng: np.random.Generator
) -> None:
    """By operators that ATC has: AscendQuant of rows that are divided by their scales, which the product is multiplied by."""
    options = ("--profile", "ascend-a2", "--dynamic", "--channel-wise", "--also", "ascend", "-o", tmp_path / "out")
    result = amct_tool("quantize", model(tmp_path / "m.onnx"), *options)
    assert result.status == 0, result.err
    assert "ATC refuses" not in result.err
    x, session = rows(rng), new_session()
    step = np.maximum(WEIGHT.max(0) / 127, WEIGHT.min(0) / -128).astype(np.float32)
    expected = formula(x, step)
    lowered, deployed = (
        frontends.read(tmp_path / "out" / f"m_{name}", session) for name in ("ascend.mlir", "deploy_model.onnx")
    )
    products = [op for op in lowered.walk() if isinstance(op, ascend.BatchMatMulV2Op)]
    assert [str(op.x1.type) for op in products] == [f"tensor<?x?x{DEPTH}xi8>"]
    for module in (lowered, deployed):
        np.testing.assert_allclose(run(module, {"x": x})["y"], expected, rtol=1e-6, atol=1e-6)


def test_a_product_of_integers_is_no_product_of_groups(tmp_path: Path) -> None:
    session = new_session()
    session.profile = "qdq"
    module = frontends.read(model(tmp_path / "m.onnx"), session)
    make_pass("quantize", "dynamic=true").apply(session, module)
    OnnxTarget(matmul_nbits=True).write(module, tmp_path / "out.onnx", session)
    (said,) = (r for r in session.remarks if r.rule == "matmul-nbits")
    assert said.reason == "is not written as MatMulNBits: its input is quantized in each run (dynamic)"
    assert "node 'fc'" in str(said)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--weight-bits=4", "weight-bits does not apply"),
        ("--group-size=32", "group-size does not apply"),
        ("--weight-format=fp8-e4m3", "weight-format does not apply"),
        ("--layer-bits=fc:16", "layer-bits does not apply"),
    ],
)
def test_options_that_exclude_each_other(option: str, message: str, amct_tool: Any, tmp_path: Path) -> None:
    given = ("quantize", model(tmp_path / "m.onnx"), "--profile", "qdq", "--dynamic", option, "-o", tmp_path / "out")
    result = amct_tool(*given)
    assert result.status == 1
    assert message in result.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "command", [("sensitivity",), ("tune", "--sqnr", "20", "-o", "out")], ids=["sensitivity", "tune"]
)
def test_layers_are_not_measured_one_by_one(
    command: tuple[str, ...], amct_tool: Any, tmp_path: Path, rng: np.random.Generator
) -> None:
    np.savez(tmp_path / "x.npz", x=rows(rng))
    result = amct_tool(command[0], model(tmp_path / "m.onnx"), *command[1:], "--data", tmp_path / "x.npz", "--dynamic")
    assert result.status == 1
    assert "layers whose inputs are quantized in each run are not measured one by one" in result.err


def test_what_is_made_has_the_location_of_the_product(tmp_path: Path) -> None:
    session = new_session()
    session.profile = "qdq"
    module = frontends.read(model(tmp_path / "m.onnx"), session)
    make_pass("quantize", "dynamic=true").apply(session, module)
    made = [op for op in module.walk() if isinstance(op, nn.NNOp)]
    assert any(isinstance(op, nn.MatMulIntegerOp) for op in made)
    assert [op.name for op in made if isinstance(op.location, UnknownLoc)] == []


def test_without_quantized_weights_there_is_a_warning(tmp_path: Path) -> None:
    """Also if the session has another module, of which inputs were quantized."""
    session = new_session()
    make_pass("quantize", "dynamic=true").apply(session, frontends.read(model(tmp_path / "m.onnx"), session))
    assert session.warnings == []
    module = parse_module(
        session, "func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> { func.return %x : tensor<2x3xf32> }"
    )
    make_pass("quantize-dynamic").apply(session, module)
    assert session.warnings == ["--quantize-dynamic: no input is quantized; no product has a quantized weight"]


def test_zero_points_for_each_row_are_carried(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w", "p"], ["y"], "product")],
        "rows",
        [value("x", TensorProto.UINT8, [3, 2])],
        [value("y", TensorProto.INT32, [3, 4])],
        [
            numpy_helper.from_array(np.ones((2, 4), np.int8), "w"),
            numpy_helper.from_array(np.array([1, 2, 3], np.uint8), "p"),
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    session = new_session()
    module = frontends.read(tmp_path / "m.onnx", session)
    assert any(isinstance(op, nn.OpaqueOp) for op in module.walk())
    assert any("a zero point for each row or column" in remark.reason for remark in session.remarks)
