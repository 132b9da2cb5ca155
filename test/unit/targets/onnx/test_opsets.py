"""The opset that files are written in: the source's, a newer one where a form needs it; what cannot be written is found early."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

import amct_opt
from amct_opt.ir.metadata import add_metadata
from amct_opt.runtime.executor import Executable
from amct_opt.session import Session
from amct_opt.tools import amct, amct_opt as opt
from amct_opt.transforms.quantization import quantize_channels

CONV = helper.make_node("Conv", ["x", "w"], ["c"], "conv1", pads=[1, 1, 1, 1])
PER_CHANNEL = {"w": np.random.default_rng(0).normal(size=(4, 2, 3, 3)).astype(np.float32)}


def save(path: Path, opset: int, nodes: Sequence[NodeProto] = (), ir: int | None = None, **arrays: Any) -> Path:
    """A file of a convolution `c` of the input `x`, then `nodes`, which give `y`."""
    last = nodes or [helper.make_node("Relu", ["c"], ["y"], "relu1")]
    graph = helper.make_graph(
        [CONV, *last],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, n) for n, a in {**PER_CHANNEL, **arrays}.items()],
    )
    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(
        graph, opset_imports=imports, ir_version=ir or max(4, helper.find_min_ir_version_for(imports))
    )
    onnx.save(model, path)
    return path


def opset_of(path: Path) -> tuple[int, int]:
    """The opset and the IR version of a file that onnx accepts and onnxruntime loads."""
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return model.opset_import[0].version, model.ir_version


def quantized(model: Path, session: Session) -> Any:
    module, _ = amct_opt.load(model, session)
    amct_opt.run_pipeline(module, "fuse-all", session)
    amct_opt.quantize(
        module, session, data={"x": np.random.default_rng(1).normal(size=(2, 2, 8, 8)).astype(np.float32)}
    )
    return module


def said(session: Session) -> list[tuple[str, str]]:
    return [(r.layer, r.reason) for r in session.remarks if r.rule == "opset"]


@pytest.mark.parametrize(
    ("source", "written", "ir"),
    [
        (9, 13, 8),
        (12, 13, 8),
        (13, 13, 8),
        (16, 16, 8),
        (18, 18, 8),
        (20, 20, 9),
        (22, 22, 10),
        (23, 23, 11),
        (26, 26, 13),
    ],
)
def test_opset_of_the_source(source: int, written: int, ir: int, tmp_path: Path) -> None:
    """It is kept; below 13, which brought scales per channel, it is raised with a remark."""
    session = amct_opt.Session()
    module = quantized(save(tmp_path / "m.onnx", source), session)
    amct_opt.save(module, tmp_path / "q.onnx", session, "onnx")
    assert opset_of(tmp_path / "q.onnx") == (written, ir)
    reasons = [reason for _, reason in said(session)]
    assert reasons == ([f"the model is of opset {source}, the oldest that is written is 13"] if source < 13 else [])


def test_opset_through_text(tmp_path: Path) -> None:
    """Module text remembers it."""
    model, text, out = save(tmp_path / "m.onnx", 19), tmp_path / "m.mlir", tmp_path / "q.onnx"
    assert opt.run([str(model), "--fuse-all", "-o", str(text)]) == 0
    assert opt.run([str(text), "--quantize", "-t", "onnx", "-o", str(out)]) == 0
    assert opset_of(out) == (19, 9)


def test_other_sources(tmp_path: Path) -> None:
    module, session = amct_opt.parse(
        """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
             %y = nn.relu %x : tensor<2xf32>
             func.return %y : tensor<2xf32>
           }"""
    )
    amct_opt.save(module, tmp_path / "m.onnx", session, "onnx")
    assert opset_of(tmp_path / "m.onnx") == (17, 8)


def test_raised_where_a_form_needs_it(tmp_path: Path) -> None:
    """The first opset that has it, with a remark: dilated average pools came with 19, integers of 4 bits with 21."""
    session = amct_opt.Session()
    dilated = helper.make_node("AveragePool", ["c"], ["y"], "pool1", kernel_shape=[2, 2], dilations=[2, 2])
    module, _ = amct_opt.load(save(tmp_path / "m.onnx", 19, [dilated]), session)
    amct_opt.save(module, tmp_path / "f.onnx", session, "onnx")
    assert said(session) == []
    add_metadata(module, opset="14")
    amct_opt.save(module, tmp_path / "f.onnx", session, "onnx")
    assert opset_of(tmp_path / "f.onnx") == (19, 9)
    reason = "needs AveragePool with dilations, which opset 14 does not have: the file is written in opset 19"
    assert said(session) == [("pool1", reason)]


@pytest.fixture
def no_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    def calibrate(*_: object) -> None:
        pytest.fail("data runs through a model that cannot be written")

    monkeypatch.setattr(quantize_channels, "calibrate_points", calibrate)


WARP = [
    helper.make_node("GridSample", ["c", "g"], ["s"], "warp1", align_corners=0, mode="linear"),
    helper.make_node("ReduceL2", ["s", "axes"], ["y"], "norm1", keepdims=0),
]
GRID = {"g": np.zeros((1, 3, 3, 2), np.float32), "axes": np.array([1], np.int64)}


def test_exports_of_today(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Operators that nn does not have stay in the form of their opset, without any option. No file for ATC can hold these."""
    model = save(tmp_path / "gridsample.onnx", 20, WARP, **GRID)
    assert amct.run(["quantize", str(model), "-o", str(tmp_path / "out")]) == 0
    assert opset_of(tmp_path / "out" / "gridsample_qdq.onnx") == (20, 9)
    deployable = tmp_path / "out" / "gridsample_deploy_model.onnx"
    said = (
        f"warning: {deployable} is not written: {model}: node 'warp1': 'nn.opaque' op holds GridSample, which opset 13 "
    )
    assert said in capsys.readouterr().err
    assert not deployable.exists()


