"""`amct quantize`: the files it promises, what they say, and mistakes as one line with nothing written."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import yaml
from safetensors.numpy import save_file

import amct_opt

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
MODEL, CALIB, HELDOUT = DIGITS / "digits.onnx", DIGITS / "calib.npz", DIGITS / "heldout.npz"

ALSO = {
    "digits_nn.mlir",
    "digits_nn.safetensors",
    "digits_ascend.mlir",
    "digits_ascend.safetensors",
    "digits_record.txt",
}
WRITTEN = {"digits_qdq.onnx", "digits_deploy_model.onnx", "remarks.yaml", "summary.json", "layers.json", "report.html"}

QUANTIZED = ["conv1", "conv2", "conv3", "pool1", "depthwise1", "conv4", "fc1"]
"""Every convolution, the average pool and the dense layer: what the ascend profile quantizes."""


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits network, quantized once for all tests here."""
    from amct_opt.tools import amct

    folder = tmp_path_factory.mktemp("digits") / "made" / "here"
    assert (
        amct.run(["quantize", str(MODEL), "--data", str(CALIB), "-o", str(folder), "--also", "nn,ascend,record"]) == 0
    )
    return folder


# sums of products of neighbours stay within 16 bits, so that every processor computes the same in profile ascend, too
CACHED = """
func.func @main(%x: tensor<?x?x4xf32> {nn.name = "x"}, %past: tensor<?x?x4xf32> {nn.name = "past"})
    -> (tensor<?x?x3xf32> {nn.name = "y"}, tensor<?x?x4xf32> {nn.name = "present"}) {
  %w = nn.constant dense<[[1.0, 2.0, 0.5, -1.0], [1.0, 0.0, 1.0, 1.0], [3.0, 4.0, -2.0, 0.0], [0.0, 0.0, 2.0, -1.0]]>
    : tensor<4x4xf32>
  %v = nn.constant dense<[[1.0, 2.0, 0.5], [1.0, 0.0, 1.0], [3.0, 4.0, -2.0], [0.0, 0.0, 2.0]]> : tensor<4x3xf32>
  %key = nn.matmul %x, %w from <onnx, "MatMul", "key"> : (tensor<?x?x4xf32>, tensor<4x4xf32>) -> tensor<?x?x4xf32>
  %present = nn.concat %past, %key axis 1 from <onnx, "Concat", "cat">
    : (tensor<?x?x4xf32>, tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  %y = nn.matmul %present, %v from <onnx, "MatMul", "out"> : (tensor<?x?x4xf32>, tensor<4x3xf32>) -> tensor<?x?x3xf32>
  func.return %y, %present : tensor<?x?x3xf32>, tensor<?x?x4xf32>
}
"""


@pytest.mark.parametrize("profile", ["ascend", "qdq", "ppq"])
def test_a_past_that_is_empty(profile: str, amct_tool, files, tmp_path: Path) -> None:
    """Arrays may be empty beyond the axis of samples; a point that saw no values takes the range of its group."""
    x = np.random.default_rng(0).normal(size=(10, 5, 4)).astype(np.float32)
    data, out = files.npz(x=x, past=np.zeros((10, 0, 4), np.float32)), tmp_path / "out"
    model = files.text("cached.mlir", CACHED)
    assert (
        amct_tool(
            "quantize", model, "--data", data, "--profile", profile, "--no-report", "--also", "ascend", "-o", out
        ).status
        == 0
    )
    summary = json.loads((out / "summary.json").read_text("utf-8"))
    assert {row["layer"] for row in summary["layers"]["quantized"]} >= {"key", "out"}
    for stage in ("fake_quantized", "integer"):
        assert summary["accuracy"][stage]["y"]["sqnr"] > 30
    assert summary["onnxruntime"]["failure"] is None


SPREAD = """
def spread(model):
    return float(model.run(next(iter(model.batches())))["present"].std())
"""


