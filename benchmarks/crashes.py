"""What is on disk after a crash: a command is killed at any moment, runs next to itself, is interrupted, and has too little
memory or disk.

    python benchmarks/crashes.py COMMAND MODEL.onnx DATA.npz [KILLS [PAIRS [INTERRUPTS [SHORTAGES [WRITES [DISKS]]]]]]

COMMAND is one of `COMMANDS`. Two runs with different observers, or what comes of them, write to one folder. Afterwards its files
must be those of one run, to the byte, next to a file of the user's, for a reader that repairs nothing. A third of the kills hits
a random moment, a third a random moment of writing, a third a rename.
"""

from __future__ import annotations

import errno
import faulthandler
import io
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from _testcapi import set_nomemory  # pyright: ignore
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime  # noqa: F401  # loaded once, not in every process

import amct_opt.flows.quantization  # noqa: F401
from amct_opt.flows import latency
from amct_opt.support.files import reading
from amct_opt.tools import amct
from amct_opt.tools.entry import run_tool

OBSERVERS = ("minmax", "mse")
MINE = "notes.txt"
SCORE = "def score(model): return sum(float(a.mean()) for x in model.batches() for a in model.run(x).values())"
"""What `amct evaluate`, which writes no file, measures."""
_SEARCH = "tune.json", "tune.onnx"
"""From these a search of `amct tune` goes on; `test/unit/flows/tune/test_killed.py` reads them."""
_RENAMES = 30
"""More than the command renames files."""
_WRITING = 0.05
"""Seconds that writing takes at most, by a wide margin for small models."""
_LONGEST = 300.0
"""Seconds after which a run counts as one that hangs."""
_ALLOCATIONS = 3_000_000
"""About as many as the command makes in Python, for small models."""
_STARTING = 1000
"""Allocations until the signals and streams of the process are set up."""
_OF_PYTHON = ("SystemError: ", "importlib.metadata.PackageNotFoundError: ")
"""What Python makes of an allocation that fails inside it."""
_ADDRESSES = 1 << 27
"""Bytes that the command uses after all is loaded, by a wide margin."""

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
    python: int = 0
    """Runs that Python ended: it makes other errors of a failed allocation. Folders are those of `old`."""
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
    command: str = "quantize"
    sources: Path = Path()
    """What other commands than `quantize` read: its results, in a folder for each observer, and the files of `_write_sources`."""

    @staticmethod
    def of(model: Path, data: Path, folder: Path, command: str = "quantize") -> Runs:
        """Run the command once with each observer."""
        sources, files = folder / "sources", dict[str, Files]()
        if command != "quantize":
            sources.mkdir()
            Runs.of(model, data, sources)
            _write_sources(data, sources)
        runs = Runs(model, data, files, 0.0, command, sources)
        start = time.monotonic()
        for observer in OBSERVERS:
            if _wait(_fork(lambda observer=observer: runs.run(observer, folder / observer), folder / "said")):
                raise SystemExit(f"{model}: amct {command} fails: {(folder / 'said').read_text()}")
            files[observer] = contents(folder / observer)
        return runs._replace(seconds=(time.monotonic() - start) / len(OBSERVERS))

    def arguments(self, observer: str, folder: Path) -> list[str]:
        """The command line; the folder is made if the command does not make it."""
        if self.command in ("create-config", "reduce", "atc-check", "evaluate"):
            folder.mkdir(exist_ok=True)
        return [self.command, *map(str, COMMANDS[self.command](self, observer, folder))]

    def result(self, observer: str, ending: str) -> Path:
        """A file that `amct quantize` wrote."""
        return self.sources / observer / f"{self.model.stem}{ending}"

    def run(self, observer: str, folder: Path) -> int:
        return amct.run(self.arguments(observer, folder))


def _quantize(runs: Runs, observer: str, out: Path) -> list[Any]:
    form = ["--engine", "numpy", "--also", "nn,ascend,record", "--no-report", "-q"]
    return [runs.model, "--data", runs.data, "-o", out, "--observer", observer, *form]


def _calibration(runs: Runs, observer: str, out: Path) -> list[Any]:
    shape = (runs.sources / "shape").read_text()
    data = ["--input_shape", shape, "--data_dir", runs.sources / "raw", "--data_types", "float32", "--engine", "numpy"]
    config = ["--calibration_config", runs.sources / f"{observer}.cfg"]
    return ["--model", runs.model, *data, *config, "--save_path", out / "net", "-q"]


