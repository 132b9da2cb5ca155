"""Frontends: a model file in, a module in `nn` out, folded and shape-inferred. One package or file per format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from xdsl.dialects.builtin import ModuleOp

if TYPE_CHECKING:
    from ..session import Session


class Frontend(Protocol):
    def __call__(self, path: Path, session: Session) -> ModuleOp:
        """Read the model at `path`. Raises CompileError, located in the file, for anything it cannot take."""
        ...


def read(path: Path, session: Session) -> ModuleOp:
    """Read a model or module file, by its ending. Raises CompileError for an unknown ending or an unreadable file."""
    from ..diagnostics import CompileError
    from ..universe import FRONTENDS, frontend_for

    if path.is_dir():
        raise CompileError("is a folder, not a model file", where=str(path))
    ending = path.suffix.lower()
    if ending not in FRONTENDS:
        known = ", ".join(sorted(FRONTENDS))
        raise CompileError(f"unknown file ending '{ending}'", where=str(path), hint=f"known are {known}")
    return frontend_for(ending)(path, session)
