"""Many seeds in processes of their own: what was checked is counted, what failed is saved with the command that shows it again.

python test/fuzz --graphs 500 --seed 0
python test/fuzz --graphs 200 --seed fresh
python test/fuzz --forever
python test/fuzz --seed 1234 --graphs 1 --format onnx --out out
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any

SECONDS = 300
"""A graph that takes more time of its processor hangs."""
SECONDS_OF_SMALL = 10
"""The same of a graph that was made smaller."""
FORMATS = ("onnx", "onnx", "onnx", "onnx", "tensorflow", "caffe")
"""The format of a seed, in turn."""
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Failure:
    """One seed that failed: the stage, what it says, and how to see it again."""

    seed: int
    format: str
    stage: str
    text: str
    command: str


@dataclass
class Counts:
    """What was checked: graphs by format and trait, stages that agreed, stages that refused a graph by their reason."""

    graphs: int = 0
    seconds: float = 0.0
    formats: Counter[str] = field(default_factory=Counter[str])
    traits: Counter[str] = field(default_factory=Counter[str])
    passed: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    failures: list[Failure] = field(default_factory=list[Failure])

    def line(self) -> str:
        formats = ", ".join(f"{n} {name}" for name, n in sorted(self.formats.items()))
        return (
            f"{self.graphs} graphs ({formats}), {sum(self.passed.values())} stages agree, {sum(self.refused.values())} refused, "
            f"{len(self.failures)} failed, {self.seconds:.0f} s"
        )


@dataclass(frozen=True)
class Result:
    """What one seed came to, as a process hands it back."""

    seed: int
    format: str
    traits: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    failure: Failure | None = None


def maker(format_: str) -> Callable[[int, Path], Any]:
    """The function that writes a model of a format."""
    if format_ == "tensorflow":
        from .tensorflow_files import tensorflow_file

        return tensorflow_file
    if format_ == "caffe":
        from .caffe_files import caffe_file

        return caffe_file
    from .onnx_files import onnx_file

    return onnx_file


def format_of(seed: int) -> str:
    """The format that a seed tests unless another one is asked for."""
    return FORMATS[seed % len(FORMATS)]


def check_seed(seed: int, folder: Path, format_: str = "", shrunk: Path | None = None) -> Result:
    """Make and check one graph, in this process. The folder keeps its files; one that fails is made smaller as `shrunk`."""
    from .checks import Mismatch, check
    from .choices import choices
    from .graph import Refused

    format_ = format_ or format_of(seed)
    chosen = choices(seed)
    ending = {"onnx": ".onnx", "tensorflow": ".pb", "caffe": ".prototxt"}[format_]
    try:
        with _limited(SECONDS):
            case = maker(format_)(seed, folder / f"model{ending}")
    except Refused as e:
        return Result(seed, format_, refused=(("maker", str(e)),))
    traits = (*case.traits, *chosen.traits())
    command = f"python test/fuzz --seed {seed} --graphs 1 --format {format_} --out out"
    try:
        with _limited(SECONDS):
            outcome = check(case, chosen, folder)
    except Mismatch as e:
        text = str(e)
        if shrunk is not None:
            text += f"\n  {_shrunk(case, chosen, e, shrunk)}"
        return Result(seed, format_, traits, failure=Failure(seed, format_, e.stage, text, command))
    return Result(seed, format_, traits, tuple(outcome.passed), tuple(outcome.refused))


def _shrunk(case: Any, chosen: Any, failure: Any, stem: Path) -> str:
    """What is left of a graph that fails."""
    from .shrinking import shrink

    try:
        return shrink(case, chosen, failure, stem, lambda: _limited(SECONDS_OF_SMALL))
    except Exception as e:  # the reduction runs what is wrong, which must not hide what failed
        return f"not reduced: {type(e).__name__}: {e}"


def _in_process(seed: int, format_: str, out: str, scratch: str) -> Result:
    """In a process of the pool: one that takes too long is interrupted, the files of failures are kept, with a small one."""
    warnings.simplefilter("ignore")
    tempfile.tempdir = scratch
    folder = Path(tempfile.mkdtemp())
    kept = Path(out) / f"{format_}-{seed}"
    try:
        result = check_seed(seed, folder, format_, kept / "small" if out else None)
    except Exception as e:  # of the generator, or of a stage that hangs
        command = f"python test/fuzz --seed {seed} --graphs 1 --format {format_} --out out"
        result = Result(
            seed, format_, failure=Failure(seed, format_, "time or maker", f"{type(e).__name__}: {e}", command)
        )
    if result.failure is not None and out:
        shutil.copytree(folder, kept, dirs_exist_ok=True)
        (kept / "failure.txt").write_text(f"{result.failure.text}\n\n{result.failure.command}\n", "utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    return result


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise TimeoutError(f"takes more than {seconds} s of a processor")

    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def campaign(
    seeds: Iterable[int],
    *,
    processes: int = 2,
    format_: str = "",
    out: str = "",
    on_failure: Callable[[Failure], None] | None = None,
) -> Counts:
    """Check the graphs of these seeds and count. Ctrl-C ends it: the counts are of what is done by then."""
    counts = Counts()
    start = time.monotonic()
    waiting = iter(seeds)
    scratch = tempfile.mkdtemp(prefix="fuzz")
    try:
        while batch := list(islice(waiting, 50 * processes)):  # a process that died takes its batch along, no more
            for result in _batch(batch, processes, format_, out, scratch):
                _count(counts, result)
                if result.failure is not None and on_failure is not None:
                    on_failure(result.failure)
    except KeyboardInterrupt:
        with _uninterrupted():
            while _POOL:
                _POOL.pop().shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.kill()  # a graph takes up to a minute
                process.join()
    shutil.rmtree(scratch, ignore_errors=True)
    counts.seconds = time.monotonic() - start
    return counts


_POOL: list[ProcessPoolExecutor] = []


def _batch(seeds: Sequence[int], processes: int, format_: str, out: str, scratch: str) -> Iterator[Result]:
    if not _POOL:
        _POOL.append(ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), initializer=_quiet))
    with _uninterrupted():  # processes start here, and inherit it
        futures: dict[Future[Result], int] = {
            _POOL[0].submit(_in_process, seed, format_ or format_of(seed), out, scratch): seed for seed in seeds
        }
    for future in as_completed(futures):
        try:
            yield future.result()
        except BrokenProcessPool:
            _POOL.clear()
            left = sorted(seed for each, seed in futures.items() if each.exception() is not None)
            format_ = format_ or format_of(left[0])
            command = f"python test/fuzz --seed {left[0]} --graphs 1 --format {format_} --out out"
            text = f"a process died at a seed from {left[0]} to {left[-1]}"
            yield Result(left[0], format_, failure=Failure(left[0], format_, "process", text, command))
            return


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _quiet() -> None:
    """Ctrl-C is for the process that counts; what tools print is not looked at."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _count(counts: Counts, result: Result) -> None:
    counts.graphs += 1
    counts.formats[result.format] += 1
    counts.traits.update(result.traits)
    counts.passed.update(result.passed)
    for stage, reason in result.refused:
        message = reason.partition("error: ")[2] or reason  # what onnxruntime refuses has no place
        counts.refused[f"{stage}: {message.splitlines()[0][:80]}"] += 1
    if result.failure is not None:
        counts.failures.append(result.failure)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python test/fuzz", description=__doc__.partition("\n")[0] if __doc__ else None
    )
    parser.add_argument("--graphs", type=int, default=100, metavar="N", help="number of graphs (default: 100)")
    parser.add_argument(
        "--seed", default="0", metavar="S", help="first seed, or `fresh` for a random one, which is printed"
    )
    parser.add_argument("--forever", action="store_true", help="until Ctrl-C, from a fresh seed")
    parser.add_argument(
        "--format", default="", choices=sorted(set(FORMATS)), help="one format only (default: all in turn)"
    )
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="default: 2")
    parser.add_argument(
        "--out", default="", metavar="FOLDER", help="keep the files of graphs that fail, and a smaller one of each"
    )
    parser.add_argument("--json", default="", metavar="FILE", help="write the counts")
    given = parser.parse_args(arguments)
    fresh = given.seed == "fresh" or given.forever
    first = secrets.randbelow(10**9) if fresh else int(given.seed)
    print(f"seeds from {first}", flush=True)
    seeds = count(first) if given.forever else range(first, first + given.graphs)

    def show(failure: Failure) -> None:
        print(f"{failure.text}\n  {failure.command}", flush=True)

    out = str(Path(given.out).resolve()) if given.out else ""
    counts = campaign(seeds, processes=given.processes, format_=given.format, out=out, on_failure=show)
    print(counts.line())
    if given.json:
        data = {**vars(counts), "failures": [asdict(failure) for failure in counts.failures]}
        Path(given.json).write_text(json.dumps(data, indent=1, ensure_ascii=False), "utf-8")
    return 1 if counts.failures else 0


if __name__ == "__main__":
    sys.exit(main())
