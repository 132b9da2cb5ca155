"""Converts folders of images to inputs: resized, cropped or padded, normalized, laid out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..dialects.nn.shapes import text
from ..ir.dtypes import Tensor, is_float, numpy_dtype
from ..support.diagnostics import CompileError
from ..support.files import refuse_pipe
from .stored import Array

Layout = Literal["NCHW", "NHWC"]
Color = Literal["rgb", "bgr", "gray"]
Size = int | tuple[int, int]
"""A side, or height and width."""

_CHANNELS: Mapping[Color, int] = {"rgb": 3, "bgr": 3, "gray": 1}
_WHITE = 255
_FILL = 114
"""The gray around padded images, that of YOLO's letterbox."""

_BESIDE = frozenset((".csv", ".db", ".ini", ".json", ".md", ".npy", ".npz", ".txt", ".xml", ".yaml", ".yml"))
"""Endings of files that may be in a folder of images and are not read; every other file must be an image."""


@dataclass(frozen=True, kw_only=True)
class Preprocess:
    """The conversion of an image to an input: `(pixel * scale / 255 - mean) / std`, after it was brought to the input's size.

    Images are resized bilinearly; when they shrink, over all pixels (antialiasing), as torchvision does with PIL images.
    """

    resize: Size | None = None
    """The shorter side, with proportions kept; or height and width, without. By default images cover the crop."""
    crop: Size | None = None
    """The size of the centre that is cut out. By default that of the model's input."""
    pad: Size | Literal["input"] | None = None
    """The size that images are fitted into, in place of both, with proportions kept, centred on gray (letterbox)."""
    share: float = 1.0
    """The part of the shorter side that the crop leaves, without `resize`. Images that have the input's size are used whole."""
    scale: float = _WHITE
    """The value of white before mean and std: 255 or 1."""
    mean: tuple[float, ...] = (0.0,)
    """The mean for all channels, or one per channel, in the order of `color`."""
    std: tuple[float, ...] = (1.0,)
    color: Color | None = None
    """The order of channels. By default rgb, or gray if the input has one channel."""
    layout: Layout | None = None
    """The order of axes. By default, it follows from the shape of the input."""

    def __post_init__(self) -> None:
        """Raises CompileError for values that contradict each other."""
        for name, values in (("mean", self.mean), ("std", self.std)):
            if not np.isfinite(values).all():
                raise CompileError(f"{name} is not finite", option=name)
        for name, values in (("std", self.std), ("share", (self.share,))):
            if not all(v > 0 for v in values):
                raise CompileError(f"{name} is not positive", option=name)
        if self.scale not in (1, _WHITE):
            hint = "scale=1 makes white 1, scale=255 leaves pixels as they are; mean and std do the rest"
            raise CompileError(f"scale is the value of white, 1 or 255, not {self.scale:g}", hint=hint, option="scale")
        if self.pad is not None and (self.resize, self.crop) != (None, None):
            raise CompileError("pad takes the place of resize and crop: give one or the other", option="pad")
        if self.color is not None:
            self.check_channels(self.color)

    def check_channels(self, color: Color) -> None:
        """Raises CompileError if mean or std has another number of values than the image has channels."""
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (1, _CHANNELS[color]):
                message = f"{name} has {len(values)} values, {color} has {_CHANNELS[color]} channels"
                raise CompileError(message, option=name)

    @property
    def plain(self) -> bool:
        """Whether pixels are used unchanged."""
        return self.scale == _WHITE and not any(self.mean) and all(s == 1 for s in self.std)

    def normalized(self, pixels: Array) -> Array:
        """float64 [..., channels] from uint8 pixels."""
        return (pixels / (_WHITE / self.scale) - np.array(self.mean)) / np.array(self.std)


