"""The same calibration data in every form gives the same ranges, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from amct_opt.tools import amct_opt

DIGITS = Path(__file__).parents[3] / "examples" / "digits"


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    """Thirty-two digits as pixels."""
    with np.load(DIGITS / "calib.npz") as data:
        return np.clip(np.rint(data["image"][:32, 0] * 100 + 100), 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def images(pixels: np.ndarray) -> np.ndarray:
    """The same as inputs of the model."""
    return ((pixels[:, None] - 100.5) / 101.25).astype(np.float32)


def quantized(folder: Path, options: str) -> str:
    """The record of the digits network, quantized with these options."""
    out = folder / "record.txt"
    passes = ["--canonicalize", "--fuse-all", f"--quantize={options}"]
    assert amct_opt.run([str(DIGITS / "digits.onnx"), *passes, "-t", "record", "-o", str(out)]) == 0
    return out.read_text()


@pytest.fixture
def expected(tmp_path: Path, images: np.ndarray) -> str:
    np.savez(tmp_path / "x.npz", image=images)
    return quantized(tmp_path, f"data={tmp_path / 'x.npz'}")


def test_arrays(tmp_path: Path, images: np.ndarray, expected: str) -> None:
    np.savez_compressed(tmp_path / "packed.npz", image=images)
    np.save(tmp_path / "x.npy", images)
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "folder" / "image.npy", images.astype(np.float64))
    for data in ("packed.npz", "x.npy", "folder"):
        assert quantized(tmp_path, f"data={tmp_path / data}") == expected


def test_raw_binaries(tmp_path: Path, images: np.ndarray, expected: str) -> None:
    (tmp_path / "raw").mkdir()
    for i, batch in enumerate(np.split(images, 4)):
        batch.tofile(tmp_path / "raw" / f"{i}.bin")
    data = f"data={tmp_path / 'raw'} data-types=float32"
    assert quantized(tmp_path, data) == expected  # the batch is what a file's size says
    assert quantized(tmp_path, f"{data} input-shape=image:8,1,8,8") == expected
    assert quantized(tmp_path, f"{data} samples=1") == quantized(tmp_path, f"{data} batch-num=1") != expected


def test_images(tmp_path: Path, pixels: np.ndarray, expected: str) -> None:
    (tmp_path / "images").mkdir()
    for i, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / "images" / f"{i:02}.png")
    form = "mean=100.5 std=101.25 resize=8x8 layout=NCHW color=gray"
    assert quantized(tmp_path, f"data={tmp_path / 'images'} {form}") == expected


def test_a_function(tmp_path: Path, images: np.ndarray, expected: str) -> None:
    np.save(tmp_path / "x.npy", images)
    text = """
import numpy as np

def batches():
    for batch in np.split(np.load("PATH"), 8):
        yield {"image": batch}
