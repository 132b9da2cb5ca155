"""The text tests in one process: a file is run as lit runs it, but the tools are functions of this process."""

from __future__ import annotations

import io
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from lit.ShUtil import ShParser

LIT = Path(__file__).with_name("lit")
SUBSTITUTIONS = (
    # custom -> generic -> custom
    ("ROUNDTRIP", "amct-opt %s --print-op-generic | amct-opt -"),
    # the text, with the constants that it states once
    ("CONSTANTS", f"{sys.executable} {LIT}/constants.py %s"),
    # every part between `// -----` lines on its own; errors go to stdout, the exit status is 0
    ("VERIFY_DIAGNOSTICS", "amct-opt %s --split-input-file --verify-diagnostics"),
)
"""What RUN lines have in short; `%s` in these is replaced afterwards."""

Streams = Mapping[int, io.StringIO]
"""Where a command prints, by descriptor."""


def files() -> list[Path]:
    """Every text test."""
    return sorted(path for path in LIT.rglob("*") if path.suffix in (".mlir", ".test"))


def failure(file: Path, folder: Path) -> str | None:
    """Run a text test, which writes into `folder`. Returns the line that fails and what it prints, or None."""
    for _, run, line in (line.partition("RUN: ") for line in file.read_text("utf-8").splitlines()):
        if run:
            for name, text in (*SUBSTITUTIONS, ("%s", str(file)), ("%t", str(folder / f"{file.stem}.tmp"))):
                line = line.replace(name, text)
            if (printed := _failure(ShParser(line).parse())) is not None:
                return f"{line}\n{printed}"
    return None


def _failure(parsed: Any) -> str | None:
    """What the commands of a line print until one fails; None if none does."""
    if hasattr(parsed, "op"):
        assert parsed.op == "&&"
        return _failure(parsed.rhs) if (printed := _failure(parsed.lhs)) is None else printed
    output, printed = "", ""
    for command in parsed.commands:
        output, errors, passed = _run(command.args, command.redirects, output)
        printed += errors
        if not passed:
            return printed + output
    return None


def _run(command: Sequence[str], redirects: Sequence[Any], given: str) -> tuple[str, str, bool]:
    """What a command prints to the next one and as errors, and whether it passes."""
    streams = {1: io.StringIO(), 2: io.StringIO()}
    output, errors = streams[1], streams[2]
    targets: list[tuple[Path, str, io.StringIO]] = []
    for (operator, *descriptor), target in redirects:
        if operator == "<":
            given = Path(target).read_text("utf-8")
        elif operator == ">&":
            streams[descriptor[0]] = streams[int(target)]
        else:
            stream = streams[descriptor[0] if descriptor else 1] = io.StringIO()
            targets.append((Path(target), "a" if operator == ">>" else "w", stream))
    fails = command[0] == "not"
    name, *arguments = command[fails:]
    run = _tools().get(name)
    status = _other(command[fails:], given, streams) if run is None else _tool(run, arguments, given, streams)
    for path, mode, stream in targets:
        with path.open(mode, encoding="utf-8", errors="surrogateescape") as file:
            file.write(stream.getvalue())
    return output.getvalue(), errors.getvalue(), (status != 0) == fails


def _tool(run: Callable[[Sequence[str]], Any], arguments: Sequence[str], given: str, streams: Streams) -> int:
    stdin, sys.stdin = sys.stdin, io.StringIO(given)
    try:
        with redirect_stdout(streams[1]), redirect_stderr(streams[2]):
            return run(arguments) or 0
    except SystemExit as end:
        return int(end.code or 0)
    except Exception:
        streams[2].write(traceback.format_exc())
        return 1
    finally:
        sys.stdin = stdin


def _other(command: Sequence[str], given: str, streams: Streams) -> int:
    done = subprocess.run(command, input=given, capture_output=True, encoding="utf-8", errors="surrogateescape")
    streams[1].write(done.stdout)
    streams[2].write(done.stderr)
    return done.returncode


@cache
def _tools() -> Mapping[str, Callable[[Sequence[str]], Any]]:
    """Functions of arguments, by the names of tools; imported on first use, as lit needs only the substitutions."""
    filecheck, upstream = import_module("filecheck.main"), import_module("xdsl.tools.xdsl_opt")
    return {
        "amct-opt": import_module("amct_opt.tools.amct_opt").run,
        "amct": import_module("amct_opt.tools.amct").run,
        "filecheck": lambda arguments: filecheck.main(["filecheck", *arguments]),
        "xdsl-opt": lambda arguments: upstream.xDSLOptMain(args=arguments).run(),
    }