def _convert(runs: Runs, observer: str, out: Path) -> list[Any]:
    return ["--model", runs.result(observer, "_qdq.onnx"), "--save_path", out / "net", "-q"]


def _create_config(runs: Runs, observer: str, out: Path) -> list[Any]:
    offset = "true" if observer == OBSERVERS[0] else "false"
    return [runs.model, "--activation-offset", offset, "-o", out / "net.json", "-q"]


def _reduce(runs: Runs, observer: str, out: Path) -> list[Any]:
    kind = "QuantizeLinear" if observer == OBSERVERS[0] else "Conv"
    return [runs.result(OBSERVERS[0], "_qdq.onnx"), "--command", f"grep -q {kind} {{}} && exit 3", "-o", out / "net"]


def _atc_check(runs: Runs, observer: str, out: Path) -> list[Any]:
    return [runs.result(observer, "_deploy_model.onnx"), "--script", out / "atc.sh", "-q"]


def _tune(runs: Runs, observer: str, out: Path) -> list[Any]:
    form = ["--profile", "qdq", "--engine", "numpy", "--also", "nn,record", "-q"]
    return [runs.model, "--data", runs.data, "--sqnr", 30, "--observer", observer, *form, "-o", out]


def _evaluate(runs: Runs, observer: str, out: Path) -> list[Any]:
    judge = ["--evaluator", f"{runs.sources / 'score.py'}:score"]
    return [runs.model, runs.result(observer, "_qdq.onnx"), "--data", runs.data, *judge]


COMMANDS: Mapping[str, Callable[[Runs, str, Path], list[Any]]] = {
    "quantize": _quantize,
    "tune": _tune,
    "calibration": _calibration,
    "convert": _convert,
    "create-config": _create_config,
    "reduce": _reduce,
    "atc-check": _atc_check,
    "evaluate": _evaluate,
}
"""The arguments of each command."""


def _write_sources(data: Path, folder: Path) -> None:
    """Raw samples and configurations for `amct calibration`, and a function for `amct evaluate`."""
    (folder / "score.py").write_text(SCORE)
    with np.load(data) as samples:
        name, array = next(iter(samples.items()))
    (folder / "raw").mkdir()
    (folder / "raw" / "0.bin").write_bytes(array[:8].astype(np.float32).tobytes())
    (folder / "shape").write_text(f"{name}:{','.join(map(str, array[:8].shape))}")
    for observer, offset in zip(OBSERVERS, ("true", "false"), strict=True):
        (folder / f"{observer}.cfg").write_text(f"activation_offset : {offset}\n")


def contents(folder: Path) -> Files:
    """The files of a folder as any program finds them; empty if there is no folder. Options refer to data by path."""
    found = sorted(folder.iterdir()) if folder.exists() else []
    files = [p for p in found if p.is_file() and not p.name.startswith((".amct", *_SEARCH))]
    return {p.name: p.read_bytes().replace(b"../", b"") for p in files}


def kills(runs: Runs, folder: Path, number: int, seed: int = 0) -> Counts:
    """Kill the command, with SIGKILL, at this many moments. Every fifth time the folder does not exist before."""
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
        found, earlier = contents(out), {**old, **runs.files[OBSERVERS[1 - i % 2]]}
        # the run before may have been killed when its files were complete, but not in place
        counts.add(
            found, earlier if old and found == earlier else old, runs.files[observer], f"kill {i} {moment.__name__}"
        )
    _prepare(out, runs.files[OBSERVERS[0]])
    _wait(_fork(lambda: runs.run(OBSERVERS[0], out)))
    counts.left += [p.name for p in out.iterdir() if p.name.startswith(".")]
    shutil.rmtree(out)
    _wait(_fork(lambda: runs.run(OBSERVERS[0], out)))
    counts.left += [p.name for p in folder.iterdir() if p.name.startswith(".")]
    return counts


