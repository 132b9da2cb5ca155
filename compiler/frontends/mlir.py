"""Reads module text; arrays come from the side file next to it."""

from __future__ import annotations

from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ..ir.text import parse_module, read_text
from ..session import ImportOptions, Session
from .options import take_only


def read(path: Path, session: Session) -> ModuleOp:
    """A module from its text. Raises CompileError for options, and, located, for text that is not a module."""
    refuse_options(session.imports, str(path))
    return parse(session, read_text(path), str(path))


def parse(session: Session, text: str, name: str, line_offset: int = 0) -> ModuleOp:
    """A module from its text. What other compilers write around nn is converted (`--standard-to-nn`).

    `name` is the file in locations and errors. Raises CompileError, located at line and column.
    """
    module = parse_module(session, text, name, line_offset)
    if any(op.name.startswith(_STANDARD) for op in module.walk()):
        from ..transforms.standard_to_nn import StandardToNnPass

        StandardToNnPass().apply(session, module)
    return module


_STANDARD = ("arith.", "math.", "tensor.", "func.call")


def refuse_options(options: ImportOptions, where: str) -> None:
    """Raises CompileError for any option of import: a module is already imported."""
    hint = "--infer-shapes=input-shape=x:1x3x?x? sets sizes of a module's inputs" if options.shapes else ""
    take_only(options, (), where, hint)
