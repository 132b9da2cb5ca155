"""Commands that fail on a model, and their failures."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from onnx import ModelProto

from ...ir.text import write_module
from ...support.diagnostics import CompileError
from .candidates import Model, form_of

PLACE = "{}"
"""Placeholder in a command for the path of the model."""


@dataclass(frozen=True)
class Failure:
    """The failure of a command: its status, negative for a signal, and the words of its last line that is an error, if
    there is one.

    Words in quotes, numbers and paths are left out: those of a smaller model differ.
    """

    status: int
    words: str

    def __str__(self) -> str:
        what = f"signal {signal.Signals(-self.status).name}" if self.status < 0 else f"status {self.status}"
        return f"{what}, {self.words}" if self.words else what


_ERROR = re.compile(r"error\b|\b\w+(Error|Exception)\b", re.IGNORECASE)
_PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|\S*[\d/]\S*")
_TIMED_OUT = 124
"""The status of a command that runs too long, as of `timeout`."""


def failure_of(command: str, model: Path, seconds: float) -> Failure | None:
    """Run a command by the shell on a model; None if it succeeds."""
    line = command.replace(PLACE, shlex.quote(str(model)))
    with subprocess.Popen(
        line, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except BaseException as e:  # Ctrl-C as well: the command does not go on alone
            _kill(process.pid)
            process.communicate()
            if isinstance(e, subprocess.TimeoutExpired):
                return Failure(_TIMED_OUT, "")
            raise
    status = process.returncode
    if status > 128 and status - 128 in signal.valid_signals():  # how a shell reports a signal of its last command
        status = 128 - status
    return Failure(status, words_of(output.decode(errors="replace"))) if status else None


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def words_of(output: str) -> str:
    """The words of the last line that reports an error, without what is particular to one model."""
    lines = [line for line in output.splitlines() if _ERROR.search(line)]
    if not lines:
        return ""
    line = lines[-1]
    if (mark := line.find("error: ")) >= 0:
        line = line[mark + len("error: ") :]
    return " ".join(_PARTICULAR.sub(" ", line).split())


@dataclass(frozen=True)
class Command:
    """A command that must keep failing the same way: by its status and words, or by a pattern that its output must match."""

    line: str
    folder: Path
    """The folder where candidates are written."""
    seconds: float
    """The most that one run may take."""

    def __post_init__(self) -> None:
        if PLACE not in self.line:
            hint = "write the path of the model as {}: --command 'amct-opt {} --fuse-all'"
            raise CompileError(f"the command does not name the model: {self.line}", hint=hint)

    def failure(self, model: Model) -> Failure | None:
        """Runs the command on a model, and returns its failure; None if it succeeds."""
        return failure_of(self.line, self.written(model), self.seconds)

    def written(self, model: Model) -> Path:
        """The model in a file of the folder, under the same name every time."""
        return write(model, self.folder / ("model.onnx" if isinstance(model, ModelProto) else "model.mlir"))


def write(model: Model, path: Path) -> Path:
    """Write a model as it is: ONNX, or the text of a module with its arrays next to it. Returns the path."""
    if isinstance(model, ModelProto):
        path.write_bytes(model.SerializeToString())
    else:
        write_module(model, path)
    return path


def counted(model: Model) -> int:
    """The operations of a model, without constants."""
    return form_of(model).parts(model)[0]
