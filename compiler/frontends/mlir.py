"""Reading module text; arrays come from the side file beside it."""

from __future__ import annotations

from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ..session import Session
from ..text import parse_module, read_text


def read(path: Path, session: Session) -> ModuleOp:
    return parse_module(session, read_text(path), str(path))