@pytest.mark.usefixtures("no_calibration")
def test_found_before_calibration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An opset that was asked for, or formats that end at 17; hints are those of the command, and nothing is written."""
    model, out = str(save(tmp_path / "m.onnx", 20, WARP, **GRID)), str(tmp_path / "out")

    def error(tool: Any, *arguments: str) -> list[str]:
        assert tool.run([*arguments]) == 1
        lines = capsys.readouterr().err.strip().split("\n")
        return [line for line in lines if "missed remark" not in line][-2:]

    first = (
        f"{model}: node 'warp1': error: 'nn.opaque' op holds GridSample of opset 20, which opset 17 defines otherwise"
    )
    assert error(amct, "quantize", model, "-o", out, "--opset", "17") == [
        first,
        "  hint: write a newer opset: --opset 20",
    ]
    file = str(tmp_path / "m_q.onnx")
    written = error(opt, model, "--fuse-all", "--quantize", "-t", "onnx{opset=17}", "-o", file)
    assert written == [first, "  hint: write a newer opset: -t 'onnx{opset=20}'"]
    assert error(opt, model, "--quantize", "-t", "onnx-ascend", "-o", file)[-1].startswith("  hint: no opset from 11 ")

    (tmp_path / "data").mkdir()
    np.zeros((1, 2, 8, 8), np.float32).tofile(tmp_path / "data" / "x.bin")
    data = ("--input_shape", "x:1,2,8,8", "--data_dir", str(tmp_path / "data"), "--data_types", "float32")
    lines = error(amct, "calibration", "--model", model, "--save_path", f"{out}/m", *data)
    assert lines[0].startswith(
        f"{model}: node 'warp1': error: 'nn.opaque' op holds GridSample, which opset 13 does not have"
    )
    assert lines[1].startswith("  hint: no opset from 11 to 17 has it")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data", "m.onnx"]


@pytest.mark.usefixtures("no_calibration")
def test_operators_that_no_opset_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Hardmax before opset 13 takes all axes after one for one."""
    model = save(tmp_path / "m.onnx", 11, [helper.make_node("Hardmax", ["c"], ["y"], "hard1")])
    assert amct.run(["quantize", str(model), "-o", str(tmp_path / "out")]) == 1
    assert "holds Hardmax of opset 11, which opset 13 defines otherwise" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("no_calibration")
