"""The commands as functions: from model files and data to files, scores and differences."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amct_opt
from amct_opt import CompileError
from amct_opt.tools import amct

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
MODEL, DATA = DIGITS / "digits.onnx", DIGITS / "calib.npz"


@pytest.fixture(scope="module")
def held_out(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """Sixty images that calibrate nothing, and their labels."""
    path = tmp_path_factory.mktemp("data") / "images.npz"
    with np.load(DIGITS / "heldout.npz") as arrays:
        np.savez(path, image=arrays["image"][:60])
    return path, np.load(DIGITS / "heldout_labels.npy")[:60]


def test_from_a_file_to_scores(tmp_path: Path, held_out: tuple[Path, np.ndarray]) -> None:
    summary = amct_opt.quantize_file(MODEL, tmp_path, DATA, profile="qdq", skip_layers=["fc1"])
    assert summary.metadata["profile"] == "qdq"
    path, labels = held_out
    files = MODEL, tmp_path / "digits_qdq.onnx"
    scores = amct_opt.evaluate(files, path, labels)
    assert [each.top1 is not None and each.top1.percent >= 98 for each in scores.models] == [True, True]
    with np.load(path) as arrays:
        images = {"image": arrays["image"]}
    own = amct_opt.evaluate(str(MODEL), path, metric=lambda model: sum(len(b["image"]) for b in model.batches()))
    assert own.models[0].metric == len(labels)
    difference = amct_opt.compare(*files, images, layers=True)
    assert 25 < difference.outputs["logits"].sqnr < 60
    assert "conv2" in difference.layers


def test_a_search(tmp_path: Path, held_out: tuple[Path, np.ndarray]) -> None:
    path, labels = held_out
    found = amct_opt.tune(MODEL, tmp_path, DATA, test=path, labels=labels, drop=5, weight_bits=8)
    assert found.best.reached
    assert found.samples == len(labels)
    assert {"digits_qdq.onnx", "digits_deploy_model.onnx"} <= {each.name for each in tmp_path.iterdir()}


def test_what_layers_cost() -> None:
    with ThreadPoolExecutor(1) as client:
        found = amct_opt.sensitivity(MODEL, DATA, samples=8, client=client, weight_bits=4)
    assert (found.samples, found.measure) == (8, "sqnr")
    assert {"conv1", "fc1"} < {each.name for each in found.layers}
    assert np.mean([each.alone for each in found.layers]) > found.quantized


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: amct_opt.quantize_file(MODEL, "out", weight_bit=4),  # pyright: ignore[reportCallIssue]
            "has no option 'weight_bit'.*did you mean weight_bits",
        ),
        (lambda: amct_opt.quantize(MODEL, data=DATA, profil="qdq"), "no option 'profil'.*did you mean profile"),  # pyright: ignore
        (lambda: amct_opt.quantize(MODEL, data=DATA, skip_layers="con"), "names 'con', which is not a layer"),
        (lambda: amct_opt.sensitivity(MODEL, DATA, samples=0), "samples must be"),
        (lambda: amct_opt.sensitivity(MODEL, DATA, measure="mse"), "measure is sqnr or kl, not 'mse'"),  # pyright: ignore
        (lambda: amct_opt.quantize_file(MODEL, "out", profile="qqq"), "no profile is called 'qqq'"),
        (lambda: amct_opt.tune(MODEL, "out", DATA), "one goal is needed"),
        (lambda: amct_opt.tune(MODEL, "out", DATA, labels="folders"), "one goal is needed"),
        (lambda: amct_opt.evaluate(MODEL, DATA), "either labels or a metric"),
        (lambda: amct_opt.evaluate(MODEL, labels="folders"), "labels need samples"),
        (lambda: amct_opt.evaluate(MODEL, DATA, np.zeros(3)), "labels must be integers"),
    ],
)
def test_what_cannot_be_done(call: Any, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        call()
    assert re.search(message, str(caught.value).replace("\n", " "))


def test_other_names_of_a_profile(tmp_path: Path) -> None:
    """They give the same files, whose metadata has the profile's own name."""
    listed = amct_opt.profiles()
    assert list(listed) == ["ascend", "ascend-a2", "qdq", "ppq", "openvino"]
    assert listed["qdq"] == "onnxruntime and other runtimes that read ONNX (cpu, onnxruntime)"
    for name in ("qdq", "cpu", "onnxruntime"):
        amct_opt.quantize_file(MODEL, tmp_path / name, DATA, profile=name)
        command = ["quantize", str(MODEL), "--data", str(DATA), "--profile", name, "-o", str(tmp_path / f"{name} tool")]
        assert amct.run([*command, "--no-report", "-q"]) == 0
    files = {each: (tmp_path / each / "digits_qdq.onnx").read_bytes() for each in ("qdq", "cpu", "onnxruntime")}
    tool = {each: (tmp_path / f"{each} tool" / "digits_qdq.onnx").read_bytes() for each in files}
    assert {*files.values(), *tool.values()} == {files["qdq"]}
    assert json.loads((tmp_path / "cpu tool" / "summary.json").read_text())["metadata"]["profile"] == "qdq"