@pytest.mark.parametrize("order", ["%past, %key", "%key, %past"])
@pytest.mark.parametrize("profile", ["ascend", "qdq"])
def test_a_cache_of_integers(profile: str, order: str, amct_tool, files, tmp_path: Path) -> None:
    """All that runs the files feeds the cache as integers, and compares it as floats."""
    rng = np.random.default_rng(0)
    x, past = (rng.normal(size=(10, n, 4)).astype(np.float32) * n for n in (5, 3))
    data, model = files.npz(x=x, past=past), files.text("cached.mlir", CACHED.replace("%past, %key", order))
    given = ("quantize", model, "--data", data, "--profile", profile, "--no-report", "--check", "--also", "nn,ascend")
    summaries = list[Any]()
    for folder, options in (("floats", ()), ("integers", ("--quantize-cache",))):
        result = amct_tool(*given, *options, "-o", tmp_path / folder)
        assert result.status == 0, result.err
        summaries.append(json.loads((tmp_path / folder / "summary.json").read_text("utf-8")))
    file = onnxruntime.InferenceSession(tmp_path / "integers" / "cached_qdq.onnx")
    assert [(i.name, i.type) for i in file.get_inputs()] == [("x", "tensor(float)"), ("past", "tensor(int8)")]
    assert [(o.name, o.type) for o in file.get_outputs()] == [("y", "tensor(float)"), ("present", "tensor(int8)")]
    floats, integers = summaries
    assert integers["onnxruntime"]["failure"] is None
    assert integers["onnxruntime"]["outputs"]["present"]["differing"] == 0
    assert integers["onnxruntime"]["outputs"]["y"]["largest"] < 1e-4, "sums of floats"
    for stage in ("fake_quantized", "integer"):
        before, after = floats["accuracy"][stage], integers["accuracy"][stage]
        assert after["y"] == before["y"], "the past is rounded where it was rounded before"
        assert 35 < after["present"]["sqnr"] < before["present"]["sqnr"]
    compared = amct_tool("compare", model, tmp_path / "integers" / "cached_qdq.onnx", "--data", data, "--json")
    assert json.loads(compared.out)["outputs"]["present"]["sqnr"] > 35
    for name in ("cached_qdq.onnx", "cached_ascend.mlir"):
        followed = amct_tool("bisect", model, tmp_path / "integers" / name, "--data", data)
        assert (followed.status, "the models compute the same, apart from quantization" in followed.out) == (0, True)
    turned = amct_tool("bisect", tmp_path / "integers" / "cached_nn.mlir", model, "--data", data)
    assert f"{model}: error: the second takes f32 for input 'past', the first i8\n  hint: the model of f" in turned.err
    judge = files.text("judge.py", SPREAD)
    both = [tmp_path / folder / "cached_qdq.onnx" for folder in ("floats", "integers")]
    scored = amct_tool("evaluate", *both, "--data", data, "--evaluator", f"{judge}:spread")
    assert scored.status == 0, scored.err
    before, after = (float(line.split()[2]) for line in scored.out.splitlines() if "cached_qdq.onnx" in line)
    assert after == pytest.approx(before, rel=0.01), "the spread of the cache in floats"


def test_without_a_cache_there_is_a_warning(amct_tool, tmp_path: Path) -> None:
    result = amct_tool("quantize", MODEL, "--data", CALIB, "--quantize-cache", "--no-report", "-o", tmp_path)
    assert result.status == 0
    assert "warning: --quantize-cache: no cache holds integers; no output is an input of floats" in result.err


def test_writes_what_it_promises(out):
    assert {path.name for path in out.iterdir()} == WRITTEN | ALSO


def test_summary(out):
    summary = json.loads((out / "summary.json").read_text("utf-8"))
    layers = summary["layers"]
    assert {(row["pass"], row["layer"]) for row in layers["fused"]} == {
        *(("fuse-bn", f"bn{i}") for i in range(1, 6)),
        *(("fuse-activation", f"relu{i}") for i in range(1, 6)),
    }
    assert [row["layer"] for row in layers["quantized"]] == QUANTIZED
    left = [(row["layer"], row["rule"]) for row in layers["left_in_float"]]
    assert left == [("add1", "tensor-only"), ("mean1", "global-pooling-false")]
    assert layers["not_fused"] == layers["not_lowered"] == []
    assert layers["inside"]["nn.relu"] == 5
    assert summary["imported"].startswith("20 nodes: 20 mapped")
    meta = summary["metadata"]
    assert (meta["profile"], meta["observer"], meta["synthetic"]) == ("ascend", "mse", "false")
    assert (meta["samples"], summary["accuracy"]["samples"]) == ("116", 12), "a tenth of 128 is held back"
    assert summary["accuracy"]["held_back"]
    assert summary["accuracy"]["kernels"] == {}
    assert summary["bytes"]["model"] == MODEL.stat().st_size
    assert summary["bytes"]["written"]["onnx"] == (out / "digits_qdq.onnx").stat().st_size


