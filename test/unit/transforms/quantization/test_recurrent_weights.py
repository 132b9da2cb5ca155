"""Recurrent layers with integer weights, alone or with input and state: numbers, files, the record and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from amct_opt import frontends, load, quantize, save
from amct_opt.configuration.record import read_record
from amct_opt.configuration.settings import Activation, Calibration, Settings
from amct_opt.dialects import ascend, nn
from amct_opt.formats.deq_scale import pack
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.executor import Executable
from amct_opt.session.universe import new_session
from amct_opt.tools import amct, amct_opt

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
    np.testing.assert_allclose(np.asarray(session.run(None, {"x": x})[0]), run(written, x), rtol=0, atol=1e-6)
    stored = {i.name: i for i in onnx.load(written).graph.initializer}
    assert [stored[f"{name}.i8"].data_type for name in "wr"] == [TensorProto.INT8] * 2


@pytest.mark.parametrize("model", MODELS, indirect=True, ids=str)
def test_rounding_that_no_rule_bounds_is_said(
    model: tuple[Path, str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the worst case, an error of a weight grows with each step of the recurrence."""
    command = [str(model[0]), "--check", "--quantize=weight-only=true", "-t", "onnx", "-o", str(tmp_path / "q.onnx")]
    assert not amct_opt.run(command)
    said = capsys.readouterr().err
    assert "same numbers: rnn.onnx, q.onnx; " in said
    assert "not checked: rnn, for a carried operator reads what was rounded to integers, which no rule bounds" in said


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
    reason = "because it has no initial state: the model does not take one as an input"
    assert said == [f"the record's scales of its input and state are not used: these stay float, {reason}"]


STEPS, BATCH = 4, 2
MINMAX = Settings(common=Calibration(Activation("minmax")))


