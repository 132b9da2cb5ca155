"""What AMCT's commands make of each mode of quantization in each framework: files that are read back, or one named refusal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from amct_opt import frontends
from amct_opt.configuration.record import NUMBERS, read_record
from amct_opt.runtime.executor import run
from amct_opt.session import ImportOptions
from amct_opt.session.universe import new_session
from amct_opt.tools import amct_opt

from ..values import normal

X = normal(2, 3, 8, 8)

INPUTS = {"onnx": X, "tensorflow": X, "caffe": X}
MODELS = {"onnx": "net.onnx", "tensorflow": "net.pb", "caffe": "net.prototxt"}
DEPLOYED = {"onnx": "P_deploy_model.onnx", "tensorflow": "P_quantized.pb", "caffe": "P_deploy_model.prototxt"}
FAKE = {
    "onnx": "P_fake_quant_model.onnx",
    "tensorflow": "P_fake_quant_model.pb",
    "caffe": "P_fake_quant_model.prototxt",
}
FILES = {
    "onnx": {"P_deploy_model.onnx", "P_fake_quant_model.onnx"},
    "tensorflow": {"P_quantized.pb", "P_fake_quant_model.pb"},
    "caffe": {
        *("P_deploy_model.prototxt", "P_deploy_weights.caffemodel"),
        *("P_fake_quant_model.prototxt", "P_fake_quant_weights.caffemodel"),
    },
}
ALONE = "common_config { weight_compress_only: true arq_quantize { channel_wise: true asymmetric: true } }"
MODES = {
    "plain": ("batch_num: 1", set[str]()),
    "nuq": ("common_config { nuq_quantize { num_steps: 16 } }", {"cluster"}),
    "auto-nuq": ("enable_auto_nuq: true", {"cluster"}),
    "weight-only": (ALONE, {"weight_compress_only"}),
    "weight-only-4": (ALONE.replace("asymmetric", "quant_bits: 4 asymmetric"), {"weight_compress_only", "wts_type"}),
    "dmq": ("common_config { dmq_balancer { migration_strength: 0.5 } }", {"tensor_balance_factor"}),
    "joint": ("joint_quant: true", {"shift_bit"}),
    "fp16": ("fakequant_precision_mode: FORCE_FP16_QUANT", {"fakequant_precision_mode"}),
    "4-bit": ("common_config { arq_quantize { quant_bits: 4 } }", {"wts_type"}),
    "6-bit": ("common_config { arq_quantize { quant_bits: 6 } }", {"wts_type"}),
    "unfused": ("do_fusion: false", {"skip_fusion"}),
    "ada": ("common_config { ada_quantize { } }", set[str]()),
    "approximated": ('skip_approximation_layers: "conv1"', set[str]()),
    "int16": ("common_config { hfmg_quantize { dst_type: INT16 } }", set[str]()),
}
"""Simplified configurations, and the fields of the record that hold them."""
_NO_LAYER = "cfg: error: leaves every layer in float, 'conv1' because only weights are quantized"
_NO_INT16 = "cfg: error: layer 'conv1': dst_type INT16 has no form in "
REFUSED = {
    ("weight-only", "caffe"): _NO_LAYER,
    ("weight-only-4", "caffe"): _NO_LAYER,
    **{
        ("approximated", framework): "cfg: error: skip_approximation_layers is not supported: no"
        for framework in MODELS
    },
    ("int16", "tensorflow"): f"{_NO_INT16}P_quantized.pb, which holds",
    ("int16", "caffe"): f"{_NO_INT16}P_fake_quant_model.prototxt, which holds",
}


def in_turn(modes: Sequence[str], first: int) -> list[Any]:
    """Modes by frameworks: each mode with one framework, and each refusal; the others are slow tests."""
    cases = [(m, f, (i + first) % len(MODELS) == j) for i, m in enumerate(modes) for j, f in enumerate(MODELS)]
    return [
        pytest.param(mode, framework, marks=[] if fast or (mode, framework) in REFUSED else [pytest.mark.slow])
        for mode, framework, fast in cases
    ]


AUTO = [mode for mode in MODES if mode not in ("plain", "joint", "weight-only-4", "4-bit")]
"""The modes that are searched: the others differ from these in settings alone, not in files."""

EVALUATOR = """
import numpy as np

