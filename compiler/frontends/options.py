"""Options for reading a model: each frontend accepts those that apply to its format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from xdsl.dialects.builtin import DYNAMIC_INDEX

from ..session import ImportOptions
from ..support.diagnostics import CompileError

_FLAGS = {"shapes": "input-shape", "values": "input-value", "carried": "carry"}
"""Options of the command line whose names differ from their fields."""


def take_only(options: ImportOptions, taken: Sequence[str], where: str, hint: str = "") -> None:
    """Raises CompileError, located at the model, if an option is given that is not among the fields `taken`."""
    given = [field.name for field in fields(options) if getattr(options, field.name)]
    if refused := [_FLAGS.get(name, name) for name in given if name not in taken]:
        raise CompileError(f"--{refused[0]} has no meaning for a model of this kind", where=where, hint=hint)


def overridden(
    name: str, given: Sequence[int] | None, declared: Sequence[int] | None, where: str
) -> tuple[int, ...] | None:
    """The shape of input `name`: from --input-shape, otherwise from the model; None if there is neither.

    Unknown sizes are negative in both, and DYNAMIC in the result; a negative size in the option makes a fixed size unknown.
    Raises CompileError, located at the model, if the rank or a fixed size differs from the model's.
    """
    if given is not None and declared is not None and not _agree(given, declared):
        message = f"--input-shape gives {_text(given)} for input '{name}', the model declares {_text(declared)}"
        raise CompileError(message, where=where)
    shape = declared if given is None else given
    return None if shape is None else tuple(d if d >= 0 else DYNAMIC_INDEX for d in shape)


def _agree(a: Sequence[int], b: Sequence[int]) -> bool:
    return len(a) == len(b) and all(x == y or min(x, y) < 0 for x, y in zip(a, b, strict=True))


def _text(shape: Sequence[int]) -> str:
    return "[" + ", ".join(str(d) if d >= 0 else "?" for d in shape) + "]"
