"""TensorFlow itself, for the few things that need it."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import Any

from ...diagnostics import CompileError


def tensorflow(what: str, where: str) -> Any:
    """The package, imported quietly and without GPUs unless the program has done so already.

    Raises CompileError, located at `where` and with `what` as that which needs it, when it is not installed.
    """
    first = "tensorflow" not in sys.modules
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        with _silence() if first else nullcontext():
            import tensorflow  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        hint = "pip install 'amct-opt[tensorflow]'"
        raise CompileError(f"{what} requires TensorFlow", where=where, hint=hint) from None
    library: Any = tensorflow
    if first:
        library.config.set_visible_devices([], "GPU")
    return library


@contextmanager
def _silence() -> Generator[None]:
    """Nothing on stderr: what TensorFlow writes before it reads its log level does not go through Python."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