def test_integers_that_an_opset_does_not_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, config = save(tmp_path / "m.onnx", 13), tmp_path / "c.cfg"
    config.write_text("common_config { arq_quantize { quant_bits: 4 } }")
    assert (
        amct.run(["quantize", str(model), "-o", str(tmp_path / "out"), "--config", str(config), "--opset", "17", "-q"])
        == 1
    )
    message = f"{config}: error: opset 17 has no quantization with quant_bits 4"
    assert capsys.readouterr().err.strip().split("\n") == [message, "  hint: write a newer opset: --opset 21"]


def test_integers_that_raise_the_opset(tmp_path: Path) -> None:
    model, config = save(tmp_path / "m.onnx", 13), tmp_path / "c.cfg"
    config.write_text("common_config { arq_quantize { quant_bits: 4 } }")
    assert amct.run(["quantize", str(model), "-o", str(tmp_path / "out"), "--config", str(config)]) == 0
    assert opset_of(tmp_path / "out" / "m_qdq.onnx") == (21, 10)
    assert "which in opset 13 takes no int4" in (tmp_path / "out" / "remarks.yaml").read_text("utf-8")


@pytest.mark.parametrize("opset", [13, 18, 20, 22, 24, 26])
def test_integer_kernels_in_every_opset(opset: int, tmp_path: Path) -> None:
    """onnxruntime makes integer kernels of the pairs, whatever the opset."""
    session = amct_opt.Session()
    session.profile = "qdq"
    amct_opt.save(quantized(save(tmp_path / "m.onnx", opset), session), tmp_path / "q.onnx", session, "onnx")
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "o.onnx")
    onnxruntime.InferenceSession(tmp_path / "q.onnx", options, providers=["CPUExecutionProvider"])
    assert "QLinearConv" in {n.op_type for n in onnx.load(tmp_path / "o.onnx").graph.node}


@pytest.mark.parametrize(("opset", "stored"), [(20, np.int8), (21, np.uint8), (24, np.uint8)])
def test_activations_are_unsigned_from_opset_21_on(opset: int, stored: type, tmp_path: Path) -> None:
    """onnxruntime makes a Gemm between Reshapes of the layer, and moves Q/DQ after the first: of int8 it refuses that."""
    rng, session = np.random.default_rng(3), amct_opt.Session()
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], "fc"), helper.make_node("Add", ["m", "b"], ["y"], "bias")]
    arrays = {"w": rng.normal(size=(8, 6)).astype(np.float32), "b": rng.normal(size=6).astype(np.float32)}
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, n) for n, a in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    onnx.save(model, tmp_path / "fc.onnx")
    module, _ = amct_opt.load(tmp_path / "fc.onnx", session)
    amct_opt.run_pipeline(module, "fuse-all", session)
    data = {"x": rng.normal(size=(4, 4, 8)).astype(np.float32)}
    amct_opt.quantize(module, session, data=data)
    amct_opt.save(module, tmp_path / "q.onnx", session, "onnx")
    assert opset_of(tmp_path / "q.onnx")[0] == opset
    [zero_point] = [t for t in onnx.load(tmp_path / "q.onnx").graph.initializer if t.name.startswith("x.q/zero_point")]
    assert numpy_helper.to_array(zero_point).dtype == stored
    x = {"x": data["x"][:1]}
    ours = Executable(module).run(x)["y"]
    session = onnxruntime.InferenceSession(tmp_path / "q.onnx", providers=["CPUExecutionProvider"])
    [theirs] = map(np.asarray, session.run(None, x))
    np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-5)
