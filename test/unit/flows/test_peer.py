"""onnxruntime opens what the commands write, and the summary says what it makes of it."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from amct_opt.data.given import samples_from
from amct_opt.engines.onnx_runtime import arithmetic, processor
from amct_opt.flows import peer
from amct_opt.ir.text import parse_module
from amct_opt.runtime.executor import Executable
from amct_opt.runtime.integer_plan import in_integers
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.tools import amct
from amct_opt.tools.shared import load_module
from amct_opt.transforms.quantization.data import load
from amct_opt.transforms.quantization.options import DataOptions
from amct_opt.transforms.quantization.profiles import profile_of


@pytest.fixture
def model(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.normal(size=(4, 3, 3, 3)).astype(np.float32), "w")]
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", *s]) for n, s in (("x", (3, 8, 8)), ("y", (4, 6, 6)))
    ]
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"], "conv")], "g", ends[:1], ends[1:], weights)
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    np.savez(tmp_path / "data.npz", x=rng.normal(size=(20, 3, 8, 8)).astype(np.float32))
    return path


def quantize(model: Path, profile: str = "qdq", bits: str = "8", *options: str) -> int:
    folder = model.parent
    data = str(folder / "data.npz")
    given = ["--data", data, "--profile", profile, "--bits", bits, "-o", str(folder / "out")]
    return amct.run(["quantize", str(model), *given, *options])


@pytest.mark.parametrize("profile", ["qdq", "ascend"])
def test_the_file_runs(profile: str, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert quantize(model, profile) == 0
    assert f"{onnxruntime.__version__} runs the file; 8 runs: " in capsys.readouterr().out
    found = json.loads((model.parent / "out" / "summary.json").read_text("utf-8"))["onnxruntime"]
    assert (found["version"], found["failure"], found["runs"]) == (onnxruntime.__version__, None, 8)
    assert found["outputs"]["y"]["count"] == 8 * 4 * 6 * 6
    assert found["outputs"]["y"]["largest"] < 1e-4
    assert found["accuracy"]["y"]["sqnr"] == pytest.approx(38, abs=4)
    assert (found["processor"], found["arithmetic"]) == (processor(), arithmetic())


def refuse(monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    """Let onnxruntime refuse files whose names end like this."""
    session = onnxruntime.InferenceSession

    def open_(path: str | bytes, *rest: Any, **options: Any) -> Any:
        if isinstance(path, str) and path.endswith(ending):
            raise RuntimeError("no kernel for this node\nand more")
        return session(path, *rest, **options)

    monkeypatch.setattr(onnxruntime, "InferenceSession", open_)


def test_a_file_that_does_not_open(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 1 and one line, after everything has been written."""
    refuse(monkeypatch, "_qdq.onnx")
    assert quantize(model) == 1
    error = capsys.readouterr().err
    assert "net_qdq.onnx: error: onnxruntime" in error
    assert "does not run the file: no kernel for this node" in error
    assert "and more" not in error
    summary = json.loads((model.parent / "out" / "summary.json").read_text("utf-8"))
    assert summary["onnxruntime"]["failure"] == "no kernel for this node"
    assert all((model.parent / "out" / name).is_file() for name in summary["files"].values())


