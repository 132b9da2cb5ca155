"""Lines and pages of text, rendered: what the OCR networks of the zoo read, with what stands there as label."""

from __future__ import annotations

import io
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

Array = np.ndarray[Any, np.dtype[Any]]
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

_ONSETS = (*"bcdfghjklmnprstvwyz", "br", "ch", "dr", "fl", "gr", "pl", "qu", "sh", "st", "th", "tr")
_VOWELS = (*"aeiou", "ai", "ea", "ee", "io", "ou")
_ENDS = (*"lmnrst", "", "", "ck", "nd", "ng", "st")


class Page(NamedTuple):
    image: Image.Image
    boxes: list[tuple[int, int, int, int]]
    """The box of each line: left, top, right, bottom in pixels."""


def words(rng: np.random.Generator, length: int) -> str:
    """A text of at most `length` characters: words, numbers, dates, prices and codes."""
    text = ""
    while True:
        longer = f"{text} {_word(rng)}".strip()
        if len(longer) > length:
            return text or longer[:length].strip()
        text = longer


def _word(rng: np.random.Generator) -> str:
    kind = rng.random()
    if kind < 0.6:
        word = "".join(_syllable(rng) for _ in range(rng.integers(1, 4)))
        return (word, word.capitalize(), word.upper())[int(rng.choice(3, p=(0.6, 0.3, 0.1)))]
    if kind < 0.7:
        return str(rng.integers(1, 100000))
    if kind < 0.8:
        return f"{rng.integers(1, 32):02}.{rng.integers(1, 13):02}.{rng.integers(1950, 2030)}"
    if kind < 0.9:
        return f"${rng.integers(1, 1000)}.{rng.integers(0, 100):02}"
    return "".join(rng.choice(list("ABCDEFGHKLMNPRSTUVWXYZ23456789-"), rng.integers(3, 8)))


def _syllable(rng: np.random.Generator) -> str:
    return "".join(str(rng.choice(part)) for part in (_ONSETS, _VOWELS, _ENDS))


@cache
def font_files() -> list[Path]:
    """DejaVu's text fonts, as matplotlib ships them."""
    spec = find_spec("matplotlib")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf"
    return sorted(p for p in folder.glob("DejaVu*.ttf") if "Display" not in p.name)


def font(rng: np.random.Generator, size: int) -> Font:
    """PIL's own font, or one of DejaVu's."""
    number = int(rng.integers(len(font_files()) + 1))
    return (
        ImageFont.load_default(size) if number == len(font_files()) else ImageFont.truetype(font_files()[number], size)
    )


def line(rng: np.random.Generator, text: str) -> Image.Image:
    """The text in one line, dark on light or the other way round; turned, blurred, noisy, compressed."""
    chosen = font(rng, int(rng.integers(16, 40)))
    left, top, right, bottom = (int(v) for v in chosen.getbbox(text))
    margins = rng.integers(2, 8, 4)
    size = right - left + int(margins[:2].sum()), bottom - top + int(margins[2:].sum())
    paper, ink = colours(rng)
    image = Image.new("RGB", size, paper)
    ImageDraw.Draw(image).text((margins[0] - left, margins[2] - top), text, ink, chosen)
    image = image.rotate(float(rng.normal(0, 1.0)), Image.Resampling.BICUBIC, fillcolor=paper)
    return damaged(rng, image)


def page(rng: np.random.Generator, side: int) -> Page:
    """A square page of lines, one below the other."""
    paper, ink = colours(rng)
    image, boxes = Image.new("RGB", (side, side), paper), []
    draw, y = ImageDraw.Draw(image), int(rng.integers(4, 40))
    while True:
        chosen = font(rng, int(rng.integers(14, 32)))
        text = words(rng, int(rng.integers(4, 20)))
        left, top, right, bottom = (int(v) for v in chosen.getbbox(text))
        if y + bottom - top > side - 4:
            return Page(damaged(rng, image), boxes)
        x = int(rng.integers(4, max(5, side - 4 - (right - left))))
        if x + right - left < side:
            draw.text((x - left, y - top), text, ink, chosen)
            boxes.append((x, y, x + right - left, y + bottom - top))
        y += bottom - top + int(rng.integers(8, 48))


def colours(rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Paper and ink, at least 50 of 255 levels apart."""
    while True:
        paper, ink = rng.integers(0, 256, (2, 3))
        if abs(int(paper.mean()) - int(ink.mean())) >= 50:
            return tuple(map(int, paper)), tuple(map(int, ink))


def damaged(rng: np.random.Generator, image: Image.Image) -> Image.Image:
    """Out of focus, noisy, and as JPEG: each by as much as chance has it."""
    image = image.filter(ImageFilter.GaussianBlur(float(rng.uniform(0, 1.3))))
    pixels = np.asarray(image, np.float32)
    pixels = pixels + rng.normal(0, rng.uniform(0, 25), pixels.shape)
    stream = io.BytesIO()
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(stream, "JPEG", quality=int(rng.integers(30, 95)))
    return Image.open(stream).convert("RGB")


def fitted(image: Image.Image, height: int, width: int) -> Array:
    """As PP-OCR takes a line, float32 [3, height, width]: BGR in [-1, 1], the height filled, the right side padded with 0."""
    wide = min(width, max(1, -(-height * image.width // image.height)))
    pixels = np.asarray(image.resize((wide, height), Image.Resampling.BILINEAR), np.float32)
    result = np.zeros((3, height, width), np.float32)
    result[:, :, :wide] = normalized(pixels)
    return result


def normalized(pixels: Array) -> Array:
    """RGB [H, W, 3] of 0 to 255 as BGR [3, H, W] in [-1, 1]."""
    return pixels[..., ::-1].transpose(2, 0, 1) / 127.5 - 1
