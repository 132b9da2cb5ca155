"""Imports torch, which the extra `torch` installs."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr
from importlib import import_module
from io import StringIO
from typing import Any

from ...support.diagnostics import CompileError

HINT = "pip install 'amct-opt[torch]'"
_LOUD = ("torch", "onnxscript", "onnx_ir")


def torch_library(where: str) -> Any:
    """Imports torch, if the packages that its exporter to ONNX needs are there, too. Raises CompileError, located at
    `where`, if the extra is not installed.

    Raises CompileError, located at `where`, if the extra is not installed.
    """
    try:
        import_module("onnxscript")
        return import_module("torch")
    except ImportError as e:
        raise CompileError(f"PyTorch models require the package {e.name}", where=where, hint=HINT) from None


@contextmanager
def quiet() -> Generator[None]:
    """Hides what torch logs, warns of and prints to stderr while it traces and translates: failures are exceptions."""
    loggers = [logging.getLogger(name) for name in _LOUD]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)
