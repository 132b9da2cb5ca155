"""AMCT's Python functions: the scripts of examples/amct, what calibrates and what does not, and what is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.external_data_helper import convert_model_to_external_data

import amct_opt
from amct_opt.amct import caffe, onnx as amct, shared, tensorflow
from amct_opt.support.diagnostics import CompileError
from amct_opt.tools import amct as amct_command

from ..scripts import ROOT, script

DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
TARGETS = {"onnx": "net.onnx", "caffe": "net.prototxt", "tf-fakequant": "net.pb"}
X = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
TYPE = "tensor<?x4xf32>"


def weight(seed: int) -> str:
    numbers = np.random.default_rng(seed).normal(size=(4, 4)).round(3)
    return f"dense<{numbers.tolist()}> : tensor<4x4xf32>"


NET = f"""
func.func @main(%x: {TYPE} {{nn.name = "x"}}) -> ({TYPE} {{nn.name = "y"}}) {{
  %v = nn.constant {weight(1)}
  %w = nn.constant {weight(2)}
  %0 = nn.matmul %x, %v from <onnx, "MatMul", "fc1"> : ({TYPE}, tensor<4x4xf32>) -> {TYPE}
  %1 = nn.relu %0 from <onnx, "Relu", "relu"> : {TYPE}
  %2 = nn.matmul %1, %w from <onnx, "MatMul", "fc2"> : ({TYPE}, tensor<4x4xf32>) -> {TYPE}
  func.return %2 : {TYPE}
}}
"""


@pytest.fixture
def net(tmp_path: Path) -> tuple[Path, Path]:
    """The small network as a net of Caffe, whose batch is 1."""
    model, weights = saved("caffe", tmp_path)
    return model, weights


def saved(target: str, folder: Path) -> list[Path]:
    module, session = amct_opt.parse(NET)
    return amct_opt.save(module, folder / TARGETS[target], session, target)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_scripts(target: str, tmp_path: Path) -> None:
    """On the digits network: nearly as accurate as in float."""
    module, session = amct_opt.load(DIGITS)
    files = amct_opt.save(module, tmp_path / TARGETS[target], session, target)
    name = {"tf-fakequant": "tensorflow"}.get(target, target)
    main = script(f"examples/amct/calibrate_{name}").main
    original, quantized, automatic = main(*map(str, files), str(tmp_path / "out"))
    assert original > 0.99
    assert original - min(quantized, automatic) < 0.01


class Folder:
    """A calibration of the small network, with its files in a folder."""

    def __init__(self, path: Path):
        self.path = path
        self.model = saved("onnx", path)[0]
        self.config = path / "made" / "config.json"
        self.modified = path / "made" / "modified.onnx"
        self.record = path / "made" / "record.txt"

    def create(self, **options: Any) -> dict[str, Any]:
        amct.create_quant_config(self.config, self.model, **options)
        return json.loads(self.config.read_text())

    def text(self, name: str, text: str) -> Path:
        path = self.path / name
        path.write_text(text)
        return path

    def quantize(self) -> None:
        amct.quantize_model(self.config, self.model, self.modified, self.record)

    def run(self, count: int) -> None:
        session = onnxruntime.InferenceSession(self.modified, amct.AMCT_SO)
        for batch in np.split(X, 4)[:count]:
            session.run(None, {"x": batch})


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_as_the_command_calibrates(folder: Folder) -> None:
    """The same record and the same deployable graph, from the same batches; a run more changes nothing."""
    folder.create(batch_num=2)
    folder.quantize()
    folder.run(1)
    assert not folder.record.exists()
    folder.run(2)
    bins = folder.path / "bins"
    bins.mkdir()
    for name in ("first", "second"):  # the sessions began with the same batch
        np.split(X, 4)[0].tofile(bins / f"{name}.bin")
    given = ["--input_shape", "x:2,4", "--data_dir", bins, "--data_types", "float32"]
    given += ["--calibration_config", folder.config, "--save_path", folder.path / "command" / "P"]
    assert amct_command.run(["calibration", "--model", str(folder.model), *map(str, given)]) == 0
    assert folder.record.read_text() == (folder.path / "command" / "P_record.txt").read_text()
    saved = amct.save_model(folder.modified, folder.record, folder.path / "saved" / "P")
    assert sorted(f.name for f in saved) == sorted(f.name for f in (folder.path / "command").iterdir())
    converted = amct.convert_model(folder.model, folder.record, folder.path / "converted" / "P")
    graphs = [onnx.load(f).graph for f in (folder.path / "command" / "P_deploy_model.onnx", saved[1], converted[1])]
    assert graphs[0] == graphs[1] == graphs[2]


def test_a_calibration_is_not_complete(folder: Folder) -> None:
    folder.create(batch_num=2)
    folder.record.write_text("of an earlier calibration")
    folder.quantize()
    onnxruntime.InferenceSession(folder.modified, amct.AMCT_SO).run(None, {"x": X})
    with pytest.raises(CompileError, match=r"record\.txt: error: the record does not exist: calibration is not comp"):
        amct.save_model(folder.modified, folder.record, folder.path / "P")


def test_the_session_is_onnxruntime_s(folder: Folder) -> None:
    session = amct.InferenceSession(folder.model.read_bytes(), providers=["CPUExecutionProvider"])
    assert [i.name for i in session.get_inputs()] == ["x"]
    assert [y.shape for y in session.run(["y"], {"x": X[:3]})] == [(3, 4)]
    assert amct.InferenceSession is onnxruntime.InferenceSession
    with pytest.raises(AttributeError, match=r"module 'amct_opt\.amct\.onnx' has no attribute 'quantise'"):
        amct.quantise()


def test_arrays_beside_the_model_are_copied_with_it(folder: Folder) -> None:
    model = onnx.load(folder.model)
    convert_model_to_external_data(model, location="arrays/large.bin", size_threshold=16)
    (folder.path / "arrays").mkdir()
    onnx.save(model, folder.path / "large.onnx")
    folder.create()
    amct.quantize_model(folder.config, folder.path / "large.onnx", folder.modified, folder.record)
    (folder.path / "arrays" / "large.bin").unlink()
    folder.run(1)
    assert amct.save_model(folder.modified, folder.record, folder.path / "P")


def test_configuration(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    made = folder.create(skip_layers=["fc1"], batch_num=3, activation_offset=False)
    assert (made["batch_num"], made["activation_offset"], made["fc1"]["quant_enable"]) == (3, False, False)
    simplified = folder.text("simple.cfg", "batch_num: 2\ncommon_config { hfmg_quantize { } }\n")
    made = folder.create(batch_num=3, config_defination=simplified)
    assert (made["batch_num"], made["fc1"]["activation_quant_params"]["act_algo"]) == (2, "hfmg")
    assert "batch_num and activation_offset are ignored: config_defination is given" in capsys.readouterr().err


def test_qat(folder: Folder) -> None:
    """What was quantized here has QuantizeLinear and DequantizeLinear, as a model that was trained with them."""
    folder.create()
    folder.quantize()
    folder.run(1)
    fake = amct.save_model(folder.modified, folder.record, folder.path / "P")[0]
    written = amct.convert_qat_model(fake, folder.path / "Q", folder.path / "record.txt")
    assert written[-1].read_text() == (folder.path / "Q_record.txt").read_text() != ""


class Judge(amct.AutoCalibrationEvaluatorBase):
    """Accepts one quantized layer."""

    def __init__(self) -> None:
        self.models: list[str] = []

    def calibration(self, model: str) -> None:
        amct.InferenceSession(model, amct.AMCT_SO).run(None, {"x": X})

    def evaluate(self, model: str) -> int:
        self.models.append(model)
        return sum(i.name.endswith(".i8") for i in onnx.load(model).graph.initializer)

    def metric_eval(self, original: int, metric: int) -> tuple[bool, int]:
        return metric <= 1, metric


def test_the_search_gives_the_evaluator_files(folder: Folder) -> None:
    folder.create()
    judge, save_dir = Judge(), folder.path / "out" / "P"
    *written, record = amct.accuracy_based_auto_calibration(folder.model, judge, folder.config, folder.record, save_dir)
    assert judge.models[0] == str(folder.model)
    assert len(judge.models) == 3
    assert judge.evaluate(str(written[0])) == 1
    assert record == folder.record
    assert record.read_text().count("scale_d") == 1


def test_caffe(net: tuple[Path, Path], tmp_path: Path) -> None:
    """Data may be set in blobs, too, and have any batch; the first run says which."""
    config, record, modified = (
        tmp_path / "c.json",
        tmp_path / "r.txt",
        (tmp_path / "m.prototxt", tmp_path / "m.caffemodel"),
    )
    caffe.create_quant_config(config, *net, batch_num=2)
    graph = caffe.init(config, *net, record)
    caffe.quantize_model(graph, *modified)
    running = caffe.Net(*modified, caffe.TEST)
    assert (running.inputs, running.outputs) == (["x"], ["y"])
    first = running.forward(x=X[:4])["y"]
    running.blobs["x"].reshape(4, 4)
    running.reshape()
    running.blobs["x"].data[...] = X[4:]
    assert not record.exists()
    assert running.forward()["y"] is running.blobs["y"].data
    assert running.blobs["y"].shape == (4, 4)
    written = caffe.save_model(graph, "Both", tmp_path / "P")
    assert [f.name for f in caffe.convert_model(*net, record, tmp_path / "Q")] == [f"Q{f.name[1:]}" for f in written]
    fake, deploy = (caffe.Net(written[i], written[i + 1]).forward(x=X[:4])["y"] for i in (0, 2))
    assert 0 < np.abs(fake - first).max() < 0.1
    np.testing.assert_allclose(fake, deploy, 1e-4, 1e-4)


def test_tensorflow(tmp_path: Path) -> None:
    """The graph that calibrates gives what it gave."""
    tf = pytest.importorskip("tensorflow")
    (frozen,) = saved("tf-fakequant", tmp_path)
    definition = tf.compat.v1.GraphDef.FromString(frozen.read_bytes())
    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(definition, name="")
    config, record = tmp_path / "config.json", tmp_path / "record.txt"
    tensorflow.create_quant_config(config, graph, batch_num=2)
    with tf.compat.v1.Session(graph=graph) as session:
        expected = session.run("y:0", {"x:0": X})
    with pytest.raises(CompileError, match="nowhere"):
        tensorflow.quantize_model(graph, config, record, calib_outputs=["nowhere"])
    added = tensorflow.quantize_model(graph, config, record, calib_outputs=["y:0"])
    assert added == []
    with tf.compat.v1.Session(graph=graph) as session:
        session.run(tf.compat.v1.variables_initializer(added))
        found = [session.run("y:0", {"x:0": batch}) for batch in np.split(X, 4)]
        with pytest.raises(CompileError, match="graph"):
            tensorflow.quantize_model(graph, config, tmp_path / "other.txt")
    # TensorFlow adds up batches of other sizes in another order on some processors
    np.testing.assert_allclose(np.concatenate(found), expected, rtol=0, atol=1e-6)
    written = tensorflow.save_model(frozen, ["y"], record, tmp_path / "P")
    assert [f.name for f in tensorflow.convert_model(frozen, ["y:0"], record, tmp_path / "Q")] == [
        f"Q{f.name[1:]}" for f in written
    ]


REFUSED: dict[str, tuple[Callable[[Folder, tuple[Path, Path]], object], str]] = {
    "no json": (
        lambda f, _: amct.create_quant_config(f.path / "config.cfg", f.model),
        "config.cfg: error: config_file must end",
    ),
    "no batch": (lambda f, _: f.create(batch_num=0), "batch_num must be at least 1, not 0"),
    "unknown layer": (lambda f, _: f.create(skip_layers=["fc9"]), "fc9"),
    "no onnx": (
        lambda f, _: amct.quantize_model(f.config, f.model, f.path / "modified", f.record),
        "modified: error: modified_onnx_file must end in .onnx",
    ),
    "over the model": (
        lambda f, _: (f.create(), amct.quantize_model(f.config, f.model, f.model, f.record)),
        "net.onnx: error: would overwrite a file that was read",
    ),
    "no configuration": (lambda f, _: f.quantize(), "config.json: error: "),
    "inputs of another shape": (
        lambda f, _: (
            f.create(),
            shared.Calibration(amct_opt.load(f.model), "onnx", f.config, f.record).see({"x": X[0]}),
        ),
        "calibration, batch 0: error: input 'x' has shape [4]",
    ),
    "rounding that a record does not say": (
        lambda f, _: (
            f.config.parent.mkdir(),
            f.config.write_text('{"fc": {"weight_quant_params": {"wts_algo": "ada_quantize"}}}'),
            f.quantize(),
        ),
        "layer 'fc': ada_quantize is for PyTorch, as in AMCT: a record does not say how it rounds\n  hint: amct calibration",
    ),
    "infinite inputs": (
        lambda f, _: (f.create(), f.quantize(), amct.InferenceSession(f.modified).run(None, {"x": X * np.inf})),
        "calibration, batch 0: error: input 'x' holds NaN or Inf in sample 0",
    ),
    "another strategy": (
        lambda f, _: amct.accuracy_based_auto_calibration(f.model, Judge(), f.config, f.record, f.path / "P", "Greedy"),
        "strategy must be BinarySearch",
    ),
    "no evaluator": (
        lambda f, _: amct.accuracy_based_auto_calibration(f.model, f, f.config, f.record, f.path / "P"),
        "test_functions.py: error: the evaluator has no method calibration",
    ),
    "an evaluator that fails": (
        lambda f, _: (
            f.create(),
            amct.accuracy_based_auto_calibration(
                f.model, amct.AutoCalibrationEvaluatorBase(), f.config, f.record, f.path / "P"
            ),
        ),
        "error: NotImplementedError",
    ),
    "half of the files": (
        lambda f, net: caffe.save_model(caffe.Graph(f.config, *net, f.record), "Deploy", f.path / "P"),
        "save_type must be 'Both', not 'Deploy'",
    ),
    "training": (lambda _, net: caffe.Net(*net, 0), "net.prototxt: error: phase must be 1 (TEST), not 0"),
    "another input": (lambda _, net: caffe.Net(*net).forward(z=X), "'z' is not an input: they are x"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, folder: Folder, net: tuple[Path, Path]) -> None:
    call, message = REFUSED[case]
    with pytest.raises(CompileError) as caught:
        call(folder, net)
    assert message in str(caught.value)


@pytest.mark.parametrize("module", [amct, tensorflow, caffe], ids=lambda m: m.__name__.rpartition(".")[2])
def test_what_is_left_out_says_where(module: Any) -> None:
    """An error with the reason, and the page that has it."""
    for name in shared.LEFT_OUT:
        with pytest.raises(ImportError, match=rf"{name} is left out: .*docs/migrating\.md#python-functions"):
            getattr(module, name)
    page = (ROOT / "docs" / "migrating.md").read_text("utf-8")
    assert [name for name in shared.LEFT_OUT if f"`{name}`" not in page] == []


def test_a_session_of_bytes_calibrates(folder: Folder) -> None:
    """That of the modified model, also after onnx has written it again; the original's bytes do not."""
    folder.create(batch_num=2)
    folder.quantize()
    plain, modified = folder.model.read_bytes(), folder.modified.read_bytes()
    assert onnx.load_from_string(modified).graph == onnx.load_from_string(plain).graph
    for content in (plain, modified, plain):
        amct.InferenceSession(content).run(None, {"x": X})
    assert not folder.record.exists()
    amct.InferenceSession(onnx.load_from_string(modified).SerializeToString()).run(None, {"x": X})
    assert folder.record.exists()