def pairs(runs: Runs, folder: Path, number: int, seed: int = 0) -> Counts:
    """Run the command twice at once, into one folder, this many times; a third process reads meanwhile."""
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
    """Send SIGINT or SIGTERM to `number` processes at random moments after their start: one line, nothing left.

    `old` are those that ended so, `new` those whose files were complete. Not counted are those that were still starting Python.
    """
    chance, counts, out = random.Random(seed), Counts(), folder / "interrupts"
    signals, times = "(signal.SIGINT, signal.SIGTERM)", "from amct_opt.flows import latency; latency.SECONDS = 0"
    waiting, going = (f"signal.pthread_sigmask(signal.SIG_{what}, {signals})" for what in ("BLOCK", "UNBLOCK"))
    code = f"import signal; {waiting}; from amct_opt.tools.entry import amct; {times}; {going}; amct()"
    longest = 2 * runs.seconds + 1
    for i in range(number):
        sent, word = ((signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated"))[i % 2]
        shutil.rmtree(out, ignore_errors=True)
        argv = [sys.executable, "-c", code, *runs.arguments(OBSERVERS[0], out)]
        with subprocess.Popen(argv, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
            time.sleep(chance.uniform(0, longest))
            process.send_signal(sent)
            message = process.communicate(timeout=_LONGEST)[1]
        counts.runs += 1
        interrupted = (process.returncode, message) == (128 + sent, f"amct: {word}\n")
        if interrupted and not contents(out):
            counts.old += 1
        elif (interrupted or process.returncode == 0) and contents(out) == runs.files[OBSERVERS[0]]:
            counts.new += 1
        elif "amct_opt/" in message or process.returncode not in (-sent, 1):
            counts.torn.append(f"interrupt {i}: status {process.returncode}: {message[-300:]}")
        counts.left += [p.name for p in folder.iterdir() if p.name.startswith(".")]
    return counts


def shortages(runs: Runs, folder: Path, number: int, seed: int = 0) -> Counts:
    """Let allocations fail, `number` times: a single one, or all beyond a limit that is a little above what is used already."""
    chance = random.Random(seed)

    def one() -> None:
        begin = int(_STARTING * (_ALLOCATIONS / _STARTING) ** chance.random())
        set_nomemory(begin, begin + 1)

    def limit() -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + chance.randrange(_ADDRESSES), resource.RLIM_INFINITY))

    counts = Counts()
    for i in range(number):
        chance.seed(seed + i)
        _faulty(runs, folder, folder / "out", (one, limit)[i % 2], counts, f"shortage {i}")
    return counts


def full_disks(runs: Runs, folder: Path, number: int, seed: int = 0) -> Counts:
    """Write to `number` disks (tmpfs), most of them with too little space. Only root can make them."""
    chance, counts, disk = random.Random(seed), Counts(), folder / "disk"
    disk.mkdir()
    needed = sum(len(each) + resource.getpagesize() for each in runs.files[OBSERVERS[1]].values())
    for i in range(number):
        size = int(needed * (1 + 1.2 * (i + chance.random()) / number))
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk], check=True)
        try:
            _faulty(runs, folder, disk / "out", lambda: None, counts, f"disk of {size} bytes")
        finally:
            subprocess.run(["umount", disk], check=True)
    return counts


def failing_writes(runs: Runs, folder: Path, number: int, seed: int = 0) -> Counts:
    """Let the n-th write, flush or new name fail for lack of space, for every n or `number` of them.

    Every other time all later ones fail as well.
    """
    _prepare(folder / "out", runs.files[OBSERVERS[0]])
    with (folder / "count").open("w+b") as stream:
        _wait(_fork(lambda: _counting(stream.fileno()) or runs.run(OBSERVERS[1], folder / "out")))
        total = int(stream.read() or 0)
    faults = {f"writes from {n} of {total} on": range(n, sys.maxsize if n % 2 else n + 1) for n in range(total)}
    counts, chance = Counts(), random.Random(seed)
    for what in faults if number >= len(faults) else chance.sample([*faults], number):
        _faulty(runs, folder, folder / "out", partial(_fail, faults[what].__contains__), counts, what)
    return counts


def _counting(handle: int) -> None:
    """Let nothing fail, and keep the number of calls in a file."""
    _fail(lambda n: not os.pwrite(handle, b"%d" % (n + 1), 0))


