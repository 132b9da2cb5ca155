"""Floats as text: the shortest decimal that reads back as the same number."""

from __future__ import annotations

import math
import struct

from xdsl.parser import AttrParser


def f32(value: float) -> float:
    """The nearest float32, infinite beyond its range."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def f32_text(value: float) -> str:
    """The shortest decimal (6 to 9 digits, always with a point) that reads back as the same float32; `inf`, `nan` as words."""
    return _shortest(value, "<f", range(6, 10))


def f64_text(value: float) -> str:
    """Like `f32_text`, for float64 (up to 17 digits)."""
    return _shortest(value, "<d", range(6, 18))


def _shortest(value: float, form: str, digits: range) -> str:
    if not math.isfinite(value):
        return repr(value)
    wanted = struct.pack(form, value)
    text = next(t for d in digits if struct.pack(form, float(t := f"{value:.{d}g}")) == wanted)
    mantissa, e, exponent = text.partition("e")
    return (mantissa if "." in mantissa else mantissa + ".0") + e + exponent


def parse_f64(parser: AttrParser) -> float:
    """A decimal, or one of the words `inf`, `-inf`, `nan`."""
    start = parser.pos
    negative = parser.parse_optional_punctuation("-") is not None
    if (word := parser.parse_optional_keyword_in(("inf", "nan"))) is not None:
        value = float(word)
    else:
        number = parser.parse_number()
        value = float(number) if abs(number) <= _LARGEST else math.inf
        if math.isinf(value):
            parser.raise_error("number is out of range", start, parser.pos)
    return -value if negative else value


_LARGEST = 1.7976931348623157e308


def parse_f32(parser: AttrParser) -> float:
    """Like `parse_f64`, rounded to float32. A finite number beyond the range of float32 is an error."""
    start = parser.pos
    value = parse_f64(parser)
    rounded = f32(value)
    if math.isinf(rounded) and not math.isinf(value):
        parser.raise_error("number is out of range", start, parser.pos)
    return rounded
