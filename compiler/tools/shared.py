"""What the commands of `amct` have in common: arguments, reading a model, keeping what was read."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..diagnostics import CompileError
from ..files import refuse_overwriting

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..session import Session


def add_inputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--inputs",
        metavar="X.npz",
        type=Path,
        required=True,
        help="an .npz file with one array per model input, by name, or a folder with one .npy file per input",
    )


def add_batch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--batch", metavar="N", type=positive, help="run N samples at a time where the model takes any number"
    )


def positive(text: str) -> int:
    """An argument that counts something."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"'{text}' is no positive integer")
    return int(text)


def load_module(path: Path) -> tuple[ModuleOp, Session]:
    """A model or module file as a verified module, and a session of its own. Raises CompileError."""
    from .. import frontends
    from ..diagnostics import verify
    from ..universe import new_session

    session = new_session()
    module = frontends.read(path, session)
    verify(module)
    return module, session


def protect(writes: Sequence[Path], reads: Iterable[Path]) -> None:
    """Nothing that was read is overwritten, and the folder to write to is there. Raises CompileError."""
    refuse_overwriting(writes, reads)
    for path in writes:
        if not path.parent.is_dir():
            raise CompileError("there is no such folder", where=str(path.parent))
