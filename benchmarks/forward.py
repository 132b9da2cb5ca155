"""Milliseconds of one run on one sample, inside one process: the numpy interpreter and onnxruntime.

    python benchmarks/forward.py

`numpy` runs the fused float module, `integer` the `ascend` module of the same network; `onnx.reference` is ONNX's own one,
run once. A figure is the median of several runs that take turns, after one that does not count. `SQNR` is that of the integer
result against onnxruntime's float one.

Goals: numpy at most 2.5 times onnxruntime with one thread and 2.8 times with two on ResNet-50, 6 times on MobileNetV2; integers
at most 1.2 times numpy; `onnx.reference` at least 50 times slower. The last is out of reach: the onnx package computes
convolutions as matrix products itself by now, so that most of what it takes is the same product in the same BLAS.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import models
import numpy as np
import process

from amct_opt.support.tables import print_table

ROUNDS = 7
NETWORKS = ("resnet50", "mobilenet", "transformer")
HEADERS = (
    "model",
    "threads",
    "onnxruntime",
    "numpy",
    "integer",
    "reference",
    "numpy / ort",
    "integer / numpy",
    "reference / numpy",
    "SQNR",
)


def main() -> None:
    rows = [_in_a_process(network, threads) for network in NETWORKS for threads in (1, 2)]
    print_table("ms per run", HEADERS, rows)


def _in_a_process(network: str, threads: int) -> Sequence[str]:
    """BLAS reads how many threads it may have when it is loaded."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads)}
    command = [sys.executable, __file__, str(models.network(network)), str(models.samples(network)), str(threads)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return (network, *done.stdout.strip().split("\t"))


def measure(model: Path, data: Path, threads: int) -> None:
    import onnxruntime

    from amct_opt import frontends
    from amct_opt.pipelines.passes import make_pass, run_passes
    from amct_opt.runtime.executor import Executable
    from amct_opt.session.universe import new_session

    rows = np.load(data, mmap_mode="r")
    feed = {"data": np.ascontiguousarray(rows[models.CALIBRATION :][:1])}
    session = new_session()
    module = frontends.read(model, session)
    run_passes(module, [make_pass("canonicalize"), make_pass("fuse-all")], session)
    numpy = Executable(module)
    quantized = module.clone()
    quantize = f"data={data} samples=10 observer=minmax"
    run_passes(quantized, [make_pass("quantize", quantize), make_pass("lower-to-ascend")], session)
    integer = Executable(quantized)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    ort = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    runs = [lambda: ort.run(None, feed), lambda: numpy.run(feed), lambda: integer.run(feed)]
    theirs, ours, integers = in_turn(runs)
    reference = _reference(model, feed) if threads == 1 else None
    expected, values = np.asarray(ort.run(None, feed)[0]), next(iter(integer.run(feed).values()))
    noise = np.square(values.astype(np.float64) - expected).sum()
    cells = [str(threads), *(process.spread(times).text(1e-3, 1) for times in (theirs, ours, integers))]
    cells.append("" if reference is None else f"{1000 * reference:.0f}")
    cells += [process.ratios(ours, theirs).text(), process.ratios(integers, ours).text()]
    cells.append("" if reference is None else f"{reference / process.spread(ours).median:.0f}")
    print("\t".join([*cells, f"{10 * np.log10(np.square(expected.astype(np.float64)).sum() / noise):.1f} dB"]))


def in_turn(runs: Sequence[Callable[[], object]]) -> list[list[float]]:
    """Seconds of each, `ROUNDS` times, after one that does not count."""
    times: list[list[float]] = [[] for _ in runs]
    for turn in range(ROUNDS + 1):
        for run, measured in zip(runs, times, strict=True):
            start = time.perf_counter()
            run()
            if turn:
                measured.append(time.perf_counter() - start)
    return times


def _reference(model: Path, feed: dict[str, np.ndarray]) -> float:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(str(model))
    start = time.perf_counter()
    evaluator.run(None, feed)
    return time.perf_counter() - start


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