def test_logging_level(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    """Warnings are printed from the level `warning` down."""
    simplified = folder.text("simple.cfg", "batch_num: 2\n")
    try:
        for level, printed in (("error", False), ("warning", True), ("INFO", True), ("debug", True)):
            amct.set_logging_level(print_level=level, save_level="debug")
            folder.create(batch_num=3, config_defination=simplified)
            assert ("are ignored: config_defination is given" in capsys.readouterr().err) == printed
        with pytest.raises(CompileError, match="print_level must be one of debug, info, warning, error, not 'loud'"):
            amct.set_logging_level("loud")
    finally:
        amct.set_logging_level()


BINARIES = 4


def binaries(path: Path) -> Path:
    """A folder with a batch in each file."""
    path.mkdir()
    for i, batch in enumerate(np.split(X, BINARIES)):
        batch.tofile(path / f"{i}.bin")
    return path


def test_model_evaluator(folder: Folder, net: tuple[Path, Path]) -> None:
    """It runs raw binaries: as many as are asked for, in the order of their names."""
    given = str(binaries(folder.path / "bins")), "x:2,4", "float32"
    folder.create(batch_num=2)
    folder.quantize()
    evaluator = amct.ModelEvaluator(*given)
    evaluator.calibration(str(folder.modified), 1)
    assert not folder.record.exists()
    evaluator.calibration(str(folder.modified), 1)
    assert folder.record.exists()
    with pytest.raises(CompileError, match="5 runs are asked for, there are 4 files"):
        evaluator.evaluate(str(folder.model), 5)
    config, record, modified = folder.path / "c.json", folder.path / "r.txt", folder.path / "m.prototxt"
    caffe.create_quant_config(config, *net, batch_num=BINARIES)
    caffe.quantize_model(caffe.init(config, *net, record), modified, folder.path / "m.caffemodel")
    caffe.ModelEvaluator(*given).calibration(modified, folder.path / "m.caffemodel")
    assert record.exists()


EVALUATORS = {
    "another number of folders": (("x:2,4", "float32;float32"), "list 1 inputs, 1 folders and 2 types"),
    "another type": (("x:2,4", "float31"), "data_types has 'float31'"),
    "another size": (("x:3,4", "float32"), "has 8 numbers of float32, which do not fit the shape [3, 4]"),
}


@pytest.mark.parametrize("case", EVALUATORS)
def test_raw_binaries_that_are_refused(case: str, folder: Folder) -> None:
    arguments, message = EVALUATORS[case]
    bins = binaries(folder.path / "bins")
    with pytest.raises(CompileError) as caught:
        amct.ModelEvaluator(str(bins), *arguments).evaluate(str(folder.model))
    assert message in str(caught.value)


AMCTS_EVALUATOR = """
import numpy as np
import onnxruntime as ort
import amct_onnx as amct
from amct_onnx.common.auto_calibration import AutoCalibrationEvaluatorBase

DATA = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)

class Mine(AutoCalibrationEvaluatorBase):
    def __init__(self):
        super().__init__()
        self.original = None

    def _run(self, model_file):
        session = ort.InferenceSession(model_file, amct.AMCT_SO)
        return session.run(None, {session.get_inputs()[0].name: DATA})[0]

    def calibration(self, model_file):
        self._run(model_file)

    def evaluate(self, model_file):
        y = self._run(model_file)
        self.original = y if self.original is None else self.original
        return float(np.abs(y - self.original).max())

    def metric_eval(self, original_metric, new_metric):
        return new_metric < 1, new_metric
"""


@pytest.mark.parametrize("base", ["AutoCalibrationEvaluatorBase", "object"])
@pytest.mark.parametrize("command", ["calibration", "auto-calibration"])
def test_evaluator_files_of_amct(command: str, base: str, folder: Folder) -> None:
    """A file with AMCT's imports and arguments, whatever its class derives from. Afterwards the names are as before."""
    file = folder.text("evaluator.py", AMCTS_EVALUATOR.replace("Mine(AutoCalibrationEvaluatorBase)", f"Mine({base})"))
    given = ["--model", str(folder.model), "--evaluator", str(file), "--save_path", str(folder.path / "P")]
    assert amct_command.run([command, *given]) == 0
    folder.create()
    folder.quantize()
    amct.InferenceSession(folder.modified).run(None, {"x": X})
    assert (folder.path / "P_record.txt").read_text() == folder.record.read_text()
    assert sys.modules["onnxruntime"] is onnxruntime
    assert "amct_onnx" not in sys.modules


def test_evaluator_files_of_amct_for_caffe(net: tuple[Path, Path], tmp_path: Path) -> None:
    text = AMCTS_EVALUATOR.replace("onnxruntime as ort", "caffe").replace("amct_onnx", "amct_caffe")
    body = "        net = caffe.Net(model_file, weights_file, caffe.TEST)\n        return net.forward(x=DATA[:1])['y']"
    start, end = text.index("        session ="), text.index("    def calibration")
    text = text[:start] + body + "\n\n" + text[end:]
    text = text.replace("model_file)", "model_file, weights_file)").replace("_file, weights_file, w", "_file, w")
    (tmp_path / "e.py").write_text(text)
    given = ["--model", str(net[0]), "--weights", str(net[1]), "--evaluator", str(tmp_path / "e.py")]
    assert amct_command.run(["calibration", *given, "--save_path", str(tmp_path / "P")]) == 0
    assert "scale_d" in (tmp_path / "P_record.txt").read_text()


def test_parameters_of_a_net(net: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """As stored, by layer; a change would have no effect, so it is an error."""
    caffe.set_device(0)
    assert "set_device(0) is ignored: everything is computed on the CPU" in capsys.readouterr().err
    params = caffe.Net(*net).params
    assert list(params) == ["fc1", "fc2"]
    assert [blob.shape for blob in params["fc1"]] == [(4, 4)]
    stored = np.random.default_rng(1).normal(size=(4, 4)).round(3).astype(np.float32)
    assert np.array_equal(params["fc1"][0].data, stored) or np.array_equal(params["fc1"][0].data, stored.T)
    with pytest.raises(ValueError, match="read-only"):
        params["fc1"][0].data[...] = 0


def test_a_gpu_is_not_pretended(capsys: pytest.CaptureFixture[str]) -> None:
    caffe.set_cpu_mode()
    assert capsys.readouterr().err == ""
    caffe.set_mode_gpu()
    assert "set_gpu_mode is ignored: everything is computed on the CPU" in capsys.readouterr().err
