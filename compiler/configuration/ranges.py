"""Checks of values, by the name of their setting. Each raises CompileError."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ..diagnostics import CompileError


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
