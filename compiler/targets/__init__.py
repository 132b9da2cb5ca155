"""Targets: what `-t` writes. One file or package per format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from ..session import Session


@dataclass(frozen=True)
class Target(ABC):
    """A format to write. Options are the fields of the dataclass, given as `-t 'name{option=value}'`."""

    name: ClassVar[str]
    ending: ClassVar[str]
    """The file ending of the format, with its dot."""
    activation_bits: ClassVar[frozenset[int]] = frozenset({4, 8, 16})
    """The possible bits of the integers of activations."""

    def files(self, path: Path) -> list[Path]:
        """The files that writing to `path` may create or replace."""
        return [path]

    def check(self, module: ModuleOp, session: Session) -> None:  # noqa: B027
        """Raises CompileError, located, if an operation of a module that is about to be quantized cannot be written.

        Called before data runs through the module, so that users do not wait for a file that cannot be written. It may find less
        than writing does.
        """

    @abstractmethod
    def write(self, module: ModuleOp, path: Path, session: Session) -> list[Path]:
        """Writes the module to `path` and the files beside it, all or nothing. Returns the files written.

        Raises CompileError, located at the operation, if the format cannot express it.
        """
