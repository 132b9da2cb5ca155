"""Folders of images against arithmetic on their pixels."""

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from amct_opt.diagnostics import CompileError
from amct_opt.runtime.data import Form, ImageForm, image_size, load_samples

from .models import function

RGB = np.random.default_rng(0).integers(0, 256, (3, 4, 5, 3), np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three images of height 4 and width 5, saved in an order that is not theirs by name."""
    images = tmp_path / "images"
    images.mkdir()
    for i in (2, 0, 1):
        Image.fromarray(RGB[i]).save(images / f"{i}.png")
    return images


def load(folder: Path, arguments: str, form: ImageForm) -> np.ndarray:
    return np.concatenate([b["x"] for b in load_samples(folder, function(arguments), Form(image=form)).batches()])


def test_channels_first_normalized(folder: Path) -> None:
    mean, std = (1.0, 2.0, 3.0), (4.0, 5.0, 6.0)
    found = load(folder, "%x: tensor<?x3x4x5xf32>", ImageForm(mean, std, (4, 5), "NCHW"))
    expected = ((RGB - np.array(mean)) / np.array(std)).astype(np.float32).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(found, expected)


def test_channels_last_blue_first(folder: Path) -> None:
    found = load(folder, "%x: tensor<1x4x5x3xf32>", ImageForm((0.0,), (255.0,), (4, 5), "NHWC", "bgr"))
    np.testing.assert_array_equal(found, (RGB[..., ::-1] / 255.0).astype(np.float32))


def test_gray(folder: Path) -> None:
    found = load(folder, "%x: tensor<?x1x4x5xf32>", ImageForm((0.0,), (1.0,), (4, 5), "NCHW", "gray"))
    luma = RGB @ np.array([0.299, 0.587, 0.114])  # ITU-R 601
    np.testing.assert_allclose(found[:, 0], luma, atol=1)


def test_integers_take_pixels_as_they_are(folder: Path) -> None:
    found = load(folder, "%x: tensor<?x4x5x3xui8>", ImageForm((0.0,), (1.0,), (4, 5), "NHWC"))
    np.testing.assert_array_equal(found, RGB)
    with pytest.raises(CompileError, match="mean=0 std=1 takes pixels as they are"):
        load(folder, "%x: tensor<?x4x5x3xui8>", ImageForm((0.0,), (255.0,), (4, 5), "NHWC"))


def test_resized(tmp_path: Path) -> None:
    image = Image.fromarray(np.repeat(np.repeat(RGB[0], 2, 0), 3, 1))  # each pixel six times
    image.save(tmp_path / "a.png")
    found = load(tmp_path, "%x: tensor<?x4x5x3xf32>", ImageForm((0.0,), (1.0,), (4, 5), "NHWC"))
    assert found.shape == (1, 4, 5, 3)
    constant = Image.new("RGB", (9, 7), (10, 20, 30))
    constant.save(tmp_path / "a.png")
    found = load(tmp_path, "%x: tensor<?x2x6x3xf32>", ImageForm((0.0,), (1.0,), (2, 6), "NHWC"))
    np.testing.assert_array_equal(found, np.broadcast_to(np.float32([10, 20, 30]), (1, 2, 6, 3)))


def test_unreadable_images_are_named(folder: Path) -> None:
    (folder / "3.png").write_bytes(b"not an image")
    form = ImageForm((0.0,), (1.0,), (4, 5), "NHWC")
    with pytest.raises(CompileError, match=r"3.png: error: cannot be read as an image"):
        load(folder, "%x: tensor<?x4x5x3xf32>", form)
    Image.fromarray(np.zeros((4, 5), np.uint16)).save(folder / "3.png")
    with pytest.raises(CompileError, match=r"3.png: error: .* mode I;16, not of 8 bits"):
        load(folder, "%x: tensor<?x4x5x3xf32>", form)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("%x: tensor<?x3x4x4xf32>", r"input 'x' has shape \[3, 3, 4, 5\]"),
        ("%x: tensor<?x3x4x5xf32>, %y: tensor<?x3xf32>", "images are for a model with one input, this one has 2"),
    ],
)
def test_models_that_images_do_not_fit(folder: Path, arguments: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        load(folder, arguments, ImageForm((0.0,), (1.0,), (4, 5), "NCHW"))


def test_bad_descriptions() -> None:
    with pytest.raises(CompileError, match="mean has 2 values, rgb has 3 channels"):
        ImageForm((0.0, 1.0), (1.0,), (4, 5), "NCHW")
    with pytest.raises(CompileError, match="std has 3 values, gray has 1 channels"):
        ImageForm((0.0,), (1.0, 1.0, 1.0), (4, 5), "NCHW", "gray")
    with pytest.raises(CompileError, match="std is not positive"):
        ImageForm((0.0,), (0.0,), (4, 5), "NCHW")
    with pytest.raises(CompileError, match="mean is not finite"):
        ImageForm((float("nan"),), (1.0,), (4, 5), "NCHW")
    with pytest.raises(CompileError, match="'224' is not HEIGHTxWIDTH"):
        image_size("224")
    assert image_size("3x17") == (3, 17)
    with pytest.raises(CompileError, match="data-types applies to raw binaries"):
        Form(("float32",), image=ImageForm((0.0,), (1.0,), (4, 5), "NCHW"))


def test_without_pillow(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(CompileError, match=r"reading images requires pillow\n  hint: pip install 'amct-opt\[images\]'"):
        load(folder, "%x: tensor<?x3x4x5xf32>", ImageForm((0.0,), (1.0,), (4, 5), "NCHW"))
