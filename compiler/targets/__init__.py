"""Targets: what `-t` writes. One file or package per format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from ..ir.functions import main_function, other_functions
from ..session import Session


@dataclass(frozen=True)
class Target(ABC):
    """A format to write. Options are the fields of the dataclass, given as `-t 'name{option=value}'`."""

    name: ClassVar[str]
    ending: ClassVar[str]
    """The file ending of the format, with its dot."""
    graph_only: ClassVar[bool] = False
    """Whether files hold the graph, `@main`, and no other function."""
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

    def warn_of_functions(self, module: ModuleOp, session: Session) -> None:
        """Warn of each function that files do not hold."""
        for function in other_functions(module) if self.graph_only else ():
            name = function.sym_name.data
            session.warn(
                f"target {self.name} writes the graph, @{main_function(module).sym_name.data}, without @{name}"
            )

    @abstractmethod
    def write(self, module: ModuleOp, path: Path, session: Session) -> list[Path]:
        """Writes the module to `path` and the files beside it, all or nothing. Returns the files written.

        Raises CompileError, located at the operation, if the format cannot express it.
        """
