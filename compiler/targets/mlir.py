"""Module text, with its arrays in a safetensors side file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ..ir.text import write_module
from ..ir.weights import side_file_of
from ..session import Session
from ..support.diagnostics import CompileError
from . import Target


@dataclass(frozen=True)
class MlirTarget(Target):
    """Module text, and its arrays in a safetensors file next to it."""

    name = "mlir"
    ending = ".mlir"

    generic: bool = False
    locations: bool = False

    def files(self, path: Path) -> list[Path]:
        return [path, side_file_of(path)]

    def write(self, module: ModuleOp, path: Path, session: Session) -> list[Path]:
        check_ending(path, session)
        return write_module(module, path, generic=self.generic, locations=self.locations)


def check_ending(path: Path, session: Session) -> None:
    """Raises CompileError for the ending of another format: module text in such a file could not be read back."""
    ending = path.suffix.lower()
    if ending == MlirTarget.ending or ending not in session.frontends:
        return
    writers = [name for name in session.targets if session.targets[name].ending == ending]
    hint = f"-t {' or -t '.join(writers)} writes such files" if writers else f"name it {path.stem}{MlirTarget.ending}"
    raise CompileError(
        "the target mlir writes module text, which a file of this ending is not", where=str(path), hint=hint
    )
