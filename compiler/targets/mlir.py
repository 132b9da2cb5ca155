"""Module text, with its arrays in a safetensors file beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ..ir.text import write_module
from ..ir.weights import side_file_of
from ..session import Session
from . import Target


@dataclass(frozen=True)
class MlirTarget(Target):
    """Module text, and its arrays in a safetensors file beside it."""

    name = "mlir"
    ending = ".mlir"

    generic: bool = False
    locations: bool = False

    def files(self, path: Path) -> list[Path]:
        return [path, side_file_of(path)]

    def write(self, module: ModuleOp, path: Path, session: Session) -> list[Path]:
        return write_module(module, path, generic=self.generic, locations=self.locations)
