"""Reads module text; arrays come from the side file beside it."""

from __future__ import annotations

from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ..ir.text import parse_module, read_text
from ..session import ImportOptions, Session
from .options import take_only


def read(path: Path, session: Session) -> ModuleOp:
    """A module from its text. Raises CompileError for options, and, located, for text that is not a module."""
    refuse_options(session.imports, str(path))
    return parse_module(session, read_text(path), str(path))


def refuse_options(options: ImportOptions, where: str) -> None:
    """Raises CompileError for any option of import: a module is already imported."""
    hint = "--infer-shapes=input-shape=x:1x3x?x? sets sizes of a module's inputs" if options.shapes else ""
    take_only(options, (), where, hint)
