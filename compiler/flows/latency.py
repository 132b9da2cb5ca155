"""Latency of models in onnxruntime or OpenVINO: `amct benchmark`, and the last line of `amct quantize`."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from math import comb
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..ir.array import Array
from ..pipelines.timing import peak_memory
from ..runtime.plan import RunError
from ..support.diagnostics import CompileError, first_line
from ..support.tables import Table, Tabled, numbered
from .options import Timed

Inputs = Mapping[str, Array]

SECONDS = 0.3
"""Seconds for which `amct quantize` times its two models, together; 0 times nothing."""
ROUNDS = 50
"""Largest number of runs of each model."""
_FEWEST = 7
"""The fewest turns that can decide: all of seven turn out the same by chance in less than 1 of 100 cases."""
_LONGEST = 10
"""Most time for two models while turns do not decide which is slower, as a multiple of `SECONDS`."""
_CHANCE = 0.01
"""The largest probability that the decision by turns is chance."""
_MOST = 0.75
_EXPLAINED = (
    "middle half: half of the runs took a time between these; of the first: the median as a part of the first file's"
)
_NODE = re.compile(r"@(\d+)@")
_FATAL = 4


@dataclass(frozen=True, repr=False)
class Latency:
    """The runs of one model, in seconds of the clock, and the most memory of its process in bytes (0 if others shared it)."""

    seconds: Sequence[float]
    peak: int = 0

    def __repr__(self) -> str:
        return f"Latency({self}, {len(self.seconds)} runs)"

    def __str__(self) -> str:
        return f"{self.median * 1e3:.4g} ms"

    @property
    def median(self) -> float:
        """The median, in seconds."""
        return float(np.median(self.seconds))

    @property
    def quartiles(self) -> tuple[float, float]:
        """The quartiles in seconds, which enclose the middle half of the runs."""
        low, high = np.quantile(self.seconds, (0.25, 0.75))
        return float(low), float(high)

    def slower(self, other: Latency) -> bool | None:
        """Whether it takes at least a tenth longer than another one in more of the same turns than chance explains (a sign test).
        None if turns do not decide.
        """
        longer = [a > 1.1 * b for a, b in zip(self.seconds, other.seconds, strict=True)]
        if _chance(sum(longer), len(longer)) <= _CHANCE:
            return True
        return False if _chance(len(longer) - sum(longer), len(longer)) <= _CHANCE else None

    def faster(self, other: Latency) -> bool:
        """Whether it takes less time than another one in three of four turns; both ran in the same turns."""
        return float(np.mean([a < b for a, b in zip(self.seconds, other.seconds, strict=True)])) >= _MOST


@dataclass(frozen=True, repr=False)
class Latencies(Tabled):
    """Latencies of models on the same inputs, measured in turns, so that other load on the machine affects all of them."""

    models: Mapping[Path, Latency]
    version: str
    threads: int
    """The threads of each model; 0 for as many as the engine chooses."""
    batch: int
    """The samples of each run."""
    engine: Timed = "onnxruntime"

    def __repr__(self) -> str:
        return f"Latencies({', '.join(f'{path.name} {each}' for path, each in self.models.items())})"

    def tables(self) -> Sequence[Table]:
        """One table: each model's median, quartiles, ratio to the first and memory."""
        headers = ("model", "median ms", "middle half", "of the first", "runs", "peak MB")
        first = next(iter(self.models.values())).median
        rows = [
            (
                str(path),
                f"{each.median * 1e3:.4g}",
                " to ".join(f"{value * 1e3:.4g}" for value in each.quartiles),
                f"{each.median / first:.2f}",
                str(len(each.seconds)),
                f"{each.peak / 1e6:,.0f}",
            )
            for path, each in self.models.items()
        ]
        return [Table(self.setting, headers, rows, _EXPLAINED)]

    @property
    def setting(self) -> str:
        """The runtime, its threads, and the samples of a run."""
        threads = "its own number of threads" if not self.threads else numbered(self.threads, "thread")
        return f"{self.engine} {self.version}, {threads}, {numbered(self.batch, 'sample')} in a run"

    def data(self) -> dict[str, Any]:
        """The measurement as plain data for JSON; times are in milliseconds."""
        models = [
            {
                "model": str(path),
                "median_ms": each.median * 1e3,
                "middle_half_ms": [value * 1e3 for value in each.quartiles],
                "runs": len(each.seconds),
                "peak_bytes": each.peak,
            }
            for path, each in self.models.items()
        ]
        return {self.engine: self.version, "threads": self.threads, "batch": self.batch, "models": models}


def _chance(count: int, turns: int) -> float:
    """The probability that at least `count` of these turns have an outcome that each turn has with a probability of a half."""
    return sum(comb(turns, each) for each in range(count, turns + 1)) / 2**turns


def benchmark(
    models: Sequence[Path],
    inputs: Inputs,
    *,
    threads: int = 1,
    warm_up: int = 2,
    rounds: int = ROUNDS,
    engine: Timed = "onnxruntime",
) -> Latencies:
    """Time ONNX files, each in a separate process, one run of each after the other.

    `inputs` are those of one run, by name. `warm_up` runs of each model do not count. Raises CompileError, located in the file
    that the engine does not run, and without the engine.
    """
    version = str(_runtime(engine).__version__).partition("-")[0]
    with ExitStack() as stack:
        spawn = get_context("spawn")
        workers = [stack.enter_context(ProcessPoolExecutor(1, spawn)) for _ in models]

        def turn(count: int) -> list[list[float]]:
            found: list[list[float]] = []
            for worker, path in zip(workers, models, strict=True):
                try:
                    found.append(worker.submit(_seconds, path, inputs, threads, engine, count).result())
                except BrokenProcessPool:
                    raise CompileError("the process that ran it died", where=str(path)) from None
            return found

        turn(warm_up)
        times = [turn(1) for _ in range(rounds)]
        peaks = [worker.submit(peak_memory).result() for worker in workers]
    found = [Latency([each[i][0] for each in times], peak) for i, peak in enumerate(peaks)]
    return Latencies(dict(zip(models, found, strict=True)), version, threads, _batch(inputs), engine)


