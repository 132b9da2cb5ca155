"""Pages of documentation: their blocks of code, run from top to bottom in a folder, their headings, and their links.

What a block is, its language says:

* `bash`: commands, which must succeed;
* `console`: commands after `$ `, and what they print; `...` is what is left out, numbers with a point may differ a little;
* `python`: a program;
* `diff`: a change, applied to the folder;
* `mlir`: a module or function, parsed and verified, or a part of one;
* `json`, `yaml`, `toml`: parsed; `text`, `mermaid`: shown only.

A block whose first line is a comment that is nothing but a file's name is that file. A `pyproject.toml` makes the folder an
installed package, as far as its entry points go. Blocks run in the environment `.venv` of the folder, or in that of the tests.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from ..scripts import ROOT, script

_OTHERS = ("README.md", "AGENTS.md", "skills/quantize/SKILL.md")
PAGES = {
    str(p.relative_to(ROOT)): p for p in (*(ROOT / name for name in _OTHERS), *sorted((ROOT / "docs").rglob("*.md")))
}
"""By path from the repository's root."""

_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"(?:#|//) ([\w./-]+\.\w+)\n")
_NUMBER = re.compile(r"-?\b\d+\.\d+(?:e[-+]\d+)?")
_NEAR = 0.02
"""How far printed numbers may be from those of a page, as a share of the larger one: other processors sum in other orders."""


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """The name of the file that the block is."""
        found = _FILE.match(self.text)
        return found.group(1) if found else None


def blocks_of(text: str) -> Iterator[Block]:
    for found in _BLOCK.finditer(text):
        yield Block(found.group(1), found.group(2), text.count("\n", 0, found.start()) + 1)


def run_page(path: Path, folder: Path) -> None:
    """Run the blocks of a page in order. Raises AssertionError, with the block's line, at the first that fails."""
    for block in blocks_of(path.read_text("utf-8")):
        try:
            if (name := block.file) is not None:
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(block.text, "utf-8")
                if target.name == "pyproject.toml":
                    _install(target)
            else:
                RUNNERS[block.language](block.text, folder)
        except Exception as e:
            raise AssertionError(f"{path.name}:{block.line}: {e}") from e


def execute(arguments: list[str], folder: Path, text: str | None = None) -> str:
    """What a command prints to both streams. Raises AssertionError where it fails.

    The tools are forks that have imported the package; in a folder with sources of its own they start from nothing.
    """
    python = _python_of(folder)
    tools = [] if (folder / "compiler").exists() else [str(_tools(python))]
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([*tools, str(Path(python).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    done = subprocess.run(
        arguments, cwd=folder, env=environment, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, f"exit status {done.returncode} of\n{text or arguments}\n{done.stdout}"
    return done.stdout


_tools = cache(script("test/forks").tools)


def _python_of(folder: Path) -> str:
    own = folder / ".venv" / "bin" / "python"
    return str(own) if own.exists() else sys.executable


def _install(project: Path) -> None:
    """What pip leaves of a project for importlib.metadata to find; the folder is on the path."""
    declared = tomllib.loads(project.read_text("utf-8"))["project"]
    info = project.parent / f"{declared['name'].replace('-', '_')}.egg-info"
    info.mkdir(exist_ok=True)
    (info / "PKG-INFO").write_text(f"Metadata-Version: 2.1\nName: {declared['name']}\nVersion: {declared['version']}\n")
    groups = declared["entry-points"].items()
    lines = [line for group, entries in groups for line in (f"[{group}]", *(f"{k} = {v}" for k, v in entries.items()))]
    (info / "entry_points.txt").write_text("\n".join(lines))


def _bash(text: str, folder: Path) -> None:
    execute(["bash", "-euo", "pipefail"], folder, text)


def _python(text: str, folder: Path) -> None:
    execute([_python_of(folder), "-"], folder, text)


def _diff(text: str, folder: Path) -> None:
    execute(["git", "apply", "-"], folder, text)


def _mlir(text: str, folder: Path) -> None:
    if "func.func" in text:
        execute(["amct-opt", "-"], folder, text)


def _console(text: str, folder: Path) -> None:
    """Commands go on over lines that end in a backslash; the exit status is the reader's to judge, as in a terminal."""
    lines = text.replace("\\\n", "\\\0").split("\n")[:-1]
    assert lines[0].startswith("$ "), "console begins with a command"
    starts = [i for i, line in enumerate(lines) if line.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        command = lines[start].removeprefix("$ ").replace("\0", "\n")
        printed = execute(["bash", "-uo", "pipefail"], folder, f"{{ {command}\n}} || true")
        _match(lines[start + 1 : end], printed.split("\n"), command)


def _match(expected: list[str], printed: list[str], command: str) -> None:
    """The lines printed are those expected, blank ones aside; a line `...` is any number of lines."""
    wanted = [line for line in map(_words, expected) if line]
    rest = [line for line in map(_words, printed) if line]
    skipping = False
    for line in wanted:
        if line == "...":
            skipping = True
            continue
        while rest and skipping and not _same(line, rest[0]):
            rest.pop(0)
        if not rest or not _same(line, rest[0]):
            raise AssertionError(f"$ {command}\nprints no line\n{line}\nbut\n" + "\n".join(printed))
        rest.pop(0)
        skipping = False
    assert skipping or not rest, f"$ {command}\nprints more:\n" + "\n".join(rest)


def _words(line: str) -> str:
    """A line with single blanks, and without the rules of tables."""
    return " ".join(line.replace("─", "").split())


def _same(expected: str, printed: str) -> bool:
    """Equal, but for `...`, which is any text, and for numbers with a point, which may differ a little."""
    shape = (
        re.escape(_NUMBER.sub("\0", expected)).replace(re.escape("..."), ".*?").replace("\0", f"({_NUMBER.pattern})")
    )
    found = re.fullmatch(shape, printed)
    return found is not None and all(map(_near, _NUMBER.findall(expected), found.groups()))


def _near(expected: str, printed: str) -> bool:
    a, b = float(expected), float(printed)
    return abs(a - b) <= _NEAR * max(abs(a), abs(b))


def _shown(text: str, folder: Path) -> None:
    """Nothing to run."""


RUNNERS: Mapping[str, Callable[[str, Path], object]] = {
    "bash": _bash,
    "console": _console,
    "python": _python,
    "diff": _diff,
    "mlir": _mlir,
    "json": lambda text, folder: json.loads(text),
    "toml": lambda text, folder: tomllib.loads(text),
    "yaml": lambda text, folder: list(yaml.safe_load_all(text)),
    "text": _shown,
    "mermaid": _shown,
}


def headings(text: str) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    anchors: set[str] = set()
    for line in _BLOCK.sub("", text).split("\n"):
        if found := re.match(r"#+ (.+)", line):
            words = re.sub(r"[^\w\- ]", "", found.group(1).strip().lower())
            anchor = words.replace(" ", "-")
            anchors.add(next(a for a in _numbered(anchor) if a not in anchors))
    return anchors


def _numbered(anchor: str) -> Iterator[str]:
    yield anchor
    yield from (f"{anchor}-{i}" for i in range(1, 1000))


def links(text: str) -> list[str]:
    """The targets of a page's links, in the order in which they stand."""
    prose = re.sub(r"`[^`\n]*`", "", _BLOCK.sub("", text))
    return re.findall(r"\]\(([^)\s]+)\)", prose)
