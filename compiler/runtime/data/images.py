"""Converts folders of images to inputs: resized, normalized, laid out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...diagnostics import CompileError
from ...ir.dtypes import Tensor, is_float, numpy_dtype
from .raw import files_of
from .rows import Array

Layout = Literal["NCHW", "NHWC"]
Color = Literal["rgb", "bgr", "gray"]


@dataclass(frozen=True)
class ImageForm:
    """The conversion of an image to an input: `(pixel - mean) / std`, pixels of 0 to 255, values for all channels or for each."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    size: tuple[int, int]
    """Height and width; images are resized bilinearly, without keeping their proportions."""
    layout: Layout
    color: Color = "rgb"

    def __post_init__(self) -> None:
        channels = 1 if self.color == "gray" else 3
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (1, channels):
                raise CompileError(f"{name} has {len(values)} values, {self.color} has {channels} channels")
            if not np.isfinite(values).all():
                raise CompileError(f"{name} is not finite")
        if not all(s > 0 for s in self.std):
            raise CompileError("std is not positive")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one image."""
        channels = (1 if self.color == "gray" else 3,)
        return (*channels, *self.size) if self.layout == "NCHW" else (*self.size, *channels)

    @property
    def plain(self) -> bool:
        """Whether pixels are used unchanged."""
        return not any(self.mean) and all(s == 1 for s in self.std)


@dataclass(frozen=True)
class ImageRows:
    """The images of a folder, sorted by name."""

    files: Sequence[Path]
    form: ImageForm
    dtype: np.dtype[Any]
    """float32, or uint8 if pixels are used unchanged."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.files), *self.form.shape)

    def read(self, start: int, stop: int) -> Array:
        return np.stack([self._image(f) for f in self.files[start:stop]])

    def _image(self, path: Path) -> Array:
        pixels = _pixels(path, self.form)
        if self.dtype != np.uint8:
            mean, std = np.array(self.form.mean), np.array(self.form.std)
            pixels = ((pixels - mean) / std).astype(self.dtype)
        return pixels.transpose(2, 0, 1) if self.form.layout == "NCHW" else pixels

    def place(self, index: int) -> str:
        return str(self.files[index])


def image_rows(folder: Path, form: ImageForm, types: Mapping[str, Tensor]) -> dict[str, ImageRows]:
    """The images for the only input. Raises CompileError, located, for several inputs or a folder without files."""
    if len(types) != 1:
        raise CompileError(f"images are for a model with one input, this one has {len(types)}", where=str(folder))
    ((name, type_),) = types.items()
    floating = is_float(type_.element_type)
    if not floating and not form.plain:
        hint = "mean=0 std=1 takes pixels as they are"
        raise CompileError(f"input '{name}' takes {numpy_dtype(type_.element_type)}", where=str(folder), hint=hint)
    _library(str(folder))
    return {name: ImageRows(files_of(folder), form, np.dtype(np.float32 if floating else np.uint8))}


def _library(where: str) -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise CompileError(
            "reading images requires pillow", where=where, hint="pip install 'amct-opt[images]'"
        ) from None
    return Image


def _pixels(path: Path, form: ImageForm) -> Array:
    """An image's pixels, `[height, width, channel]`, uint8."""
    library = _library(str(path))
    try:
        with library.open(path) as image:
            if image.mode in ("I", "F") or image.mode.startswith("I;"):
                raise ValueError(f"its pixels are of mode {image.mode}, not of 8 bits")
            mode = "L" if form.color == "gray" else "RGB"
            height, width = form.size
            resized = image.convert(mode).resize((width, height), library.Resampling.BILINEAR)
    except Exception as e:  # every decoder raises other types
        raise CompileError(f"cannot be read as an image: {e}", where=str(path)) from None
    pixels = np.asarray(resized, np.uint8).reshape(height, width, -1)
    return pixels[..., ::-1] if form.color == "bgr" else pixels


def image_size(text: str) -> tuple[int, int]:
    """`224x320` -> height 224, width 320. Raises CompileError for other text."""
    if not (match := re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text)):
        raise CompileError(f"resize: '{text}' is not HEIGHTxWIDTH", hint="resize=224x224")
    return int(match[1]), int(match[2])