def side_by_side(models: Mapping[Path, Inputs], rounds: int = ROUNDS, engine: Timed = "onnxruntime") -> Latencies:
    """Time ONNX files in this process, with one thread, for `SECONDS` or this many rounds; two of them longer while it is not
    decided whether the second is slower.

    `models` have the inputs of one run of each, by name. Raises CompileError without the engine and for a file that it does not
    open, RunError for one that it does not run on its inputs.
    """
    runtime = _runtime(engine)
    opened = [_opened(path, 1, engine) for path in models]
    runs = [(model, inputs, [_run(model, inputs)]) for model, inputs in zip(opened, models.values(), strict=True)]
    times = [seconds for _, _, seconds in runs]  # the first runs are slower, and do not count
    begin = time.perf_counter()
    while len(times[0]) <= _FEWEST or _goes_on(times, time.perf_counter() - begin, rounds):
        for model, inputs, seconds in runs:
            seconds.append(_run(model, inputs))
    found = {path: Latency(seconds[1:]) for path, seconds in zip(models, times, strict=True)}
    return Latencies(found, runtime.__version__, 1, _batch(next(iter(models.values()))), engine)


def _goes_on(times: Sequence[Sequence[float]], passed: float, rounds: int) -> bool:
    """Whether the models run once more, `passed` seconds after the first turn."""
    if len(times[0]) > rounds or passed >= _LONGEST * SECONDS:
        return False
    return passed < SECONDS or (len(times) == 2 and Latency(times[1][1:]).slower(Latency(times[0][1:])) is None)


def by_node(path: Path, inputs: Inputs) -> dict[int, float]:
    """The median seconds of the nodes of an ONNX file that are called `@0@`, `@1@`, ...; if onnxruntime merges nodes, the time
    belongs to the first of them. The profile is written next to the file and removed. Raises CompileError as `side_by_side` does.
    """
    session = _session(path, 1, profile=path.with_suffix(""))
    model = _Opened(partial(session.run, None), "onnxruntime")
    _run(model, inputs)
    end = time.perf_counter() + SECONDS
    for turn in range(ROUNDS):
        if turn >= _FEWEST and time.perf_counter() > end:
            break
        _run(model, inputs)
    profile = Path(session.end_profiling())
    events: Any = json.loads(profile.read_text("utf-8"))
    profile.unlink()
    found: dict[int, list[float]] = {}
    for event in events:
        if (node := _NODE.search(event["name"])) is not None and event["name"].endswith("_kernel_time"):
            found.setdefault(int(node[1]), []).append(event["dur"] * 1e-6)
    return {node: float(np.median(each)) for node, each in found.items()}


def _batch(inputs: Inputs) -> int:
    """The samples of a run: the size of the first axis that an input has."""
    return next((array.shape[0] for array in inputs.values() if array.ndim), 1)


def _runtime(engine: Timed) -> Any:
    if engine == "openvino":
        from ..engines.in_openvino import openvino

        return openvino()
    try:
        return import_module("onnxruntime")
    except ImportError:
        raise CompileError("timing needs onnxruntime", hint="pip install 'amct-opt[onnxruntime]'") from None


class _Opened(NamedTuple):
    """A file that an engine has loaded."""

    run: Callable[[Inputs], object]
    engine: Timed


def _opened(path: Path, threads: int, engine: Timed = "onnxruntime") -> _Opened:
    """A file with the default options of the engine, but for the number of threads. Raises CompileError, located in the file."""
    if engine == "onnxruntime":
        return _Opened(partial(_session(path, threads).run, None), engine)
    from ..engines.in_openvino import compiled

    return _Opened(compiled(path, threads).create_infer_request().infer, engine)


def _session(path: Path, threads: int, profile: Path | None = None) -> Any:
    """A file in onnxruntime. With `profile`, the beginning of a file's name, its nodes are timed."""
    runtime = _runtime("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = _FATAL
    options.intra_op_num_threads = threads
    if profile is not None:
        options.enable_profiling, options.profile_file_prefix = True, str(profile)
    try:
        return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as e:  # onnxruntime's have no other base
        raise CompileError(f"onnxruntime does not take the file: {first_line(e)}", where=str(path)) from None


_only = cache(_opened)
"""The file of a process that runs no other."""


def _seconds(path: Path, inputs: Inputs, threads: int, engine: Timed, count: int) -> list[float]:
    """The times of runs in seconds, in the process of a model."""
    try:
        return [_run(_only(path, threads, engine), inputs) for _ in range(count)]
    except RunError as e:
        raise RunError(e.message, where=str(path)) from None


def _run(model: _Opened, inputs: Inputs) -> float:
    """The time of one run in seconds. Raises RunError if the engine cannot run it on these inputs."""
    start = time.perf_counter()
    try:
        model.run(inputs)
    except Exception as e:  # the engines' have no other base
        message = f"{model.engine} does not run the file on these inputs: {first_line(e)}"
        raise RunError(message) from None
    return time.perf_counter() - start