def test_remarks_have_every_layer_that_was_a_candidate(out):
    rows = list(yaml.safe_load_all((out / "remarks.yaml").read_text("utf-8")))
    spoken_of = {row["layer"] for row in rows if row["kind"] != "analysis"}
    assert spoken_of >= {*QUANTIZED, "add1", "bn1", "bn2", "bn3", "bn4", "bn5"}


def test_the_onnx_file_carries_its_calibration(out):
    model = onnx.load(out / "digits_qdq.onnx")
    props = {p.key: p.value for p in model.metadata_props}
    assert props["amct_opt.samples"] == "116"
    assert props["amct_opt.data_hash"].startswith("sha256:")
    assert {"QuantizeLinear", "DequantizeLinear"} <= {node.op_type for node in model.graph.node}


@pytest.mark.parametrize("stage", ["digits_qdq.onnx", "digits_nn.mlir", "digits_ascend.mlir"])
def test_every_stage_runs_and_is_close_to_float(amct_tool, out, stage):
    """8 bits give a uniform step of range/255; seven layers of that leave well over 20 dB on this network."""
    arguments = (MODEL, out / stage, "--data", HELDOUT, "--json")
    result = amct_tool("compare", *arguments)
    assert json.loads(result.out)["outputs"]["logits"]["sqnr"] > 20


def test_the_onnx_file_is_the_module(amct_tool, out):
    """Both are the same fake-quantized graph, run by the same kernels: not one element differs."""
    arguments = (out / "digits_nn.mlir", out / "digits_qdq.onnx", "--data", HELDOUT, "--json")
    assert json.loads(amct_tool("compare", *arguments).out)["outputs"]["logits"]["differing"] == 0


def test_layers_of_the_integer_module_are_found(amct_tool, out):
    arguments = (MODEL, out / "digits_ascend.mlir", "--data", HELDOUT, "--layers", "--json")
    layers = json.loads(amct_tool("compare", *arguments).out)["layers"]
    assert layers.keys() >= set(QUANTIZED)
    assert all(layers[name]["sqnr"] > 15 for name in QUANTIZED)