PRESETS: Mapping[str, Preprocess] = {
    "imagenet": Preprocess(share=0.875, scale=1, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
    "caffe": Preprocess(share=0.875, mean=(103.939, 116.779, 123.68), color="bgr"),
    "tf": Preprocess(share=0.875, scale=1, mean=(0.5,), std=(0.5,)),
    "yolo": Preprocess(pad="input", scale=1),
}
"""Presets by name: torchvision's classifiers; Caffe's, and Keras's of mode caffe; -1 to 1 (TensorFlow, timm's 0.5);
letterbox, 0 to 1.
"""


@dataclass(frozen=True)
class ImageRows:
    """Images of one folder, or of folders in it, in the form of an input."""

    folder: Path
    files: Sequence[Path]
    preprocess: Preprocess
    size: tuple[int, int]
    """Height and width of the input."""
    color: Color
    layout: Layout
    dtype: np.dtype[Any]
    """float32, or uint8 if pixels are used unchanged."""

    @property
    def shape(self) -> tuple[int, ...]:
        channels = (_CHANNELS[self.color],)
        return (len(self.files), *((*channels, *self.size) if self.layout == "NCHW" else (*self.size, *channels)))

    def read(self, start: int, stop: int) -> Array:
        return np.stack([self._image(f) for f in self.files[start:stop]])

    def _image(self, path: Path) -> Array:
        pixels = self._pixels(path)
        if self.dtype != np.uint8:
            pixels = self.preprocess.normalized(pixels).astype(self.dtype)
        return pixels.transpose(2, 0, 1) if self.layout == "NCHW" else pixels

    def _pixels(self, path: Path) -> Array:
        """An image's pixels, `[height, width, channel]`, uint8. Raises CompileError, located, if it cannot be read."""
        try:
            with _library(str(path)).open(path) as image:
                if image.mode in ("I", "F") or image.mode.startswith("I;"):
                    raise ValueError(f"its pixels are of mode {image.mode}, not of 8 bits")
                sized = brought_to(image.convert("L" if self.color == "gray" else "RGB"), self.size, self.preprocess)
        except Exception as e:  # every decoder raises other types
            raise CompileError(f"cannot be read as an image: {e}", where=str(path)) from None
        pixels = np.asarray(sized, np.uint8).reshape(*self.size, -1)
        return pixels[..., ::-1] if self.color == "bgr" else pixels

    def place(self, index: int) -> str:
        return str(self.files[index])


def image_rows(folder: Path, preprocess: Preprocess, types: Mapping[str, Tensor]) -> dict[str, ImageRows]:
    """The images for the only input.

    Raises CompileError, located, for several inputs, for an input that is not an image, and for a folder without images.
    """
    where = str(folder)
    if len(types) != 1:
        raise CompileError(f"images are for a model with one input, this one has {len(types)}", where=where)
    ((name, type_),) = types.items()
    floating = is_float(type_.element_type)
    if not floating and not preprocess.plain:
        hint = "scale=255 mean=0 std=1 takes pixels as they are"
        raise CompileError(f"input '{name}' takes {numpy_dtype(type_.element_type)}", where=where, hint=hint)
    _library(where)
    shape = type_.get_shape()
    if len(shape) not in (3, 4):
        raise CompileError(f"input '{name}' has shape {text(shape)}, not that of an image", where=where)
    layout, color = _form_of(shape[-3:], preprocess, where)
    preprocess.check_channels(color)
    height, width = shape[-2:] if layout == "NCHW" else shape[-3:-1]
    size = _size(height, width, preprocess, where)
    dtype = np.dtype(np.float32 if floating else np.uint8)
    return {name: ImageRows(folder, images_in(folder), preprocess, size, color, layout, dtype)}


def _form_of(shape: Sequence[int], preprocess: Preprocess, where: str) -> tuple[Layout, Color]:
    """The layout and the channels that an input `[channels, height, width]` or `[height, width, channels]` takes."""
    first, last = shape[0], shape[2]
    channels = {1, 3} if preprocess.color is None else {_CHANNELS[preprocess.color]}
    layout = preprocess.layout
    if layout is None:
        if (first in channels) == (last in channels):
            raise CompileError(f"{list(shape)} may be channels first or last", where=where, hint="layout=NCHW or NHWC")
        layout = "NCHW" if first in channels else "NHWC"
    count = first if layout == "NCHW" else last
    return layout, preprocess.color or ("gray" if count == 1 else "rgb")


def _size(height: int, width: int, preprocess: Preprocess, where: str) -> tuple[int, int]:
    """Height and width of inputs."""
    stretched = preprocess.resize if isinstance(preprocess.resize, tuple) else None
    given = preprocess.crop or stretched
    if given is None and min(height, width) > 0:
        given = height, width
    if isinstance(preprocess.pad, int | tuple):
        given = preprocess.pad
    if given is None:
        hint = "crop=224 gives it" if preprocess.pad is None else "pad=640 gives it"
        raise CompileError("the model leaves the size of images open", where=where, hint=hint)
    size = (given, given) if isinstance(given, int) else given
    least = preprocess.resize if isinstance(preprocess.resize, int) else max(size)
    if least < min(size):
        raise CompileError(f"resize={least} is smaller than the input of {size[0]}x{size[1]}", where=where)
    return size


def brought_to(image: Any, size: tuple[int, int], preprocess: Preprocess) -> Any:
    """A PIL image of this height and width."""
    width, height = image.size
    rows, columns = size
    if preprocess.pad is not None:
        ratio = min(rows / height, columns / width)
        fitted = _resized(image, round(height * ratio), round(width * ratio))
        return _cut(fitted, size, _FILL)
    if isinstance(preprocess.resize, tuple):
        return _cut(_resized(image, *preprocess.resize), size)
    if preprocess.resize is None and (height, width) == size:
        return image
    if preprocess.resize is not None:
        governing, side = min(height, width), preprocess.resize
    elif rows * width >= columns * height:
        governing, side = height, round(rows / preprocess.share)
    else:
        governing, side = width, round(columns / preprocess.share)
    return _cut(_resized(image, side * height // governing, side * width // governing), size)


def _resized(image: Any, height: int, width: int) -> Any:
    return image.resize((max(width, 1), max(height, 1)), _library("").Resampling.BILINEAR)


def _cut(image: Any, size: tuple[int, int], fill: int = 0) -> Any:
    """The centre of an image; a smaller image is centred on `fill`. Rounds as torchvision's CenterCrop."""
    (rows, columns), (width, height) = size, image.size
    if (height, width) == size:
        return image
    top, left = (round((n - m) / 2) if n >= m else -((m - n) // 2) for n, m in ((height, rows), (width, columns)))
    part = image.crop((max(left, 0), max(top, 0), min(left + columns, width), min(top + rows, height)))
    canvas = _library("").new(image.mode, (columns, rows), fill if image.mode == "L" else (fill,) * 3)
    canvas.paste(part, (max(-left, 0), max(-top, 0)))
    return canvas


def images_in(folder: Path) -> list[Path]:
    """The images of a folder, sorted by name; or of the folders in it, mixed evenly, so that every part has some of each.

    Hidden files and tables next to the images are left out. Raises CompileError, located, if there are none, and for a pipe.
    """
    if not folder.is_dir():
        raise CompileError("the folder does not exist", where=str(folder))
    groups: dict[Path, list[Path]] = {}
    for file in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
        if hidden or file.suffix.lower() in _BESIDE:
            continue
        refuse_pipe(file)
        if file.is_file():
            groups.setdefault(file.parent, []).append(file)
    if not groups:
        raise CompileError("holds no images", where=str(folder))
    placed = [((i + 0.5) / len(files), file) for files in groups.values() for i, file in enumerate(files)]
    return [file for _, file in sorted(placed)]


def _library(where: str) -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise CompileError(
            "reading images requires pillow", where=where, hint="pip install 'amct-opt[images]'"
        ) from None
    return Image


def image_size(text: str, what: str) -> Size:
    """`224x320` -> height 224, width 320; `224` -> 224. Raises CompileError for other text, given as the option `what`."""
    if not (match := re.fullmatch(r"([1-9]\d{0,4})(?:x([1-9]\d{0,4}))?", text)):
        message = f"{what}: '{text}' is neither SIDE nor HEIGHTxWIDTH"
        raise CompileError(message, hint=f"{what}=224 or {what}=224x320", option=what)
    return int(match[1]) if match[2] is None else (int(match[1]), int(match[2]))