def _fail(fails: Callable[[int], bool]) -> None:
    """From now on writes, flushes and new names fail, by their number."""
    calls, whole, flush = count(), io.open, os.fsync

    def call() -> None:
        if fails(next(calls)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        creates = event == "open" and arguments[2] & os.O_CREAT and str(arguments[0]) != os.devnull
        if creates or event in ("os.mkdir", "os.rename", "os.link", "os.symlink"):
            call()

    class Raw(io.FileIO):
        def write(self, data: Any, /) -> int:
            call()
            return super().write(data)

    def opened(file: Any, mode: str = "r", buffering: int = -1, *form: Any, **named: Any) -> Any:
        if mode not in ("w", "wb") or str(file) == os.devnull:
            return whole(file, mode, buffering, *form, **named)
        stream = io.BufferedWriter(Raw(file, "w"))
        return stream if "b" in mode else io.TextIOWrapper(stream, *form, **named)

    def flushed(handle: Any) -> None:
        call()
        flush(handle)

    io.open, os.fsync = opened, flushed
    sys.addaudithook(hook)


def _faulty(runs: Runs, folder: Path, out: Path, fault: Callable[[], None], counts: Counts, what: str) -> None:
    """Run the command with a fault. It must write all of its files, or end in one line, with the files that were there before."""
    old, new = (runs.files[each] for each in OBSERVERS)
    shutil.rmtree(out, ignore_errors=True)
    if counts.runs % 3:
        _prepare(out, old)
    before, said = contents(out), folder / "said"

    def run() -> int:
        sys.argv[1:] = runs.arguments(OBSERVERS[1], out)
        fault()
        run_tool("amct", amct.run)
        return 70  # it has ended the process

    status = _wait(_fork(run, said))
    lines = [line for line in said.read_text("utf-8", "replace").splitlines() if not line.startswith("  hint: ")]
    counts.runs += 1
    # what fails after the files are in place, such as printing, leaves them
    if (status, len(lines)) in ((0, len(lines)), (1, 1)) and contents(out) == {**before, **new}:
        counts.new += 1
    elif (status, len(lines), contents(out)) == (1, 1, before):
        counts.old += 1
    elif (status, contents(out)) == (70, before) and any(line.startswith(_OF_PYTHON) for line in lines):
        counts.python += 1
    else:
        which = "old" if contents(out) == before else "new" if contents(out) == {**before, **new} else "other"
        counts.torn.append(f"{what}: status {status}, {which} files: {' | '.join(lines[-3:])}")
    with reading(out):  # as the next command, which moves the rest if all failed once links led to the new files
        pass
    counts.left += [
        p.name for p in (*out.parent.iterdir(), *(out.iterdir() if out.exists() else ())) if p.name[0] == "."
    ]


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


def _fork(work: Callable[[], int], said: Path | None = None) -> int:
    """A process that does some work quietly, or with stderr in a file; everything is loaded already."""
    if (child := os.fork()) == 0:
        status = 70
        latency.SECONDS = 0  # files that say how long runs took are never equal
        try:
            null = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(null, stream)
            if said is not None:
                os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
                faulthandler.enable(2)
                sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), write_through=True)
            status = work()
        except SystemExit as e:
            status = int(e.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return child


def _kill(child: int) -> int:
    os.kill(child, signal.SIGKILL)
    return _wait(child)


def _wait(child: int) -> int:
    """The status of a process; negative if a signal ended it. One that hangs prints its stack and is killed."""
    end = time.monotonic() + _LONGEST
    while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if time.monotonic() > end:
            os.kill(child, signal.SIGABRT)
            break
        time.sleep(0.002)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(command: str, model: str, data: str, *numbers: str) -> None:
    """Run all of them, and print the counts."""
    wanted = [*map(int, numbers), *(300, 100, 100, 200, 1000, 50)[len(numbers) :]]
    with tempfile.TemporaryDirectory() as temporary:
        runs = Runs.of(Path(model), Path(data), Path(temporary), command)
        print(f"one run: {runs.seconds:.1f} s")
        for campaign, number in zip(
            (kills, pairs, interrupts, shortages, failing_writes, full_disks), wanted, strict=True
        ):
            folder = Path(temporary) / campaign.__name__
            folder.mkdir()
            print(campaign.__name__, campaign(runs, folder, number), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
