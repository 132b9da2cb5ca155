"""Executes Python files that the user names; errors are located in them."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..support.diagnostics import CompileError, first_line

MODULE = "amct_script"
"""The value of `__name__` while a file is executed."""


def load_script(path: Path) -> dict[str, Any]:
    """The names that a file defines. Raises CompileError, located in it, if it fails."""
    if not path.is_file():
        raise CompileError("there is no such file", where=str(path))
    with running(path):
        return runpy.run_path(str(path), run_name=MODULE)


@contextmanager
def running(path: Path) -> Generator[None]:
    """A context for code of a file: it can import modules next to it, and its exceptions become CompileErrors at its line."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    except CompileError:
        raise
    except (Exception, SystemExit) as e:
        lines = [frame.lineno for frame in traceback.extract_tb(e.__traceback__) if frame.filename == str(path)]
        if isinstance(e, SyntaxError) and e.filename == str(path):
            lines.append(e.lineno)
        where = f"{path}:{lines[-1]}" if lines else str(path)
        message = e.msg if isinstance(e, SyntaxError) else first_line(e)
        raise CompileError(f"{type(e).__name__}: {message}", where=where) from None
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
