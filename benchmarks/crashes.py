"""What is on disk after a crash: `amct quantize` is killed at any moment, runs beside itself, and is interrupted.

    python benchmarks/crashes.py MODEL.onnx DATA.npz [KILLS [PAIRS [INTERRUPTS]]]

Two runs with different observers write to one folder. Afterwards its files must be those of one run, to the byte, beside a
file of the user's. A third of the kills hits a random moment, a third a random moment of writing, a third a rename.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import NamedTuple

import onnxruntime  # noqa: F401  # loaded once, not in every process

import amct_opt.flows.quantization  # noqa: F401
from amct_opt.files import reading
from amct_opt.tools import amct

OBSERVERS = ("minmax", "mse")
MINE = "notes.txt"
_RENAMES = 12
"""More than the command renames files."""
_WRITING = 0.05
"""Seconds that writing takes at most, by a wide margin for small models."""
_LONGEST = 300.0
"""Seconds after which a run counts as one that hangs."""

Files = Mapping[str, bytes]


@dataclass
class Counts:
    """How often runs ended how, and what they left."""

    runs: int = 0
    killed: int = 0
    old: int = 0
    """Folders with the files of the earlier run, or without any."""
    new: int = 0
    """Folders with the files of the last run."""
    torn: list[str] = field(default_factory=list[str])
    """Folders with files of both, or with a part of them; what is wrong with each."""
    left: list[str] = field(default_factory=list[str])
    """Temporary files that a later run did not remove."""

    def add(self, found: Files, old: Files, new: Files, what: str) -> None:
        """Count a folder."""
        mine = {MINE: b"mine"} if MINE in old or MINE in found else {}
        if found == {**new, **mine}:
            self.new += 1
        elif found == old:
            self.old += 1
        else:
            wrong = sorted(n for n in {*found, *new} if found.get(n) not in (old.get(n), new.get(n)))
            self.torn.append(f"{what}: {wrong or 'files of both runs'}")


class Runs(NamedTuple):
    """The command to run, by observer, and what it writes."""

    model: Path
    data: Path
    files: Mapping[str, Files]
    seconds: float
    """How long a run takes."""

    @staticmethod
    def of(model: Path, data: Path, folder: Path) -> Runs:
        """Run the command once with each observer."""
        runs, files = Runs(model, data, {}, 0.0), dict[str, Files]()
        start = time.monotonic()
        for observer in OBSERVERS:
            if _wait(_fork(lambda observer=observer: runs.run(observer, folder / observer))):
                raise SystemExit(f"{model}: amct quantize fails")
            files[observer] = contents(folder / observer)
        return Runs(model, data, files, (time.monotonic() - start) / len(OBSERVERS))

    def arguments(self, observer: str, folder: Path) -> list[str]:
        command = ["quantize", self.model, "--data", self.data, "-o", folder, "--observer", observer]
        return [*map(str, command), "--backend", "numpy", "--no-report", "-q"]

    def run(self, observer: str, folder: Path) -> int:
        return amct.run(self.arguments(observer, folder))


def contents(folder: Path) -> Files:
    """The files of a folder as a reader of ours finds them; empty if there is no folder."""
    if not folder.exists():
        return {}
    with reading(folder):
        return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if not p.name.startswith(".amct-unfinished")}


def kills(runs: Runs, folder: Path, number: int, seed: int = 0) -> Counts:
    """Kill the command, with SIGKILL, at so many moments. Every fifth time the folder does not exist before."""
    chance, counts, out = random.Random(seed), Counts(), folder / "out"
    for i in range(number):
        observer = OBSERVERS[i % 2]
        if i % 5 == 0:
            shutil.rmtree(out, ignore_errors=True)
        elif i % 5 == 1:
            _prepare(out, runs.files[OBSERVERS[1 - i % 2]])
        old = contents(out)
        moment = (_at_random, _while_writing, _at_a_rename)[i % 3]
        counts.runs += 1
        counts.killed += moment(runs, observer, out, chance) < 0
        counts.add(contents(out), old, runs.files[observer], f"kill {i} {moment.__name__}")
    _prepare(out, runs.files[OBSERVERS[0]])
    _wait(_fork(lambda: runs.run(OBSERVERS[0], out)))
    counts.left += [p.name for p in out.iterdir() if p.name.startswith(".")]
    shutil.rmtree(out)
    _wait(_fork(lambda: runs.run(OBSERVERS[0], out)))
    counts.left += [p.name for p in folder.iterdir() if p.name.startswith(".")]
    return counts


def pairs(runs: Runs, folder: Path, number: int, seed: int = 0) -> Counts:
    """Run the command twice at once, into one folder, so many times; a third process reads meanwhile."""
    chance, counts, out = random.Random(seed), Counts(), folder / "pairs"
    for i in range(number):
        if i % 2:
            shutil.rmtree(out, ignore_errors=True)
        children = [_fork(lambda each=each: runs.run(each, out)) for each in chance.sample(OBSERVERS, 2)]
        counts.runs += len(children)
        failed = sum(map(_wait, children))
        one, other = (runs.files[each] for each in OBSERVERS)
        counts.add(contents(out), one, other, f"pair {i}" + (", which failed" if failed else ""))
        counts.left += [p.name for p in (*folder.iterdir(), *out.iterdir()) if p.name.startswith(".")]
    return counts


def interrupts(runs: Runs, folder: Path, number: int, seed: int = 0) -> Counts:
    """Send SIGINT to so many processes at random moments after their start: one line, status 130, nothing left.

    `old` are those that ended so, `new` those whose files were complete. Not counted are those that were still starting Python.
    """
    chance, counts, out = random.Random(seed), Counts(), folder / "interrupts"
    code = "from amct_opt.tools.entry import amct; amct()"
    longest = 2 * runs.seconds + 1
    for i in range(number):
        shutil.rmtree(out, ignore_errors=True)
        argv = [sys.executable, "-c", code, *runs.arguments(OBSERVERS[0], out)]
        with subprocess.Popen(argv, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
            time.sleep(chance.uniform(0, longest))
            process.send_signal(signal.SIGINT)
            message = process.communicate(timeout=_LONGEST)[1]
        counts.runs += 1
        interrupted = (process.returncode, message) == (130, "amct: interrupted\n")
        if interrupted and not out.exists():
            counts.old += 1
        elif (interrupted or process.returncode == 0) and contents(out) == runs.files[OBSERVERS[0]]:
            counts.new += 1
        elif "amct_opt/" in message or process.returncode not in (-signal.SIGINT, 1):
            counts.torn.append(f"interrupt {i}: status {process.returncode}: {message[-300:]}")
        counts.left += [p.name for p in folder.iterdir() if p.name.startswith(".")]
    return counts


def _prepare(out: Path, files: Files) -> None:
    """A folder with the files of an earlier run, and one of the user's."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    for name, data in {**files, MINE: b"mine"}.items():
        (out / name).write_bytes(data)


