"""The digits example: what is committed is what its script trains, and int8 costs at most half a point of top-1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from ..scripts import script

DIGITS = Path(__file__).parents[3] / "examples" / "digits"


def onnxruntime_top1(model: Path, folder: Path) -> float:
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    with np.load(folder / "heldout.npz") as arrays:
        (logits,) = map(np.asarray, session.run(None, dict(arrays)))
    return float((logits.argmax(1) == np.load(folder / "heldout_labels.npy")).mean())


def test_demo(tmp_path, capsys):
    """Float, fake-quantized and integer top-1 on the 397 held-out images; float is what onnxruntime finds."""
    demo = script("examples/digits/demo")
    assert demo.main(tmp_path) == 0
    counts = {stage: right for stage, right, _ in demo.top1(tmp_path)}
    printed = capsys.readouterr().out
    for stage, right in counts.items():
        assert stage in printed
        assert f"{right} of 397" in printed
    assert counts["float"] / 397 == pytest.approx(onnxruntime_top1(DIGITS / "digits.onnx", DIGITS))
    for stage in ("fake-quantized (nn)", "integer (ascend)"):
        assert abs(counts[stage] - counts["float"]) / 397 <= 0.005


def test_the_committed_model_is_small_and_good():
    """A few hundred kB at most, batch norms kept apart, a depthwise layer among the convolutions."""
    model = onnx.load(DIGITS / "digits.onnx")
    kinds = [node.op_type for node in model.graph.node]
    groups = [a.i for node in model.graph.node for a in node.attribute if a.name == "group"]
    assert (DIGITS / "digits.onnx").stat().st_size < 300_000
    assert kinds.count("BatchNormalization") == kinds.count("Conv") == 5
    assert 32 in groups
    assert onnxruntime_top1(DIGITS / "digits.onnx", DIGITS) >= 0.97


def test_calibration_images_are_not_held_out_ones():
    with np.load(DIGITS / "calib.npz") as calib, np.load(DIGITS / "heldout.npz") as heldout:
        seen = {image.tobytes() for image in calib["image"]}
        assert not any(image.tobytes() in seen for image in heldout["image"])


@pytest.mark.slow
def test_training_gives_such_a_model(tmp_path):
    """Last bits depend on the BLAS, so the files are not compared; the accuracy of what was written is."""
    assert script("examples/digits/train").main(tmp_path) >= 0.97
    assert {path.name for path in tmp_path.iterdir()} == {
        "digits.onnx",
        "calib.npz",
        "heldout.npz",
        "heldout_labels.npy",
    }
    assert onnxruntime_top1(tmp_path / "digits.onnx", tmp_path) >= 0.97