class Evaluator:
    def calibration(self, model):
        model.run({{"x": np.load({data!r})}})

    def evaluate(self, model):
        return float(np.abs(model.run({{"x": np.load({data!r})}})["y"]).mean())

    def metric_eval(self, original, metric):
        return True, 0.0
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One network in three formats (convolutions, an addition with Relu6 after it, a pool, a product), and its data."""
    folder = tmp_path_factory.mktemp("models")
    sizes = {"w1": (32, 3, 3, 3), "w2": (32, 32, 3, 3), "w3": (128, 6), "b3": (6,)}
    weights = [numpy_helper.from_array(normal(*s) / 4, name) for name, s in sizes.items()]
    weights += [numpy_helper.from_array(np.array(bound, np.float32), name) for name, bound in (("low", 0), ("high", 6))]
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], "conv1", pads=[1] * 4),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], "conv2", pads=[1] * 4),
        helper.make_node("Add", ["c2", "r1"], ["sum"], "add"),
        helper.make_node("Clip", ["sum", "low", "high"], ["r6"], "relu6"),
        helper.make_node("AveragePool", ["r6"], ["p"], "pool", kernel_shape=[4, 4], strides=[4, 4]),
        helper.make_node("Flatten", ["p"], ["flat"], "flat"),
        helper.make_node("Gemm", ["flat", "w3", "b3"], ["y"], "fc"),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", X.shape), ("y", [2, 6])))
    graph = helper.make_graph(nodes, "net", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), folder / "net.onnx")
    for target, name in (("tf-fakequant{nodes=plain}", "net.pb"), ("caffe", "net.prototxt")):
        assert amct_opt.run([str(folder / "net.onnx"), "-t", target, "-o", str(folder / name)]) == 0
    for framework, x in INPUTS.items():
        (folder / framework).mkdir()
        x.tofile(folder / framework / "0.bin")
        np.save(folder / f"{framework}.npy", x)
        (folder / f"{framework}.py").write_text(EVALUATOR.format(data=str(folder / f"{framework}.npy")))
    return folder


def model_of(models: Path, framework: str) -> list[object]:
    weights = ["--weights", models / "net.caffemodel"] if framework == "caffe" else []
    return ["--model", models / MODELS[framework], *weights]


def computed(file: Path, framework: str) -> np.ndarray:
    """What a file computes, the deployable one or that for accuracy."""
    session = new_session()
    if framework == "caffe":
        weights = file.name.replace("_model.prototxt", "_weights.caffemodel")
        session.imports = ImportOptions(weights=file.with_name(weights))
    (y,) = run(frontends.read(file, session), {"x": INPUTS[framework]}).values()
    return y


def fields(folder: Path) -> set[str]:
    layers = read_record(folder / "P_record.txt").layers.values()
    return {name for layer in layers for name in layer.given()}


def assert_written(folder: Path, framework: str, mode: str) -> None:
    """Both kinds of files, and a record that marks what AMCT's does not have; the record holds what the mode needs."""
    held = MODES[mode][1]
    assert {f.name for f in folder.iterdir() if f.name.startswith("P_")} == {
        *FILES[framework],
        "P_quant.json",
        "P_record.txt",
    }
    assert fields(folder) >= held
    marks = (folder / "P_record.txt").read_text().count("# amct-opt's own")
    assert bool(marks) == bool(held - set(NUMBERS[framework]) or mode == "6-bit")


def assert_refused(result, folder: Path, reason: str) -> None:
    """One located error, before data has run through the model."""
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith(str(folder / "mode.cfg")[: -len("cfg")] + reason), result.err
    assert not (folder / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "framework"), in_turn(list(MODES), 0))
def test_calibration_and_convert(mode: str, framework: str, models: Path, amct_tool, tmp_path: Path) -> None:
    """`convert` makes of the record what `calibration` made of data, to the bit; records do not hold how ADA rounded."""
    (tmp_path / "mode.cfg").write_text(MODES[mode][0])
    data = ["--data_dir", models / framework, "--data_types", "float32", "--input_shape", "x:2,3,8,8"]
    given = [*model_of(models, framework), "--calibration_config", tmp_path / "mode.cfg", *data]
    result = amct_tool("calibration", *given, "--save_path", f"{tmp_path}/out/P")
    if reason := REFUSED.get((mode, framework)):
        assert_refused(result, tmp_path, reason)
        return
    assert result.status == 0, result.err
    assert_written(tmp_path / "out", framework, mode)
    record = ["--record_file", tmp_path / "out" / "P_record.txt"]
    result = amct_tool("convert", *model_of(models, framework), *record, "--save_path", f"{tmp_path}/again/P")
    assert result.status == 0, result.err
    assert_written(tmp_path / "again", framework, mode)
    texts = [(tmp_path / folder / "P_record.txt").read_text() for folder in ("out", "again")]
    assert texts[0] == texts[1]
    for file in (DEPLOYED[framework], FAKE[framework]):
        once, again = (computed(tmp_path / folder / file, framework) for folder in ("out", "again"))
        near = 0.06 * np.abs(once).max() if mode == "ada" else 0
        np.testing.assert_allclose(once, again, rtol=0, atol=near)
    (y,) = run(frontends.read(models / "net.onnx", new_session()), {"x": X}).values()
    deployed = computed(tmp_path / "out" / DEPLOYED[framework], framework)
    assert 0 < np.abs(deployed - y).max() < (0.3 if "4" in mode or "nuq" in mode else 0.06) * np.abs(y).max()
    assert np.abs(deployed - once).max() < 0.02 * np.abs(y).max()


