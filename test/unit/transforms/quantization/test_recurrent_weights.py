"""Recurrent layers with integer weights: numbers, the file under onnxruntime, the record and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from amct_opt import frontends
from amct_opt.configuration.record import read_record
from amct_opt.dialects import nn
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.executor import Executable
from amct_opt.tools import amct, amct_opt
from amct_opt.universe import new_session

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
INPUT, HIDDEN = 5, 6


def weights(kind: str, directions: int) -> dict[str, Any]:
    rng, rows = np.random.default_rng(0), GATES[kind] * HIDDEN
    spread = np.geomspace(0.1, 1, rows, dtype=np.float32)[:, None]
    w, r = (rng.normal(size=(directions, rows, n)).astype(np.float32) * spread for n in (INPUT, HIDDEN))
    return {"w": w, "r": r, "b": rng.normal(size=(directions, 2 * rows)).astype(np.float32)}


@pytest.fixture
def model(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, str, int]:
    kind, directions = request.param
    attributes = {"direction": "bidirectional"} if directions == 2 else {}
    node = helper.make_node(kind, ["x", "w", "r", "b"], ["y"], "rnn", hidden_size=HIDDEN, **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [7, "N", INPUT])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [7, directions, "N", HIDDEN])],
        [numpy_helper.from_array(a, n) for n, a in weights(kind, directions).items()],
    )
    path = tmp_path / "rnn.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path, kind, directions


def run(path: Path, x: Any) -> Any:
    return Executable(frontends.read(path, new_session())).run({"x": x})["y"]


def rounded(array: Any) -> Any:
    """Each row of gates by a scale that both directions share: the farther end is 127, or -128."""
    high, low = array.max((0, 2), keepdims=True), -array.min((0, 2), keepdims=True)
    scale = np.where(high >= low, high / np.float32(127), low / np.float32(128)).astype(np.float32)
    return np.rint(array / scale) * scale


MODELS = [("LSTM", 1), ("LSTM", 2), ("GRU", 2), ("RNN", 1)]


@pytest.mark.parametrize("model", MODELS, indirect=True, ids=str)
def test_numbers(model: tuple[Path, str, int], tmp_path: Path) -> None:
    """The file holds int8 weights, and is the float network with rounded ones, here and in onnxruntime."""
    path, kind, directions = model
    written, reference = tmp_path / "int8.onnx", tmp_path / "rounded.onnx"
    assert not amct_opt.run([str(path), "--quantize=weight-only=true", "-t", "onnx", "-o", str(written)])
    proto = onnx.load(path)
    del proto.graph.initializer[:]
    held = weights(kind, directions)
    arrays = {"w": rounded(held["w"]), "r": rounded(held["r"]), "b": held["b"]}
    proto.graph.initializer.extend(numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items())
    onnx.save(proto, reference)
    x = np.random.default_rng(1).normal(size=(7, 3, INPUT)).astype(np.float32)
    session = onnxruntime.InferenceSession(written, providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(run(written, x), run(reference, x), rtol=0, atol=1e-5)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], run(written, x), rtol=0, atol=1e-6)
    stored = {i.name: i for i in onnx.load(written).graph.initializer}
    assert [stored[f"{name}.i8"].data_type for name in "wr"] == [TensorProto.INT8] * 2


def config(tmp_path: Path, text: str) -> str:
    path = tmp_path / "weights.cfg"
    path.write_text(text)
    return str(path)


ALONE = "common_config { weight_compress_only: true arq_quantize { channel_wise: true asymmetric: true } }"


@pytest.mark.parametrize("model", [("GRU", 2)], indirect=True)
def test_record(model: tuple[Path, str, int], tmp_path: Path) -> None:
    """calibration writes scales of both weights, from which convert makes the same graph."""
    path, kind, _ = model
    (tmp_path / "data").mkdir()
    np.zeros((7, 3, INPUT), np.float32).tofile(tmp_path / "data" / "0.bin")
    data = ["--input_shape", f"x:7,3,{INPUT}", "--data_dir", str(tmp_path / "data"), "--data_types", "float32"]
    given = ["--model", str(path), "--calibration_config", config(tmp_path, ALONE), *data]
    assert not amct.run(["calibration", *given, "--save_path", str(tmp_path / "a" / "n")])
    file = tmp_path / "a" / "n_record.txt"
    layer = read_record(file).layers["rnn"]
    assert layer.weight_compress_only
    assert {len(v) for v in (layer.scale_w, layer.offset_w, layer.scale_r, layer.offset_r)} == {GATES[kind] * HIDDEN}
    assert any(layer.offset_r)
    again = ["--model", str(path), "--record_file", str(file), "--save_path", str(tmp_path / "b" / "n")]
    assert not amct.run(["convert", *again])
    for name in ("fake_quant", "deploy"):
        first, second = (onnx.load(tmp_path / folder / f"n_{name}_model.onnx").graph for folder in "ab")
        assert first == second


REFUSED = {
    "scale_w: 1 offset_w: 0": "needs scale_w and scale_r, of its two weights",
    "scale_w: 1 offset_w: 0 scale_r: 1 scale_r: 1 offset_r: 0 offset_r: 0": (
        "scale_r has 2 numbers, but its weight takes one or 24"
    ),
}


@pytest.mark.parametrize("text", REFUSED)
@pytest.mark.parametrize("model", [("LSTM", 1)], indirect=True)
def test_refused_records(model: tuple[Path, str, int], text: str, tmp_path: Path, capsys: Any) -> None:
    record = tmp_path / "record.txt"
    record.write_text(f'record {{ key: "rnn" value {{ {text} }} }}')
    arguments = ["--model", str(model[0]), "--record_file", str(record), "--save_path", str(tmp_path / "n")]
    assert amct.run(["convert", *arguments]) == 1
    assert REFUSED[text] in capsys.readouterr().err


@pytest.mark.parametrize("model", [("LSTM", 1)], indirect=True)
def test_record_of_inputs_too(model: tuple[Path, str, int], tmp_path: Path) -> None:
    """AMCT's record of a layer in integers: the weights are taken, the input and the state stay float, which a remark says."""
    record = tmp_path / "record.txt"
    text = "scale_d: 1 offset_d: 0 scale_h: 1 offset_h: 0 scale_w: 0.5 offset_w: 0 scale_r: 0.25 offset_r: 0"
    record.write_text(f'record {{ key: "rnn" value {{ {text} }} }}')
    session = new_session()
    module = frontends.read(model[0], session)
    make_pass("quantize", f"record={record}").apply(session, module)
    found = [op.qparams.data for op in module.walk() if isinstance(op, nn.DequantizeOp)]
    assert [float(p.scales()) for p in found] == [0.5, 0.25]
    said = [r.reason for r in session.remarks if r.rule == "record"]
    assert said == ["the record's scales of its input and state are not used: these stay float"]