def test_a_second_time_replaces_the_files(amct_tool, out, tmp_path):
    first = amct_tool("quantize", MODEL, "--data", CALIB, "-o", tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    second = amct_tool("quantize", MODEL, "--data", CALIB, "-o", tmp_path)
    assert (first.status, second.status) == (0, 0)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before, "same input, same bytes"


def test_the_printed_summary(amct_tool, tmp_path):
    result = amct_tool("quantize", MODEL, "--data", CALIB, "-o", tmp_path)
    for text in (
        " dB SQNR against the float model, on ",
        "12 samples, held back",
        "only its input can be quantized",
        "next          atc --framework=5 ",
        str(tmp_path / "digits_deploy_model.onnx"),
    ):
        assert text in result.out
    network = DIGITS.parent / "models" / "transformer.onnx"
    for given in ((MODEL, "--data", CALIB, "--profile", "cpu"), (network, "--profile", "cpu"), (network,)):
        result = amct_tool("quantize", *given, "-o", tmp_path / "others")
        assert len(result.out.splitlines()) <= 20
        assert not re.search("ascend|record|lower", result.out) or given == (network,)


def test_what_to_do_next_has_the_names_of_files(amct_tool, files, tmp_path):
    """They may have blanks."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    model, data = (shutil.copy(f, folder) for f in (MODEL, CALIB))
    result = amct_tool("quantize", model, "--data", data, "--profile", "cpu", "--no-report", "-o", tmp_path / "an out")
    quantized = tmp_path / "an out" / "digits_qdq.onnx"
    assert result.out.endswith(
        f"  next          amct evaluate '{model}' '{quantized}' --data '{data}' --labels LABELS\n\n"
    )


def test_files_of_an_earlier_run_are_named(amct_tool, tmp_path):
    given = ("quantize", MODEL, "--data", CALIB, "--profile", "cpu", "-o", tmp_path)
    first, second = amct_tool(*given, "--also", "nn"), amct_tool(*given, "--no-report")
    assert (first.status, second.status, "earlier" in first.err) == (0, 0, False)
    old = [tmp_path / name for name in ("digits_nn.mlir", "layers.json", "report.html")]
    assert [line for line in second.err.splitlines() if "earlier" in line] == [
        f"note: {path} is from an earlier run: this one does not write it" for path in old
    ]


def test_few_samples_are_not_held_back(amct_tool, files, tmp_path):
    with np.load(CALIB) as arrays:
        few = files.npz("few.npz", image=arrays["image"][:7])
    result = amct_tool("quantize", MODEL, "--data", few, "-o", tmp_path / "out")
    assert "the calibration samples: too few to hold some back" in result.out
    accuracy = json.loads((tmp_path / "out" / "summary.json").read_text("utf-8"))["accuracy"]
    assert (accuracy["samples"], accuracy["held_back"]) == (7, False)


def test_profile_qdq_is_measured_in_integers(amct_tool, files, tmp_path):
    """As `amct compare --integers` measures it."""
    model = DIGITS.parent / "models" / "transformer.onnx"
    name = onnx.load(model).graph.input[0].name
    x = np.random.default_rng(0).normal(size=(16, 16, 64)).astype(np.float32)
    calibration, held_back = files.npz("all.npz", **{name: x}), files.npz("last.npz", **{name: x[-1:]})
    result = amct_tool(
        "quantize", model, "--data", calibration, "--profile", "qdq", "--also", "nn", "-o", tmp_path / "out"
    )
    assert result.status == 0
    accuracy = json.loads((tmp_path / "out" / "summary.json").read_text("utf-8"))["accuracy"]
    quantized = tmp_path / "out" / "transformer_nn.mlir"
    compared = amct_tool("compare", model, quantized, "--integers", "--data", held_back, "--json")
    assert accuracy["kernels"] == json.loads(compared.out)["outputs"]


def test_without_integer_kernels_there_is_nothing_to_measure(amct_tool, files, tmp_path):
    arguments = ("--profile", "qdq", "--skip-layers", "fc", "-o", tmp_path / "out")
    assert amct_tool("quantize", files.module(), *arguments).status == 0
    assert json.loads((tmp_path / "out" / "summary.json").read_text("utf-8"))["accuracy"]["kernels"] == {}


def test_without_data_everything_says_so(amct_tool, tmp_path):
    result = amct_tool("quantize", MODEL, "-o", tmp_path)
    assert result.status == 0
    assert "warning: no calibration data" in result.err
    assert "SYNTHETIC" in result.out
    assert result.out.rstrip().endswith(f"amct quantize {MODEL} --data DATA -o {tmp_path}-calibrated"), "the last line"
    assert json.loads((tmp_path / "summary.json").read_text("utf-8"))["metadata"]["synthetic"] == "true"
    assert {"true"} == {
        p.value for p in onnx.load(tmp_path / "digits_qdq.onnx").metadata_props if p.key == "amct_opt.synthetic"
    }


def test_layers_can_be_left_out(amct_tool, tmp_path):
    arguments = ("--data", CALIB, "-o", tmp_path, "--skip-layers", "conv1,fc1", "--skip-fusion", "bn2", "--opset", "13")
    assert amct_tool("quantize", MODEL, *arguments).status == 0
    layers = json.loads((tmp_path / "summary.json").read_text("utf-8"))["layers"]
    assert [row["layer"] for row in layers["quantized"]] == [n for n in QUANTIZED if n not in ("conv1", "fc1")]
    # the relu stands after a batch norm that was not folded
    not_fused = [(row["layer"], row["rule"]) for row in layers["not_fused"]]
    assert not_fused == [("bn2", "skip-fusion"), ("relu2", "no-producer")]
    assert onnx.load(tmp_path / "digits_qdq.onnx").opset_import[0].version == 13


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--observer", "magic"), "no observer is called 'magic'"),
        (("--profile", "magic"), "no profile is called 'magic'"),
        (("--skip-layers", "magic"), "skip_layers names 'magic'"),
        (("--opset", "3"), "target onnx does not write opset 3"),
        (("--also", "nn,magic"), "error: also: 'magic' is not one of nn, ascend, record"),
        (("--data", "nowhere.npz"), "nowhere.npz: error: there is no such file"),
        (("--data", str(MODEL)), "is neither an .npz archive nor an .npy file"),
    ],
)
def test_mistakes(amct_tool, tmp_path, arguments, message):
    result = amct_tool("quantize", MODEL, "--data", CALIB, "-o", tmp_path / "out", *arguments)
    assert (result.status, result.out) == (1, "")
    assert message in result.err
    assert not (tmp_path / "out").exists()


PIXELS = np.zeros((9, 1, 8, 8), np.uint8)


@pytest.mark.parametrize(
    ("array", "options", "message", "hint"),
    [
        (PIXELS, (), "is of uint8, but the model takes float32", "/ 255 - mean) / std"),
        (np.zeros((1, 8, 8), np.float32), (), "has shape [1, 8, 8]", "one sample, without an axis that counts samples"),
        (PIXELS, ("--preprocess", "imagenet"), "holds arrays, which are taken as they are", "leave these options out"),
    ],
    ids=["pixels", "one sample", "preprocessed arrays"],
)
def test_hints_about_data(amct_tool, files, tmp_path, array, options, message, hint):
    data = files.npz("data.npz", image=array)
    result = amct_tool("quantize", MODEL, "--data", data, *options, "--profile", "cpu", "-o", tmp_path / "out")
    assert result.status == 1
    error, line = result.err.splitlines()
    assert error.startswith(f"{data}: error: ")
    assert message in error
    assert line.startswith("  hint: ")
    assert hint in line


def test_what_data_does_not_do_is_said(amct_tool, files, tmp_path):
    """One sample is not data, a record needs none, and a model that is quantized is not quantized again."""
    one = files.npz("one.npz", image=np.load(CALIB)["image"][:1])
    quantize = ("--profile", "qdq", "--no-report", "-o", tmp_path / "out")
    assert "one.npz: ranges fit 1 sample alone" in amct_tool("quantize", MODEL, "--data", one, *quantize).err
    again = amct_tool(
        "quantize", tmp_path / "out/digits_qdq.onnx", "--data", CALIB, "--no-report", "-o", tmp_path / "2"
    )
    assert "digits_qdq.onnx is quantized already, and these layers stay as they are: amct convert --model " in again.err
    assert "calib.npz does not calibrate anything: no range of activations is needed" in again.err


def test_an_empty_cache_is_no_data_of_zeros(amct_tool, files, tmp_path):
    """Data that rounds weights is used, and a past without a length has no values that could be 0."""
    (tmp_path / "cached.mlir").write_text(CACHED)
    x = np.random.default_rng(0).normal(size=(16, 2, 4)).astype(np.float32)
    data = files.npz("steps.npz", x=x, past=np.empty((16, 0, 4), np.float32))
    gptq = ("--profile", "qdq", "--weight-only", "--round-weights", "gptq", "--no-report", "-o", tmp_path / "out")
    result = amct_tool("quantize", tmp_path / "cached.mlir", "--data", data, *gptq)
    assert (result.status, "steps.npz" in result.err) == (0, False), result.err


def test_a_number_of_samples(amct_tool, tmp_path):
    result = amct_tool("quantize", MODEL, "--data", CALIB, "--num-samples", "20", "--no-report", "-v", "-o", tmp_path)
    assert "18 samples; observer mse" in result.out
    assert "2 samples, held back from calibration" in result.out


def test_missing_files_are_named_before_libraries_are_loaded(tmp_path):
    """A Keras model would load TensorFlow; here not even numpy is."""
    command = "import sys; from amct_opt.tools.amct import run; run(sys.argv[1:]); print(*sys.modules, sep='\\n')"
    model = tmp_path / "m.h5"
    model.touch()
    for options in (["--data", "none.npz"], ["--data", str(CALIB), "--labels", "none.npz:y"]):
        argv = [sys.executable, "-c", command, "quantize", str(model), "-o", "out", *options]
        done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=tmp_path)
        assert done.stderr == "none.npz: error: there is no such file\n"
        assert "tensorflow" not in (loaded := done.stdout.split())
        assert "amct_opt.flows.quantization" not in loaded


def test_data_that_does_not_fit(amct_tool, files, tmp_path):
    bad = files.npz("bad.npz", image=np.zeros((9, 3, 8, 8), np.float32))
    result = amct_tool("quantize", MODEL, "--data", bad, "--profile", "cpu", "-o", tmp_path / "out")
    assert result.status == 1
    assert result.err.startswith(
        f"{bad}: error: input 'image' has shape [9, 3, 8, 8], but the model takes [?, 1, 8, 8]"
    )
    assert not (tmp_path / "out").exists()


def test_an_output_folder_that_is_a_file(amct_tool, files, tmp_path):
    taken = files.text("taken", "")
    result = amct_tool("quantize", MODEL, "--data", CALIB, "-o", taken)
    assert result.status == 1
    assert f"{taken}: error: cannot be written" in result.err


def test_calibration_data_is_not_overwritten(amct_tool, files, tmp_path):
    data = tmp_path / "summary.json"
    data.write_bytes(CALIB.read_bytes())
    result = amct_tool("quantize", MODEL, "--data", data, "-o", tmp_path)
    assert result.status == 1
    assert "would overwrite a file that was read" in result.err
    assert data.read_bytes() == CALIB.read_bytes()


def test_a_quantized_module_is_left_as_it_is(amct_tool, out, tmp_path):
    """Its layers are reported as quantized before, and nothing of what it computes changes."""
    assert amct_tool("quantize", out / "digits_nn.mlir", "--data", CALIB, "-o", tmp_path).status == 0
    summary = json.loads((tmp_path / "summary.json").read_text("utf-8"))
    assert summary["layers"]["quantized_before"]["nn.conv"] == 5
    assert summary["accuracy"]["fake_quantized"]["logits"]["differing"] == 0
    files = [out / "digits_nn.mlir", out / "digits_nn.safetensors"]
    assert summary["bytes"]["model"] == sum(file.stat().st_size for file in files)


def test_the_arrays_of_the_model_are_not_overwritten(amct_tool, files, tmp_path):
    """A module may name any side file of its folder, also one that would be written."""
    model = files.module()
    inline, external = "dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>", '"m_nn.safetensors#w", tensor<2x2xf32>'
    model.write_text(model.read_text().replace(inline, f"#nn.external<{external}>"))
    arrays = tmp_path / "m_nn.safetensors"
    save_file({"w": np.ones((2, 2), np.float32)}, arrays)
    before = arrays.read_bytes()
    result = amct_tool("quantize", model, "--also", "nn", "-o", tmp_path)
    assert result.status == 1
    assert f"{arrays}: error: would overwrite a file that was read" in result.err
    assert arrays.read_bytes() == before


def test_the_weights_of_a_caffe_model_are_not_overwritten(amct_tool, files, tmp_path):
    """The deployable model has two files."""
    session = amct_opt.new_session()
    net, weights = tmp_path / "m.prototxt", tmp_path / "out" / "m_deploy_weights.caffemodel"
    amct_opt.save(amct_opt.load(files.module(), session).module, net, session, "caffe")
    weights.parent.mkdir()
    before = net.with_suffix(".caffemodel").rename(weights).read_bytes()
    result = amct_tool("quantize", net, "--weights", weights, "-o", tmp_path / "out")
    assert f"{weights}: error: would overwrite a file that was read" in result.err
    assert (result.status, weights.read_bytes()) == (1, before)
    elsewhere = tmp_path / "elsewhere"
    result = amct_tool("quantize", net, "--weights", weights, "--no-report", "-o", elsewhere)
    assert f"--weight={elsewhere}/m_deploy_weights.caffemodel --soc_version=SOC" in result.out
    assert (elsewhere / "m_deploy_weights.caffemodel").is_file()


def test_only_layers(tmp_path, capsys):
    """The others stay float and say so; one that the model does not have is an error, and nothing is written."""
    from amct_opt.tools import amct

    given = ["quantize", str(MODEL), "--data", str(CALIB), "-o"]
    assert amct.run([*given, str(tmp_path / "two"), "--only-layers", "conv2,fc1"]) == 0
    layers = json.loads((tmp_path / "two" / "summary.json").read_text("utf-8"))["layers"]
    assert [row["layer"] for row in layers["quantized"]] == ["conv2", "fc1"]
    assert {row["rule"] for row in layers["left_in_float"] if row["op"] == "nn.conv"} == {"only-layers"}
    capsys.readouterr()
    assert amct.run([*given, str(tmp_path / "none"), "--only-layers", "conv9"]) == 1
    assert "only_layers names 'conv9', which is not a layer or module of the model" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_a_configuration_is_read_once(amct_tool, tmp_path, monkeypatch):
    """All passes of one command see the same settings, whatever happens to the file meanwhile."""
    from amct_opt.configuration import files as formats

    read: list[Path] = []
    parse = formats.read_simplified
    monkeypatch.setattr(formats, "read_simplified", lambda path: read.append(path) or parse(path))
    config = tmp_path / "simple.cfg"
    config.write_text('skip_layers: "conv2" do_fusion: true')
    assert amct_tool("quantize", MODEL, "--data", CALIB, "--config", config, "-o", tmp_path / "out").status == 0
    assert read == [config]
    assert 'key: "conv1"' in (tmp_path / "out" / f"{MODEL.stem}_record.txt").read_text(), "AMCT users expect the record"
