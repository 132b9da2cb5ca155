"""The backend `numpy`: the interpreter, batch by batch."""

from __future__ import annotations

from ..executor import Executable
from .work import Work


def run(work: Work) -> None:
    """Raises CompileError, located in the data, at an operation, or as the watcher does."""
    executable = Executable(work.module, list(work.wanted))
    for batch in work.samples.batches():
        executable.run(batch, work.watch)
        work.done()
