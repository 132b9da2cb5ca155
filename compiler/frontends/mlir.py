"""Reads module text, and upstream's bytecode; arrays come from the side file next to it."""

from __future__ import annotations

from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ..ir.text import parse_module
from ..session import ImportOptions, Session
from ..support.diagnostics import CompileError, first_line
from ..support.files import read_text
from .options import take_only


def read(path: Path, session: Session) -> ModuleOp:
    """A module from its text. Raises CompileError for options, and, located, for text that is not a module."""
    refuse_options(session.imports, str(path))
    return parse(session, read_text(path), str(path))


def read_bytecode(path: Path, session: Session) -> ModuleOp:
    """A module from MLIR bytecode (`iree-opt --emit-bytecode`), which a tool of upstream MLIR prints as text.

    Raises CompileError for options, without such a tool, for what it refuses, and, located in its text, for what is not a module.
    """
    refuse_options(session.imports, str(path))
    return parse(session, _printed(path), str(path))


_TOOLS = ("mlir-opt", "iree-opt")
_PRINT = (
    "--allow-unregistered-dialect",
    "--mlir-print-op-generic",
    "--mlir-print-debuginfo",
    "--mlir-print-local-scope",  # xDSL reads no locations at the end of a text
)


def _printed(path: Path) -> str:
    """The text of a file of bytecode: generic, with locations."""
    import os
    import shutil
    import subprocess
    import sys

    magic = b"ML\xefR"
    with path.open("rb") as stream:
        if stream.read(len(magic)) != magic:
            raise CompileError("is not MLIR bytecode", where=str(path), hint="the ending of module text is .mlir")
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    tool = next(filter(None, (shutil.which(name, path=places) for name in _TOOLS)), None)
    if tool is None:
        message = f"bytecode is read by {' or '.join(_TOOLS)}, which is not installed"
        raise CompileError(message, where=str(path), hint="pip install 'amct-opt[mlir]'")
    done = subprocess.run([tool, *_PRINT, str(path.resolve())], capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").partition("error: ")[2] or f"status {done.returncode}"
        raise CompileError(f"{Path(tool).name} cannot read it: {first_line(said)}", where=str(path))
    return done.stdout.decode()


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
