"""Checks of the numbers that a setting takes, by the name of the setting. Each check raises CompileError."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from ..support.diagnostics import CompileError

Bits = Literal[4, 8, 16]
"""Bits of activations."""
WeightBits = Literal[2, 3, 4, 6, 7, 8]
ALONE: tuple[WeightBits, ...] = 2, 3, 4, 8
"""Bits of weights that are quantized by themselves; 2 only in groups."""
WITH_INPUT: tuple[WeightBits, ...] = 3, 4, 6, 7, 8
"""Bits of weights that their layers multiply by integers, if the layer's type takes fewer than 8."""
PACKED: tuple[WeightBits, ...] = 3, 4
"""The bits of `WITH_INPUT` that AMCT for PyTorch stores as INT4, two in a byte."""
GroupSize = Literal[16, 32, 64, 128, 256]
"""Sizes of groups of input channels: those of onnxruntime's MatMulNBits."""


def no_repetition(setting: str, names: Iterable[str]) -> None:
    """Raises CompileError for a duplicate name, and for one name in place of a list."""
    if isinstance(names, str):
        raise CompileError(
            f"{setting} is the text '{names}', not several names", hint=f"write ('{names}',)", option=setting
        )
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise CompileError(f"{setting} names '{repeated[0]}' twice", option=setting)


def one_of(setting: str, value: int, choices: Iterable[int]) -> None:
    """Raises CompileError for a number that is not one of the choices."""
    if value not in choices:
        raise CompileError(f"{setting} must be one of {', '.join(map(str, choices))}, not {value}", option=setting)


def at_least(setting: str, value: int, least: int) -> None:
    """Raises CompileError for a number that is too small."""
    if value < least:
        raise CompileError(f"{setting} must be at least {least}, not {value}", option=setting)


def within(setting: str, value: float, low: float, high: float, *, closed: bool = False) -> None:
    """Raises CompileError unless `low < value < high`; `closed` includes the ends. NaN always raises."""
    if not (low < value < high or (closed and value in (low, high))):
        left, right = "[]" if closed else "()"
        raise CompileError(f"{setting} must lie in {left}{low:g}, {high:g}{right}, not {value:g}", option=setting)