def test_a_model_that_does_not_open_either(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may hold operators that onnxruntime does not have; the summary says it, and it is not an error."""
    refuse(monkeypatch, ".onnx")
    assert quantize(model) == 0
    assert "does not run the file: no kernel for this node" in capsys.readouterr().out


def test_without_onnxruntime(model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(peer, "import_module", missing)
    assert quantize(model) == 0
    assert "is not installed: the file was not opened" in capsys.readouterr().out


def test_calibration_opens_its_file(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = model.parent
    np.zeros((1, 3, 8, 8), np.float32).tofile(folder / "x.bin")
    (folder / "raw").mkdir()
    (folder / "x.bin").rename(folder / "raw" / "x.bin")
    arguments = ["calibration", "--model", str(model), "--save_path", f"{folder}/cal/net"]
    arguments += ["--input_shape", "x:1,3,8,8", "--data_dir", str(folder / "raw"), "--data_types", "float32"]
    assert amct.run(arguments) == 0
    assert f"{onnxruntime.__version__} opens the file" in capsys.readouterr().out
    refuse(monkeypatch, "_fake_quant_model.onnx")
    assert amct.run(arguments) == 1
    assert "net_fake_quant_model.onnx: error: onnxruntime" in capsys.readouterr().err
    assert (folder / "cal" / "net_fake_quant_model.onnx").is_file()


@pytest.mark.parametrize("bits", ["4", "8", "16"])
def test_where_the_two_part(model: Path, bits: str) -> None:
    """Outputs that are far apart are explained by the first integers that differ: here those after wrong weights."""
    assert quantize(model, "qdq", bits, "--also", "nn") == 0
    out = model.parent / "out"
    module = load_module(out / "net_nn.mlir")[0]
    file = onnx.load(out / "net_qdq.onnx")
    weights = next(w for w in file.graph.initializer if len(w.dims) == 4)
    weights.CopyFrom(numpy_helper.from_array(np.negative(numpy_helper.to_array(weights)), weights.name))
    onnx.save(file, out / "net_qdq.onnx")
    samples = load(DataOptions(str(model.parent / "data.npz")), module, Session())
    rewrite, expected = in_integers if bits == "8" else None, peer.Expected([samples])
    for inputs in samples.batches():
        outputs = Executable(module, rewrite=rewrite).run(inputs)
        expected.add(outputs, outputs)
    session = new_session()
    session.profile = "qdq"
    found = peer.peer_of(out / "net_qdq.onnx", peer.Simulation(module, rewrite, profile_of(session)), expected)
    assert found is not None
    assert found.first_apart is not None
    assert (found.first_apart.name, found.first_apart.count) == ("conv.q", 4 * 6 * 6)
    assert found.first_apart.steps > {"4": 3}.get(bits, 10)
    assert found.first_apart.differing > 100
    assert "; the first integers that differ: conv.q, " in peer.described(found)
    assert not list(out.glob("integers_*"))


def test_other_numbers_are_warned_of(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = peer._run  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(peer, "_run", lambda *given: {name: 1.1 * array for name, array in run(*given).items()})
    assert quantize(model) == 0
    said = r"warning: output 'y' in onnxruntime has an SQNR of 20\.\d dB against the simulation, which has \d\d\.\d dB"
    assert re.search(said, capsys.readouterr().err)
    (warning,) = json.loads((model.parent / "out" / "summary.json").read_text("utf-8"))["warnings"]
    assert warning.endswith("onnxruntime computes something else")


def saturating(path: Path) -> Path:
    """A convolution whose sums of two products leave 16 bits, of inputs at the end of their range; ten samples of them."""
    onnx_model = onnx.load(path)
    weight = next(each for each in onnx_model.graph.initializer if each.name == "w")
    weight.CopyFrom(numpy_helper.from_array(np.abs(numpy_helper.to_array(weight)) + 2, "w"))
    onnx.save(onnx_model, path)
    data = np.random.default_rng(1).choice([0, 0.5, 1], (10, 3, 8, 8), p=[0.1, 0.1, 0.8])
    np.savez(path.with_name("data.npz"), x=data.astype(np.float32))
    return path


@pytest.mark.parametrize(
    ("profile", "options", "remedy"),
    [
        ("qdq", ("--portable", "off"), "--portable strict makes them exact, or --weight-bits 7 where scales are given"),
        ("ppq", ("--portable", "off"), "--portable strict makes them exact, or --weight-bits 7 where scales are given"),
    ],
)
def test_the_cause_of_other_numbers_is_found(
    profile: str,
    options: tuple[str, ...],
    remedy: str,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On a processor that adds in 16 bits, or as if this one did: message, summary, report and summary.json name it."""
    run = peer._run  # pyright: ignore[reportPrivateUsage]
    if arithmetic() == "exact":
        monkeypatch.setattr(peer, "arithmetic", lambda: "saturates")
        monkeypatch.setattr(peer, "_run", lambda *given: {name: 0.6 * array for name, array in run(*given).items()})
    out = model.parent / "out"
    given = ["--data", str(model.parent / "data.npz"), "--profile", profile, *options, "-o", str(out)]
    assert amct.run(["quantize", str(saturating(model)), *given]) == 0
    printed = capsys.readouterr()
    here = rf"on this processor \({re.escape(processor())}\)"
    cause = rf"onnxruntime adds two products in 16 bits, .*, {here}, and sums leave them in conv \(\d+\)"
    assert re.search(rf"warning: output 'y' .*: {cause}; {remedy}", printed.err)
    assert re.search(rf"processors +sums of products are wrong on this one, .*: conv \(\d+\); {remedy}", printed.out)
    summary = json.loads((out / "summary.json").read_text("utf-8"))
    assert summary["inexact"] == ["conv"]
    assert summary["onnxruntime"]["overflows"]["conv"] > 100
    assert summary["onnxruntime"]["accuracy"]["y"]["sqnr"] < 20 < summary["accuracy"]["kernels"]["y"]["sqnr"]
    page = (out / "report.html").read_text("utf-8")
    assert re.search(
        r'<p class="verdict (poor|fair)">The quantized outputs .* at the worst output in onnxruntime on ', page
    )
    assert summary["warnings"][0].split(":")[0] in html.unescape(page)
    assert "--profile qdq --portable strict" in html.unescape(page)


def test_without_data_a_warning_says_that_sums_may_be_wrong(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Inputs that are quantized in each run take no data, so that nothing else compares the file with the simulation."""
    monkeypatch.setattr(peer, "arithmetic", lambda: "saturates")
    product = model.parent / "product.onnx"
    weight = numpy_helper.from_array(np.full((64, 16), 1, np.float32), "w")
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, n]) for name, n in (("x", 64), ("y", 16))]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], "fc")], "g", info[:1], info[1:], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), product)
    given = ["--profile", "qdq", "--dynamic", "--portable", "off", "--no-report", "-o", str(model.parent / "dynamic")]
    assert amct.run(["quantize", str(product), *given]) == 0
    assert re.search(
        r"warning: onnxruntime adds two products in 16 bits.*: 1 layer may be wrong", capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        ("qdq", "onnxruntime adds the products of all layers exactly on every processor"),
        ("ascend", "(Arm, or x86 without VNNI); --profile qdq makes a file for all processors"),
    ],
)
def test_the_summary_says_on_which_processors_a_file_is_right(
    profile: str, said: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert quantize(saturating(model), profile, "8", "--verbose") == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("  processors "))
    assert line.endswith(said)


def test_outputs_are_kept_for_as_many_runs_as_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """At least for as many as are to be compared."""
    monkeypatch.setattr(peer, "_KEPT", 100)
    module = parse_module(
        new_session(), "func.func @main(%x: tensor<?x1xf32>) -> tensor<?x1xf32> { func.return %x : tensor<?x1xf32> }"
    )
    expected = peer.Expected([samples_from(np.zeros((50, 1), np.float32), module)])
    for _ in range(50):
        expected.add({"y": np.zeros(10, np.float32)}, {"y": np.zeros(10, np.float32)})
    assert len(expected.runs) == len(list(expected.batches())) == peer.LEAST
