"""Options for reading a model: each frontend takes the options that its format has a use for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from xdsl.dialects.builtin import DYNAMIC_INDEX

from ..diagnostics import CompileError
from ..session import ImportOptions

_FLAGS = {"shapes": "input-shape"}
"""Options of the command line that are not called as the field they fill."""


def take_only(options: ImportOptions, taken: Sequence[str], where: str, hint: str = "") -> None:
    """Raises CompileError, located at the model, when an option is given that is not among the fields `taken`."""
    given = [field.name for field in fields(options) if getattr(options, field.name)]
    if refused := [_FLAGS.get(name, name) for name in given if name not in taken]:
        raise CompileError(f"--{refused[0]} has no meaning for a model of this kind", where=where, hint=hint)


def overridden(
    name: str, given: Sequence[int] | None, declared: Sequence[int] | None, where: str
) -> tuple[int, ...] | None:
    """The shape of input `name`: what --input-shape gives, where it gives one, else what the model declares; None for neither.

    Sizes that are not known are negative in both, and DYNAMIC in the result; one that is given so makes a fixed size unknown.
    Raises CompileError, located at the model, for another rank or another fixed size than the model declares.
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
