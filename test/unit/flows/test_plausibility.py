"""Warnings about data and results: what they must say, and what they must not take for a mistake."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import amct_opt
from amct_opt.data.given import samples_from
from amct_opt.flows.plausibility import doubts_of_data, doubts_of_result, doubts_of_split
from amct_opt.runtime.metrics import Difference

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
MODEL = DIGITS / "digits.onnx"

CONV = """
func.func @main(%x: tensor<?x3x8x8xf32> {nn.name = "x"}) -> (tensor<?x2x8x8xf32> {nn.name = "y"}) {
  %w = nn.constant dense<0.5> : tensor<2x3x1x1xf32>
  %b = nn.constant dense<BIAS> : tensor<2xf32>
  %0 = nn.conv %x, %w, %b from <onnx, "Conv", "conv1">
    : (tensor<?x3x8x8xf32>, tensor<2x3x1x1xf32>, tensor<2xf32>) -> tensor<?x2x8x8xf32>
  func.return %0 : tensor<?x2x8x8xf32>
}
"""
PIXELS = np.random.default_rng(0).integers(0, 256, (20, 3, 8, 8)).astype(np.float32)


def images() -> np.ndarray:
    return np.load(DIGITS / "calib.npz")["image"]


def of_data(module, array) -> str:
    return "\n".join(doubts_of_data(module, samples_from(array, module)))


def test_the_statistics_of_a_batch_norm() -> None:
    module, _ = amct_opt.load(MODEL)
    x = images()
    for usual in (x, x[:1], (x + 1) / 2, -x, list(np.split(x, 4))):
        assert of_data(module, usual) == ""
    assert "all values are 0, in 16 of " in of_data(module, np.zeros_like(x))
    assert "the data is 138 times as large as the statistics of the first batch norm ('bn1') say" in of_data(
        module, (x + 1) * 127.5
    )
    for odd, message in (
        (x / 255, "spreads 0.0039 times as wide as"),
        (x / 3, "spreads 0.33 times as wide as"),
        (3 * x, "spreads 3 times as wide as"),
        (x + 2, "lies 1.1 deviations away from the mean that"),
    ):
        assert f"the data {message} the statistics of the first batch norm ('bn1') say" in of_data(module, odd)
    assert "--preprocess" in of_data(module, x * 100)


@pytest.mark.parametrize(
    ("bias", "array", "message"),
    [
        ("0.5", PIXELS, "pixels of 0 to 255, compared with which the bias of 'conv1' vanishes"),
        ("0.5", PIXELS / 255, ""),
        ("0.5", PIXELS / 127.5 - 1, ""),
        ("0.5", PIXELS - 128, ""),  # whoever subtracts means did not forget to normalize
        ("30.0", PIXELS, ""),
        ("0.0", PIXELS, ""),  # it says nothing
        ("9.0", PIXELS / 255 / 255, "the largest value of input 'x' is 0.003922"),
        ("9.0", PIXELS * 255, "the largest value of input 'x' is 6.502e+04"),
    ],
)
def test_the_first_layer_and_usual_ranges(bias: str, array: np.ndarray, message: str) -> None:
    module, _ = amct_opt.parse(CONV.replace("BIAS", bias))
    found = of_data(module, array)
    assert message in found
    assert bool(found) == bool(message)


def test_values_that_there_are_none_of() -> None:
    """The cache of a decoder, before its first token, is not data that is 0."""
    types = 'tensor<?x2x?x4xf32> {nn.name = "past"}) -> (tensor<?x2x?x4xf32> {nn.name = "y"'
    module, _ = amct_opt.parse(f"func.func @main(%x: {types}}}) {{\n  func.return %x : tensor<?x2x?x4xf32>\n}}")
    assert of_data(module, np.zeros((3, 2, 0, 4), np.float32)) == ""
    assert "all values are 0, in 3 of 3 samples" in of_data(module, np.zeros((3, 2, 1, 4), np.float32))


def test_samples_that_measure() -> None:
    module, _ = amct_opt.parse(CONV.replace("BIAS", "9.0"))
    x = PIXELS / 255

    def split(calibration, held) -> list[str]:
        return [*doubts_of_split(samples_from(calibration, module), samples_from(held, module))]

    for usual in (x[10:], 2 * x[10:], x[10:] / 2, 9 * x[:3]):  # three samples say nothing
        assert split(x[:10], usual) == []
    (line,) = split(x[:10], 9 * x[10:])
    assert line.startswith(
        "the samples that measure differ from those that calibrate: values of input 'x' spread by 2.6"
    )
    assert split(x[:10], x[10:] + 5)


def test_outputs_that_are_noise() -> None:
    module, _ = amct_opt.parse(CONV.replace("BIAS", "9.0"))
    good, bad = Difference(15.0, 1.0, 0, 0, 1), Difference(-1.2, 0.1, 0, 0, 1)
    assert [*doubts_of_result(module, {"nn": {"y": good}})] == []
    (line,) = doubts_of_result(module, {"nn": {"y": good}, "integer (ascend)": {"y": bad}})
    assert line.startswith("output 'y' (integer (ascend)) has an SQNR of -1.20 dB")
    assert line.endswith("list the layers that cost most: amct sensitivity MODEL --data DATA")


def test_the_next_command_can_be_pasted(amct_tool, tmp_path: Path) -> None:
    """With the model, the data and the folders as they are."""
    for i, image in enumerate(images()[:40]):
        folder = tmp_path / "my photos" / f"class-{i % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.rint((image[0] + 1) * 127.5).astype(np.uint8)).save(folder / f"{i:02}.png")
    data = ("--data", tmp_path / "my photos", "--scale", "255")
    few = ("--weight-bits", "3", "--observer", "percentile{percentile=0.51}", "--no-report", "--profile", "ascend")
    few = (*few, "--effort", "0")
    lines = amct_tool("quantize", MODEL, *data, *few, "-o", tmp_path / "out").err.splitlines()
    commands = [shlex.split(line.rpartition(": ")[2]) for line in lines]
    assert [words[:2] for words in commands] == [["amct", "evaluate"], ["amct", "sensitivity"]]
    for words in commands:
        assert amct_tool(*words[1:]).status == 0, words


def test_sensitivity_and_evaluate_warn_of_data(amct_tool, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", image=(images()[:20] + 1) * 127.5)
    np.save(tmp_path / "labels.npy", np.zeros(20, int))
    for command in (("sensitivity",), ("evaluate", "--labels", tmp_path / "labels.npy")):
        result = amct_tool(*command, MODEL, "--data", tmp_path / "x.npz")
        assert result.status == 0
        assert result.err.count("warning: the data is 13") == 1


def test_wrong_pixels_and_broken_networks_are_warned_of(amct_tool, tmp_path: Path) -> None:
    """On stderr and in the summary, by the commands; right pixels are not."""
    for i, image in enumerate(images()[:40]):
        Image.fromarray(np.rint((image[0] + 1) * 127.5).astype(np.uint8)).save(tmp_path / f"{i:02}.png")
    out = tmp_path.parent / f"{tmp_path.name}-out"
    for options, messages in (
        (("--preprocess", "tf"), ()),
        (("--scale", "255"), ("times as large as the statistics of the first batch norm ('bn1')",)),
        (
            ("--preprocess", "tf", "--weight-bits", "3", "--observer", "percentile{percentile=0.51}"),
            ("it is mostly noise",),
        ),
    ):
        result = amct_tool("quantize", MODEL, "--data", tmp_path, *options, "--profile", "ascend", "-o", out)
        warnings = json.loads((out / "summary.json").read_text())["warnings"]
        assert result.status == 0
        assert result.err.splitlines() == [f"warning: {each}" for each in warnings]
        assert len(warnings) == len(messages)
        assert all(m in w for m, w in zip(messages, warnings, strict=True))