def with_states(kind: str, **attributes: Any) -> onnx.ModelProto:
    """A layer whose states are inputs, as torch exports it."""
    states = ["h", "c"] if kind == "LSTM" else ["h"]
    own = {"linear_before_reset": 1} if kind == "GRU" else {}
    outputs = ["y", *(f"y_{s}" for s in states)]
    inputs = ["x", "w", "r", "b", "", *states]
    node = helper.make_node(kind, inputs, outputs, "rnn", hidden_size=HIDDEN, **{**own, **attributes})
    state = [1, BATCH, HIDDEN]
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [STEPS, BATCH, INPUT]),
            *(helper.make_tensor_value_info(s, TensorProto.FLOAT, state) for s in states),
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [STEPS, 1, BATCH, HIDDEN]),
            *(helper.make_tensor_value_info(f"y_{s}", TensorProto.FLOAT, state) for s in states),
        ],
        [numpy_helper.from_array(a, n) for n, a in weights(kind, 1).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def sample(kind: str) -> dict[str, Any]:
    rng = np.random.default_rng(2)
    shapes = {"x": (STEPS, BATCH, INPUT), "h": (1, BATCH, HIDDEN), "c": (1, BATCH, HIDDEN)}
    return {n: rng.normal(size=s).astype(np.float32) for n, s in shapes.items() if n != "c" or kind == "LSTM"}


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def by_hand(kind: str, record: Any, given: dict[str, Any]) -> list[Any]:
    """The layer in float64 on fake-quantized values, with the state quantized in each step. Returns y of all steps."""
    held = weights(kind, 1)
    scales = {"w": record.scale_w, "r": record.scale_r}
    w, r = (
        np.rint(held[n][0] / np.array(s, np.float32)[:, None]) * np.array(s, np.float64)[:, None]
        for n, s in scales.items()
    )
    factors = record.scale_d * np.float64(record.scale_w), record.scale_h * np.float64(record.scale_r)
    b = np.rint(held["b"][0] / np.concatenate(factors)) * np.concatenate(factors)
    c, y = given.get("c", [None])[0], []

    def rounded_to(values: Any, scale: float, offset: int) -> Any:
        return (np.clip(np.rint(values / scale) + offset, -128, 127) - offset) * scale

    state = given["h"][0]
    for x in given["x"]:
        xs = rounded_to(x, record.scale_d, record.offset_d) @ w.T + b[: len(w)]
        hs = rounded_to(state, record.scale_h, record.offset_h) @ r.T + b[len(w) :]
        if kind == "LSTM":
            i, o, f, g = np.split(xs + hs, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            state = sigmoid(o) * np.tanh(c)
        else:
            (xz, xr, xh), (hz, hr, hh) = np.split(xs, 3, axis=1), np.split(hs, 3, axis=1)
            z = sigmoid(xz + hz)
            state = (1 - z) * np.tanh(xh + sigmoid(xr + hr) * hh) + z * state
        y.append(state)
    return y


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_float_on_a_chip_without_the_operator(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(with_states(kind), path)
    module, session = load(path)
    session.chip = "910b"
    quantize(module, session, MINMAX, data=sample(kind))
    (remark,) = [r for r in session.remarks if r.kind == "missed" and r.pass_name != "import"]
    assert (remark.rule, remark.reason) == ("weight-only", f"chip 910b has no Basic{kind}InplaceFillWindowCache")


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_in_integers(kind: str, tmp_path: Path) -> None:
    """Input, state, weights and biases are integers. The deployed file has AMCT's node, computes as written here, and the record
    gives the same file again; the state's range is that of all steps.
    """
    path, given = tmp_path / "m.onnx", sample(kind)
    onnx.save(with_states(kind), path)
    module, session = load(path)
    quantize(module, session, MINMAX, data=given)
    assert not [r for r in session.remarks if r.kind == "missed" and r.pass_name != "import"]
    save(module, tmp_path / "deploy.onnx", session, "onnx-ascend")
    save(module, tmp_path / "record.txt", session, "record")
    save(module, tmp_path / "qdq.onnx", session, "onnx")
    record = read_record(tmp_path / "record.txt").layers["rnn"]
    assert len(record.scale_w) == len(record.scale_r) == GATES[kind] * HIDDEN
    (node,) = onnx.load(tmp_path / "deploy.onnx").graph.node
    assert (node.op_type, node.name) == (f"Basic{kind}InplaceFillWindowCache", "rnn")
    states = ["h", "c"] if kind == "LSTM" else ["h"]
    assert list(node.input) == ["x", "w", "r", *states, "b", "", "", "rnn.dequant.param"]
    held = {
        a.name: helper.get_attribute_value(a)
        for a in node.attribute
        if a.name.startswith("quant_") or a.name == "hidden_size"
    }
    assert held["quant_scale_h"] == np.float32(1) / np.float32(record.scale_h)
    assert (held["quant_offset_x"], held["quant_dtype"], held["hidden_size"]) == (record.offset_d, 2, HIDDEN)
    stored = {i.name: numpy_helper.to_array(i) for i in onnx.load(tmp_path / "deploy.onnx").graph.initializer}
    assert [stored[n].dtype for n in ("w", "r", "b")] == [np.int8, np.int8, np.int32]
    assert stored["b"].shape == (1, 2 * GATES[kind] * HIDDEN)
    factors = np.concatenate(
        [
            np.float32(record.scale_d) * np.array(record.scale_w, np.float32),
            np.float32(record.scale_h) * np.array(record.scale_r, np.float32),
        ]
    )
    assert np.array_equal(stored["rnn.dequant.param"], pack(factors))
    read = frontends.read(tmp_path / "deploy.onnx", new_session())
    assert any(isinstance(op, ascend.WindowCacheOp) for op in read.walk())
    outputs = Executable(read).run(given)
    np.testing.assert_allclose(outputs["y"][:, 0], by_hand(kind, record, given), rtol=0, atol=2e-5)
    assert np.array_equal(outputs["y_h"][0], outputs["y"][-1, 0])
    written = onnxruntime.InferenceSession(tmp_path / "qdq.onnx", providers=["CPUExecutionProvider"]).run(None, given)
    np.testing.assert_allclose(np.asarray(written[0]), Executable(module).run(given)["y"], rtol=0, atol=1e-6)
    seen = np.concatenate([given["h"], Executable(load(path).module).run(given)["y"][:-1, 0]])
    assert record.scale_h == pytest.approx((seen.max() - seen.min()) / 255, rel=1e-6)
    again = ["--model", str(path), "--record_file", str(tmp_path / "record.txt"), "--save_path", str(tmp_path / "n")]
    assert not amct.run(["convert", *again])
    assert onnx.load(tmp_path / "n_deploy_model.onnx").graph == onnx.load(tmp_path / "deploy.onnx").graph


def _without(model: onnx.ModelProto, index: int) -> None:
    model.graph.node[0].input[index] = ""


def _constant_state(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((1, BATCH, HIDDEN), np.float32), "zero"))
    model.graph.node[0].input[5] = "zero"


def _lengths(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(numpy_helper.from_array(np.full(BATCH, STEPS, np.int32), "n"))
    model.graph.node[0].input[4] = "n"


def _one_output(model: onnx.ModelProto) -> None:
    del model.graph.node[0].output[1:]
    del model.graph.output[1:]


FLOAT = {
    "initial-state": ("LSTM", {}, lambda m: _without(m, 6), "it has no initial cell"),
    "initial-state constant": ("GRU", {}, _constant_state, "its initial state is a constant"),
    "no-lengths": ("LSTM", {}, _lengths, "it has the input sequence_lens"),
    "default-activations": ("LSTM", {"clip": 3.0}, lambda _: None, "its clip is set"),
    "default-activations layout": ("LSTM", {"input_forget": 1}, lambda _: None, "its input_forget 1 is set"),
    "linear-before-reset": ("GRU", {"linear_before_reset": 0}, lambda _: None, "its linear_before_reset is 0"),
    "all-outputs": ("LSTM", {}, _one_output, "its node has 1 of 3 outputs"),
    "one-direction": ("LSTM", {"direction": "reverse"}, lambda _: None, "its direction is reverse"),
}


@pytest.mark.parametrize("case", FLOAT)
def test_conditions_of_integers(case: str, tmp_path: Path) -> None:
    """A layer that the operators cannot compute stays in float, and a remark says why."""
    kind, attributes, change, reason = FLOAT[case]
    model = with_states(kind, **attributes)
    change(model)
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    session = new_session()
    make_pass("insert-observers").apply(session, frontends.read(path, session))
    (found,) = (r for r in session.remarks if r.kind == "missed" and r.pass_name != "import")
    assert (found.rule, found.reason[: len(reason)]) == (case.split()[0], reason)


DAMAGED = {
    "clip": (3.0, "has a clip"),
    "direction": ("reverse", "has direction reverse, but the operator takes forward"),
    "quant_dtype": (3, "has quant_dtype 3"),
    "quant_offset_h": (0.5, "has the offset 0.5"),
    "activations": (["Tanh"], "has activations"),
    "quant_scale_x": (float("nan"), "has the quant_scale_x nan"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_deployed_files_that_are_refused(name: str, tmp_path: Path, capsys: Any) -> None:
    value, reason = DAMAGED[name]
    path, written = tmp_path / "m.onnx", tmp_path / "deploy.onnx"
    onnx.save(with_states("LSTM"), path)
    module, session = load(path)
    quantize(module, session, Settings(), data=sample("LSTM"))
    save(module, written, session, "onnx-ascend")
    proto = onnx.load(written)
    (node,) = proto.graph.node
    (old,) = (a for a in node.attribute if a.name == name)
    node.attribute.remove(old)
    node.attribute.append(helper.make_attribute(name, value))
    onnx.save(proto, written)
    assert amct_opt.run([str(written)]) == 1
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("steps", [1, STEPS])
def test_calibration_takes_one_step(steps: int, tmp_path: Path, capsys: Any) -> None:
    """As AMCT for ONNX; the record of one step is that of the state alone."""
    path, model = tmp_path / "m.onnx", with_states("GRU")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = steps
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = steps
    onnx.save(model, path)
    given = sample("GRU")
    for name, array in {**given, "x": given["x"][:steps]}.items():
        (tmp_path / name).mkdir()
        array.tofile(tmp_path / name / "0.bin")
    shapes = f"x:{steps},{BATCH},{INPUT};h:1,{BATCH},{HIDDEN}"
    data = [
        "--input_shape",
        shapes,
        "--data_dir",
        f"{tmp_path / 'x'};{tmp_path / 'h'}",
        "--data_types",
        "float32;float32",
    ]
    status = amct.run(["calibration", "--model", str(path), "--save_path", str(tmp_path / "n"), *data])
    if steps == 1:
        assert not status
        assert read_record(tmp_path / "n_record.txt").layers["rnn"].scale_h is not None
    else:
        assert status == 1
        assert "its sequences have 4 steps" in capsys.readouterr().err