@pytest.mark.parametrize("framework", MODELS)
def test_relu6_is_relu_in_deployable_files(framework: str, models: Path, amct_tool, tmp_path: Path) -> None:
    """Where AscendQuant saturates at 6; what the file computes is the same, and the list of its layers says Relu, too."""
    data = ["--data_dir", models / framework, "--data_types", "float32", "--input_shape", "x:2,3,8,8"]
    result = amct_tool("calibration", *model_of(models, framework), *data, "--save_path", f"{tmp_path}/P")
    assert "relu6-saturates 1" in result.out
    session = new_session()
    session.imports = ImportOptions(weights=tmp_path / "P_deploy_weights.caffemodel" if framework == "caffe" else None)
    module = frontends.read(tmp_path / DEPLOYED[framework], session)
    names = [op.name for op in module.walk()]
    assert [names.count(f"nn.{kind}") for kind in ("relu", "relu6")] == [2, 0]
    listed = json.loads((tmp_path / "P_quant.json").read_text())["graph"][0]["op"]
    assert {op["name"]: op["type"].lower() for op in listed}["relu6"] == "relu"
    (y,) = run(module, {"x": X}).values()
    record = ["--record_file", tmp_path / "P_record.txt"]
    source = [models / MODELS[framework], *model_of(models, framework)[2:]]
    quantize = f"--quantize=record={record[1]}"
    assert (
        amct_opt.run([*map(str, source), "--fuse-all", quantize, "--lower-to-ascend", "-o", f"{tmp_path}/m.mlir"]) == 0
    )
    lowered = frontends.read(tmp_path / "m.mlir", new_session())
    assert "ascend.Relu6" in [op.name for op in lowered.walk()]
    np.testing.assert_array_equal(y, run(lowered, {"x": X})["y"])


@pytest.mark.parametrize(("mode", "framework"), in_turn(AUTO, 1))
def test_auto_calibration(mode: str, framework: str, models: Path, amct_tool, tmp_path: Path) -> None:
    (tmp_path / "mode.cfg").write_text(MODES[mode][0])
    given = [*model_of(models, framework), "--calibration_config", tmp_path / "mode.cfg"]
    evaluator = ["--evaluator", models / f"{framework}.py"]
    result = amct_tool("auto-calibration", *given, *evaluator, "--save_path", f"{tmp_path}/out/P")
    if reason := REFUSED.get((mode, framework)):
        assert_refused(result, tmp_path, reason)
        return
    assert result.status == 0, result.err
    assert_written(tmp_path / "out", framework, mode)


def test_quantized_layers_are_not_left_in_float(amct_tool, tmp_path: Path) -> None:
    """A product that takes all levels, though few are asked for, is quantized: it has a list of its own."""
    sizes = {"w": (32, 3, 3, 3), "m": (32 * 36, 4)}
    weights = [numpy_helper.from_array(normal(*s), name) for name, s in sizes.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("Flatten", ["c"], ["flat"], "flat"),
        helper.make_node("MatMul", ["flat", "m"], ["y"], "product"),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 3, 8, 8]), ("y", None)))
    graph = helper.make_graph(nodes, "net", [x], [y], weights)
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[opset]), tmp_path / "net.onnx")
    (tmp_path / "nuq.cfg").write_text(MODES["nuq"][0])
    given = (tmp_path / "net.onnx", "--config", tmp_path / "nuq.cfg", "-o", tmp_path / "out")
    assert amct_tool("quantize", *given).status == 0
    layers = json.loads((tmp_path / "out" / "summary.json").read_text())["layers"]
    assert [(row["layer"], row["rule"]) for row in layers["otherwise"]] == [("product", "not-in-table")]
    assert layers["left_in_float"] == []
    assert {row["layer"] for row in layers["quantized"]} == {"conv", "product"}