def _at_random(runs: Runs, observer: str, out: Path, chance: random.Random) -> int:
    child = _fork(lambda: runs.run(observer, out))
    time.sleep(chance.uniform(0, 1.1 * runs.seconds))
    return _kill(child)


def _while_writing(runs: Runs, observer: str, out: Path, chance: random.Random) -> int:
    before = {*out.parent.iterdir(), *(out.iterdir() if out.exists() else ())}
    child, end = _fork(lambda: runs.run(observer, out)), time.monotonic() + _LONGEST
    while time.monotonic() < end and not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        now = {*out.parent.iterdir(), *(out.iterdir() if out.exists() else ())}
        if any(path.name.startswith(".amct") for path in now - before):
            break
        time.sleep(0.001)
    time.sleep(chance.uniform(0, _WRITING))
    return _kill(child)


def _at_a_rename(runs: Runs, observer: str, out: Path, chance: random.Random) -> int:
    left = count(chance.randrange(_RENAMES), -1)

    def hook(event: str, _: object) -> None:
        if event == "os.rename" and next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def run() -> int:
        sys.addaudithook(hook)
        return runs.run(observer, out)

    return _wait(_fork(run))


def _fork(work: Callable[[], int]) -> int:
    """A process that does some work quietly; everything is loaded already."""
    if (child := os.fork()) == 0:
        status = 70
        with contextlib.suppress(BaseException):
            null = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(null, stream)
            status = work()
        os._exit(status)
    return child


def _kill(child: int) -> int:
    os.kill(child, signal.SIGKILL)
    return _wait(child)


def _wait(child: int) -> int:
    """The status of a process; negative if a signal ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(model: str, data: str, *numbers: str) -> None:
    """Run all of them, and print the counts."""
    wanted = [*map(int, numbers), *(300, 100, 100)[len(numbers) :]]
    with tempfile.TemporaryDirectory() as temporary:
        runs = Runs.of(Path(model), Path(data), Path(temporary))
        print(f"one run: {runs.seconds:.1f} s")
        for campaign, number in zip((kills, pairs, interrupts), wanted, strict=True):
            folder = Path(temporary) / campaign.__name__
            folder.mkdir()
            print(campaign.__name__, campaign(runs, folder, number), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
