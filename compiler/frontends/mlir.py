"""Reading module text; arrays come from the side file beside it."""

from __future__ import annotations

from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ..diagnostics import CompileError
from ..session import Session
from ..text import parse_module


def read(path: Path, session: Session) -> ModuleOp:
    try:
        text = path.read_text("utf-8")
    except OSError as e:
        raise CompileError(f"cannot be read: {e.strerror}", where=str(path)) from None
    except UnicodeDecodeError:
        raise CompileError("is no UTF-8 text", where=str(path)) from None
    return parse_module(session, text, str(path))
