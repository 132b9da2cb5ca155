"""`amct evaluate`: models side by side on the same samples, in both engines, by labels and by a function."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from PIL import Image

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
MODEL = DIGITS / "digits.onnx"
COUNT = 60


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty digits: as an array with labels, and as photos in class folders."""
    folder = tmp_path_factory.mktemp("data")
    images, labels = np.load(DIGITS / "heldout.npz")["image"][:COUNT], np.load(DIGITS / "heldout_labels.npy")[:COUNT]
    np.savez(folder / "x.npz", image=images)
    np.save(folder / "labels.npy", labels)
    for i, (image, label) in enumerate(zip(images, labels, strict=True)):
        place = folder / "photos" / f"digit {label}" / f"{i:03}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.rint((image[0] + 1) * 127.5).astype(np.uint8)).save(place)
    return folder


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from amct_opt.tools import amct

    folder = tmp_path_factory.mktemp("out")
    assert (
        amct.run(["quantize", str(MODEL), "--data", str(DIGITS / "calib.npz"), "--also", "ascend", "-o", str(folder)])
        == 0
    )
    return folder


def test_stages_side_by_side(amct_tool, data: Path, out: Path) -> None:
    models = MODEL, out / "digits_qdq.onnx", out / "digits_ascend.mlir"
    given = ("--data", data / "x.npz", "--labels", data / "labels.npy")
    scores = json.loads(amct_tool("evaluate", *models, *given, "--json", "--engine", "numpy").out)
    (logits,) = map(
        np.asarray, onnxruntime.InferenceSession(MODEL).run(None, {"image": np.load(data / "x.npz")["image"]})
    )
    right = int((logits.argmax(1) == np.load(data / "labels.npy")).sum())
    first, *_ = scores["models"]
    assert (scores["samples"], first["top1"]["right"], first["top1"]["count"]) == (COUNT, right, COUNT)
    assert first["top1"]["low"] < first["top1"]["percent"] <= first["top1"]["high"]
    assert first["top5"]["percent"] >= first["top1"]["percent"]
    assert [(p["first"], p["second"]) for p in scores["pairs"]] == [
        (str(models[0]), str(models[1])),
        (str(models[0]), str(models[2])),
        (str(models[1]), str(models[2])),
    ]
    by_onnx = amct_tool("evaluate", *models, *given, "--json")
    by_onnx = json.loads(by_onnx.out)
    assert [m["engine"] for m in by_onnx["models"]] == ["onnxruntime", "onnxruntime", "numpy"]
    assert [m["top1"] for m in by_onnx["models"]] == [m["top1"] for m in scores["models"]]
    table = amct_tool("evaluate", MODEL, *given).out
    assert f"{COUNT} samples, labels from {data / 'labels.npy'}" in table


def test_photos_in_class_folders(amct_tool, data: Path) -> None:
    """The same images, in another order: the same score."""
    expected = amct_tool("evaluate", MODEL, "--data", data / "x.npz", "--labels", data / "labels.npy", "--json").out
    given = ("--data", data / "photos", "--preprocess", "tf", "--labels", "folders")
    found = json.loads(amct_tool("evaluate", MODEL, *given, "--json").out)
    assert found["models"][0]["top1"] == json.loads(expected)["models"][0]["top1"]


def test_a_function_measures(amct_tool, data: Path, tmp_path: Path) -> None:
    (tmp_path / "metric.py").write_text("""
import numpy as np
def largest(model):
    return max(model.run(batch)["logits"].max() for batch in model.batches())
""")
    metric = f"{tmp_path / 'metric.py'}:largest"
    given = ("--data", data / "x.npz", "--evaluator", metric, "--json")
    one, two = (json.loads(amct_tool("evaluate", MODEL, *given, *more).out) for more in ((), ("--engine=onnxruntime",)))
    assert one["models"][0]["metric"] == pytest.approx(two["models"][0]["metric"], rel=1e-5)
    assert (one["models"][0]["top1"], one["pairs"], one["source"]) == (None, [], metric)


def test_models_that_do_not_fit_are_named(amct_tool, files, data: Path) -> None:
    """A second model with other inputs, and one with other classes: the error is located in it."""
    small = files.module("small.mlir")
    given = ("--data", data / "x.npz", "--labels", data / "labels.npy")
    result = amct_tool("evaluate", MODEL, small, *given)
    assert (result.status, result.out) == (1, "")
    assert f"{small}: {data / 'x.npz'}: error: no data for input x" in result.err
    two = files.npz(x=np.eye(2, dtype=np.float32))
    np.save(files.folder / "five.npy", np.array([0, 5]))
    result = amct_tool("evaluate", small, "--data", two, "--labels", files.folder / "five.npy")
    assert (
        f"{small}: {files.folder / 'five.npy'}: error: sample 1 has label 5, but output 'y' has 2 classes" in result.err
    )
    (files.folder / "photos" / "cat").mkdir(parents=True)
    Image.new("L", (8, 8)).save(files.folder / "photos" / "cat" / "x.png")
    photos = ("--data", files.folder / "photos", "--preprocess", "tf", "--labels", "folders")
    assert "1 class folders, but output 'logits' has 10 classes" in amct_tool("evaluate", MODEL, *photos).err


def test_usage(amct_tool, data: Path) -> None:
    for options, message in (
        ((), "either labels, a function or a text must judge\n  hint: give --labels, --evaluator"),
        (("--labels", "folders"), "labels need samples\n  hint: give --data"),
        (("--evaluator", "metric"), "'metric' is not a function\n  hint: name a file and a function"),
    ):
        result = amct_tool("evaluate", MODEL, *options)
        assert (result.status, result.out) == (1, "")
        assert message in result.err


def test_quantize_counts_right_answers(amct_tool, data: Path, tmp_path: Path) -> None:
    """On the samples that are held back, in every stage, as `amct evaluate` counts them on these."""
    given = ("--data", data / "photos", "--preprocess", "tf", "--labels", "folders", "--profile", "qdq", "-o", tmp_path)
    result = amct_tool("quantize", MODEL, *given)
    assert (result.status, result.err) == (0, "")
    assert (
        "accuracy      100.00 % (60.97 to 100.00) right, the float model 100.00 % (60.97 to 100.00), on 6 samples,"
        in result.out
    )
    accuracy = json.loads((tmp_path / "summary.json").read_text())["accuracy"]
    assert [*accuracy["top1"]] == ["float", "fake_quantized", "kernels"]
    assert {each["count"] for each in accuracy["top1"].values()} == {accuracy["samples"]} == {6}
    np.save(tmp_path / "short.npy", np.zeros(3, int))
    arrays = ("--data", data / "x.npz", "--labels", tmp_path / "short.npy", "-o", tmp_path / "none")
    result = amct_tool("quantize", MODEL, *arrays)
    assert result.status == 1
    assert "labels must be 60 integers, one per sample, or 6 for the samples that measure, not 3" in result.err
    assert not (tmp_path / "none").exists()
