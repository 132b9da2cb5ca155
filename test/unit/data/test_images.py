"""Folders of images against arithmetic on their pixels."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from amct_opt.data import PRESETS, Form, Preprocess, image_size, load_samples
from amct_opt.data.images import brought_to, images_in
from amct_opt.support.diagnostics import CompileError

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


def load(folder: Path, arguments: str, form: Preprocess) -> np.ndarray:
    return np.concatenate([b["x"] for b in load_samples(folder, function(arguments), Form(image=form)).batches()])


def test_channels_first_normalized(folder: Path) -> None:
    mean, std = (1.0, 2.0, 3.0), (4.0, 5.0, 6.0)
    found = load(folder, "%x: tensor<?x3x4x5xf32>", Preprocess(mean=mean, std=std, resize=(4, 5)))
    expected = ((RGB - np.array(mean)) / np.array(std)).astype(np.float32).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(found, expected)


def test_channels_last_blue_first(folder: Path) -> None:
    found = load(folder, "%x: tensor<1x4x5x3xf32>", Preprocess(mean=(0.0,), std=(255.0,), resize=(4, 5), color="bgr"))
    np.testing.assert_array_equal(found, (RGB[..., ::-1] / 255.0).astype(np.float32))


def test_gray(folder: Path) -> None:
    found = load(folder, "%x: tensor<?x1x4x5xf32>", Preprocess(mean=(0.0,), std=(1.0,), resize=(4, 5), color="gray"))
    luma = RGB @ np.array([0.299, 0.587, 0.114])  # ITU-R 601
    np.testing.assert_allclose(found[:, 0], luma, atol=1)


def test_integers_take_pixels_as_they_are(folder: Path) -> None:
    found = load(folder, "%x: tensor<?x4x5x3xui8>", Preprocess(mean=(0.0,), std=(1.0,), resize=(4, 5)))
    np.testing.assert_array_equal(found, RGB)
    with pytest.raises(CompileError, match="mean=0 std=1 takes pixels as they are"):
        load(folder, "%x: tensor<?x4x5x3xui8>", Preprocess(mean=(0.0,), std=(255.0,), resize=(4, 5)))


def test_resized(tmp_path: Path) -> None:
    image = Image.fromarray(np.repeat(np.repeat(RGB[0], 2, 0), 3, 1))  # each pixel six times
    image.save(tmp_path / "a.png")
    found = load(tmp_path, "%x: tensor<?x4x5x3xf32>", Preprocess(mean=(0.0,), std=(1.0,), resize=(4, 5)))
    assert found.shape == (1, 4, 5, 3)
    constant = Image.new("RGB", (9, 7), (10, 20, 30))
    constant.save(tmp_path / "a.png")
    found = load(tmp_path, "%x: tensor<?x2x6x3xf32>", Preprocess(mean=(0.0,), std=(1.0,), resize=(2, 6)))
    np.testing.assert_array_equal(found, np.broadcast_to(np.array([10, 20, 30], np.float32), (1, 2, 6, 3)))


def test_unreadable_images_are_named(folder: Path) -> None:
    (folder / "3.png").write_bytes(b"not an image")
    form = Preprocess(mean=(0.0,), std=(1.0,), resize=(4, 5))
    with pytest.raises(CompileError, match=r"3.png: error: cannot be read as an image"):
        load(folder, "%x: tensor<?x4x5x3xf32>", form)
    Image.fromarray(np.zeros((4, 5), np.uint16)).save(folder / "3.png")
    with pytest.raises(CompileError, match=r"3.png: error: .* mode I;16, not of 8 bits"):
        load(folder, "%x: tensor<?x4x5x3xf32>", form)


def triangle(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """Bilinear with antialiasing, by its definition: a triangle of at least one pixel on either side."""
    for axis, size in enumerate((height, width)):
        ratio = pixels.shape[axis] / size
        centre = (np.arange(size)[:, None] + 0.5) * ratio
        reach = np.abs(np.arange(pixels.shape[axis]) + 0.5 - centre) / max(ratio, 1)
        weights = np.maximum(0, 1 - reach)
        weights /= weights.sum(1, keepdims=True)
        pixels = np.moveaxis(np.tensordot(weights, pixels, (1, axis)), 0, axis)
    return pixels


def cut(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    top, left = (round((n - m) / 2) for n, m in zip(pixels.shape, (height, width), strict=False))
    return pixels[top : top + height, left : left + width]


@pytest.mark.parametrize(
    ("preprocess", "expected"),
    [
        # torchvision: Resize(256), CenterCrop(224), at an eighth of the size
        (PRESETS["imagenet"], lambda x: cut(triangle(x, 32, 32 * 61 // 41), 28, 28)),
        (Preprocess(resize=30), lambda x: cut(triangle(x, 30, 30 * 61 // 41), 28, 28)),
        (Preprocess(), lambda x: cut(triangle(x, 28, 28 * 61 // 41), 28, 28)),
        (Preprocess(resize=(28, 28)), lambda x: triangle(x, 28, 28)),
        (Preprocess(resize=(50, 40)), lambda x: cut(triangle(x, 50, 40), 28, 28)),
        (PRESETS["yolo"], lambda x: np.pad(triangle(x, 19, 28), ((4, 5), (0, 0), (0, 0)), constant_values=114)),
    ],
)
def test_geometry(preprocess: Preprocess, expected) -> None:
    """A photo of 41x61 for an input of 28x28, also on its side."""
    pixels = np.random.default_rng(1).integers(0, 256, (41, 61, 3), np.uint8)
    found = np.asarray(brought_to(Image.fromarray(pixels), (28, 28), preprocess))
    assert np.abs(found - expected(pixels.astype(float))).max() <= 1
    if not isinstance(preprocess.resize, tuple):
        turned = brought_to(Image.fromarray(pixels.transpose(1, 0, 2)), (28, 28), preprocess)
        np.testing.assert_allclose(np.asarray(turned), found.transpose(1, 0, 2), atol=1)


def test_an_image_of_the_inputs_size_is_used_whole() -> None:
    """Enlarging it by 256/224 to cut its border off would only lose some of it; `resize` asks for that."""
    image = Image.fromarray(RGB[0])
    np.testing.assert_array_equal(np.asarray(brought_to(image, (4, 5), PRESETS["imagenet"])), RGB[0])
    assert not np.array_equal(np.asarray(brought_to(image, (4, 5), Preprocess(resize=5))), RGB[0])


def test_images_smaller_than_the_crop_are_centred(tmp_path: Path) -> None:
    Image.fromarray(RGB[0][:, :2]).save(tmp_path / "narrow.png")
    found = load(tmp_path, "%x: tensor<?x4x5x3xf32>", Preprocess(resize=(4, 2), crop=(4, 5)))
    np.testing.assert_array_equal(found[0], np.pad(RGB[0][:, :2], ((0, 0), (1, 2), (0, 0))).astype(np.float32))


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("imagenet", lambda x: (x / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]),
        ("caffe", lambda x: x[..., ::-1] - [103.939, 116.779, 123.68]),
        ("tf", lambda x: x / 127.5 - 1),
        ("yolo", lambda x: x / 255),
    ],
)
def test_presets(folder: Path, name: str, formula) -> None:
    found = load(folder, "%x: tensor<?x3x4x5xf32>", PRESETS[name])
    np.testing.assert_allclose(found.transpose(0, 2, 3, 1), formula(RGB.astype(float)), rtol=1e-6, atol=1e-6)


def test_layout_and_channels_follow_from_the_input(folder: Path) -> None:
    whole = Preprocess(scale=1)
    first, last = load(folder, "%x: tensor<?x3x4x5xf32>", whole), load(folder, "%x: tensor<?x4x5x3xf32>", whole)
    np.testing.assert_array_equal(first.transpose(0, 2, 3, 1), last)
    assert load(folder, "%x: tensor<?x1x4x5xf32>", whole).shape == (3, 1, 4, 5)
    assert load(folder, "%x: tensor<4x5x3xf32>", Preprocess()).shape == (12, 5, 3)  # an image is a whole input
    for arguments, form, message in (
        ("%x: tensor<?x3x3x3xf32>", whole, r"\[3, 3, 3\] may be channels first or last\n  hint: layout=NCHW or NHWC"),
        ("%x: tensor<?x?x?x3xf32>", whole, r"leaves the size of images open\n  hint: crop=224"),
        ("%x: tensor<?x?x?x3xf32>", PRESETS["yolo"], r"leaves the size of images open\n  hint: pad=640"),
        ("%x: tensor<?x7xf32>", whole, r"input 'x' has shape \[\?, 7\], not that of an image"),
        ("%x: tensor<?x1x4x5xf32>", PRESETS["imagenet"], "mean has 3 values, gray has 1 channels"),
        ("%x: tensor<?x3x4x5xf32>", Preprocess(resize=3), "resize=3 is smaller than the input of 4x5"),
    ):
        with pytest.raises(CompileError, match=message):
            load(folder, arguments, form)
    assert load(folder, "%x: tensor<?x?x?x3xf32>", Preprocess(crop=4)).shape == (3, 4, 4, 3)
    assert load(folder, "%x: tensor<?x?x?x3xf32>", Preprocess(pad=(8, 9))).shape == (3, 8, 9, 3)


def test_folders_of_folders_are_mixed_evenly(tmp_path: Path) -> None:
    """Any part of the samples has its share of every folder: what is held back from calibration has all classes."""
    for name, count in (("cat", 2), ("dog", 6), (".git", 3)):
        for i in range(count):
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / f"{i}.png").touch()
    for beside in ("labels.csv", "cat/notes.txt", ".hidden"):
        (tmp_path / beside).touch()
    found = [f"{path.parent.name}{path.stem}" for path in images_in(tmp_path)]
    assert found == ["dog0", "cat0", "dog1", "dog2", "dog3", "cat1", "dog4", "dog5"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(CompileError, match="holds no images"):
        images_in(tmp_path / "empty")
    os.mkfifo(tmp_path / "empty" / "pipe.png")
    for above in (tmp_path / "empty", tmp_path):
        with pytest.raises(CompileError, match=r"empty/pipe\.png: error: is a pipe, not a file"):
            images_in(above)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("%x: tensor<?x3x4x4xf32>", r"input 'x' has shape \[3, 3, 4, 5\]"),
        ("%x: tensor<?x3x4x5xf32>, %y: tensor<?x3xf32>", "images are for a model with one input, this one has 2"),
    ],
)
def test_models_that_images_do_not_fit(folder: Path, arguments: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        load(folder, arguments, Preprocess(mean=(0.0,), std=(1.0,), resize=(4, 5)))


def test_bad_descriptions() -> None:
    with pytest.raises(CompileError, match="mean has 2 values, rgb has 3 channels"):
        Preprocess(mean=(0.0, 1.0), color="rgb")
    with pytest.raises(CompileError, match="std has 3 values, gray has 1 channels"):
        Preprocess(std=(1.0, 1.0, 1.0), color="gray")
    with pytest.raises(CompileError, match="std is not positive"):
        Preprocess(std=(0.0,))
    with pytest.raises(CompileError, match="mean is not finite"):
        Preprocess(mean=(float("nan"),))
    for scale in (-1, 0.0039, 1 / 255, float("nan")):
        with pytest.raises(CompileError, match="scale is the value of white, 1 or 255, not"):
            Preprocess(scale=scale)
    with pytest.raises(CompileError, match="pad takes the place of resize and crop"):
        Preprocess(pad=640, crop=224)
    with pytest.raises(CompileError, match="resize: '224x' is neither SIDE nor HEIGHTxWIDTH\n  hint: resize=224 or"):
        image_size("224x", "resize")
    assert image_size("3x17", "resize") == (3, 17)
    assert image_size("224", "crop") == 224
    with pytest.raises(CompileError, match="data-types applies to raw binaries"):
        Form(("float32",), image=Preprocess(mean=(0.0,), std=(1.0,), resize=(4, 5)))


def test_without_pillow(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(CompileError, match=r"reading images requires pillow\n  hint: pip install 'amct-opt\[images\]'"):
        load(folder, "%x: tensor<?x3x4x5xf32>", Preprocess(mean=(0.0,), std=(1.0,), resize=(4, 5)))