"""
    (tmp_path / "calib.py").write_text(text.replace("PATH", str(tmp_path / "x.npy")))
    function = f"data={tmp_path / 'calib.py'}:batches"
    assert quantized(tmp_path, function) == expected
    twice = quantized(tmp_path, f"data={tmp_path / 'x.npz'} observer=ifmr")  # it looks at data more than once
    assert quantized(tmp_path, f"{function} observer=ifmr") == twice != expected


NAMED = "--profile", "ascend", "--also", "record"


def calibrated(folder: Path) -> int:
    """The number of samples that calibrated."""
    return int(json.loads((folder / "summary.json").read_text())["metadata"]["samples"])


def test_amct_quantize(amct_tool, tmp_path: Path, pixels: np.ndarray, images: np.ndarray) -> None:
    """Also what is held back is the same, and so the accuracy on it."""
    (tmp_path / "images").mkdir()
    for i, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / "images" / f"{i:02}.png")
    np.savez(tmp_path / "x.npz", image=images)
    form = ("--mean", "100.5", "--std=101.25", "--resize", "8x8", "--layout", "NCHW", "--color", "gray")
    for name, options in (
        ("images", ("--data", tmp_path / "images", *form)),
        ("arrays", ("--data", tmp_path / "x.npz")),
    ):
        result = amct_tool("quantize", DIGITS / "digits.onnx", *options, *NAMED, "-o", tmp_path / name / "out")
        assert (result.status, result.err) == (0, "")
        assert calibrated(tmp_path / name / "out") == 29
    one, two = (tmp_path / name / "out" for name in ("images", "arrays"))
    assert (one / "digits_record.txt").read_text() == (two / "digits_record.txt").read_text()
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in (one, two)]
    assert summaries[0]["accuracy"] == summaries[1]["accuracy"]


def test_mistakes(amct_tool, tmp_path: Path) -> None:
    given = ("quantize", DIGITS / "digits.onnx", "--data", tmp_path, "-o", tmp_path / "out")
    for options, message in (
        (("--mean", "x"), "--mean: 'x' is not a list of numbers"),
        (
            ("--color", "gray"),
            "how the pixels of images become inputs must be specified\n  hint: --preprocess imagenet|",
        ),
        (("--preprocess", "vgg"), "preprocess: 'vgg' is not one of imagenet, caffe, tf, yolo"),
        (("--mean", "1"), "holds no images"),
        (("--data-types", "float32"), "holds no files"),
    ):
        result = amct_tool(*given, *options)
        assert (result.status, result.out) == (1, "")
        assert message in result.err
        assert not (tmp_path / "out").exists()


def test_an_endless_function_ends_with_batch_num(amct_tool, tmp_path: Path) -> None:
    image = f"np.load({str(DIGITS / 'calib.npz')!r})['image'][:1]"
    text = f"import numpy as np\nimage = {image}\ndef batches():\n    while True:\n        yield image\n"
    (tmp_path / "calib.py").write_text(text)
    data = ("--data", f"{tmp_path / 'calib.py'}:batches", "--batch-num", 20)
    result = amct_tool("quantize", DIGITS / "digits.onnx", *data, *NAMED, "-o", tmp_path / "out")
    assert (result.status, result.err) == (0, "")
    assert calibrated(tmp_path / "out") == 20
    assert "2 samples, held back" in result.out


@pytest.mark.slow
def test_batch_num_is_the_number_of_runs_that_calibrate(amct_tool, tmp_path: Path, images: np.ndarray) -> None:
    """By option and by configuration alike, also where it takes all of the data; what is left over measures."""
    np.savez(tmp_path / "x.npz", image=images)
    for count, measured in ((32, "the calibration samples"), (31, "1 sample, held back"), (20, "2 samples, held back")):
        (tmp_path / "c.cfg").write_text(f"batch_num: {count} common_config {{ hfmg_quantize {{ }} }}")
        (tmp_path / "d.cfg").write_text("batch_num: 1 common_config { hfmg_quantize { } }")
        records = []
        for options in (("--config", tmp_path / "c.cfg"), ("--config", tmp_path / "d.cfg", "--batch-num", count)):
            given = ("--data", tmp_path / "x.npz", *options, *NAMED, "-o", tmp_path / "out")
            result = amct_tool("quantize", DIGITS / "digits.onnx", *given)
            unused = 32 - count - 2
            warning = f"warning: batch_num {count} leaves samples for {unused} more runs unused\n" if unused > 0 else ""
            assert (result.status, result.err) == (0, warning)
            assert calibrated(tmp_path / "out") == count
            assert measured in result.out
            records.append((tmp_path / "out" / "digits_record.txt").read_text())
        assert records[0] == records[1]


def test_run_takes_a_single_array(amct_tool, tmp_path: Path, images: np.ndarray) -> None:
    np.save(tmp_path / "x.npy", images)
    result = amct_tool("run", DIGITS / "digits.onnx", "--data", tmp_path / "x.npy", "-o", tmp_path / "y.npz")
    assert result.status == 0
    assert "float32 [32, 10]" in result.out


def test_run_and_compare_take_images(amct_tool, tmp_path: Path, pixels: np.ndarray, images: np.ndarray) -> None:
    (tmp_path / "images").mkdir()
    for i, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / "images" / f"{i:02}.png")
    np.save(tmp_path / "x.npy", images)
    form = ("--mean", "100.5", "--std", "101.25")
    for data, options in (("x.npy", ()), ("images", form)):
        given = ("--data", tmp_path / data, *options)
        result = amct_tool("run", DIGITS / "digits.onnx", *given, "-o", tmp_path / f"{data}.npz")
        assert (result.status, result.err) == (0, "")
        result = amct_tool("compare", DIGITS / "digits.onnx", DIGITS / "digits.onnx", *given, "--json")
        assert json.loads(result.out)["outputs"]["logits"]["differing"] == 0
    one, two = (np.load(tmp_path / f"{data}.npz")["logits"] for data in ("x.npy", "images"))
    np.testing.assert_array_equal(one, two)
