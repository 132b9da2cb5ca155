"""Integers as native code: what IREE makes of `-t linalg`, compared with the interpreter and onnxruntime's int8.

    python benchmarks/native.py

`iree` and `interpreter` run the same `ascend` module (with AscendRequant), `onnxruntime` the QDQ file of the profile `qdq`, each
on one sample in two threads; a figure is the median of several runs that take turns, after one that does not count. `compile` is
the time of `iree-compile`, `code` its result without weights. `peak` is what one run takes in a process of its own that reads the
module and runs it, with the code compiled before. `differing` counts elements of the outputs that IREE computes otherwise than
the interpreter; the transformer's are floats of a normalization, whose sums have another order.

Goals: `iree` at most 1.5 times the interpreter's time with less memory, `compile` at most 60 s.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import models
import numpy as np
import process
from amct_linalg.iree import IreeModule
from forward import in_turn

import amct_opt
from amct_opt.support.tables import print_table

THREADS = 2
NETWORKS = ("resnet50", "mobilenet", "transformer")
HEADERS = (
    "model",
    "interpreter ms",
    "iree ms",
    "onnxruntime ms",
    "iree / interpreter",
    "peak: interpreter",
    "iree",
    "compile s",
    "code kB",
    "differing",
)


def main() -> None:
    os.environ["OPENBLAS_NUM_THREADS"] = str(THREADS)
    print_table("two threads, one sample", HEADERS, [measured(network) for network in NETWORKS])


def measured(network: str) -> Sequence[str]:
    """The row of a network, whose files and code are made in an empty folder."""
    with TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        given = [str(models.network(network)), str(models.samples(network)), folder]
        command = [sys.executable, __file__, *given]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        *times, compiling, code, differing = done.stdout.strip().split("\t")
        peaks = [
            process.run([sys.executable, __file__, engine, f"{folder}/model.mlir", given[1]]).peak
            for engine in ("numpy", "iree")
        ]
    return network, *times, *(f"{peak >> 20} MB" for peak in peaks), compiling, code, differing


def compare(model: Path, data: Path, folder: Path) -> None:
    """Writes the files, and prints times, the size of the code and differing outputs."""
    import onnxruntime

    feed = {"data": first(data)}
    np.save(folder / "calib.npy", np.load(data, mmap_mode="r")[:10])
    qdq = folder / "model_qdq.onnx"
    module, session = quantized(model, "qdq", folder / "calib.npy")
    amct_opt.save(module, qdq, session, "onnx")
    module, session = quantized(model, "ascend", folder / "calib.npy")
    amct_opt.run_pipeline(module, "lower-to-ascend,fuse-requant", session)
    amct_opt.save(module, folder / "model.mlir", session)
    interpreter = amct_opt.Executable(module)
    start = time.perf_counter()
    native = IreeModule(module, session)
    compiling = time.perf_counter() - start
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    peer = onnxruntime.InferenceSession(qdq, options, providers=["CPUExecutionProvider"])
    runs = [lambda: interpreter.run(feed), lambda: native.run(feed), lambda: peer.run(None, feed)]
    times = in_turn(runs)
    (code,) = folder.rglob("*.vmfb")
    pairs = zip(interpreter.run(feed).values(), native.run(feed).values(), strict=True)
    counts = [(np.count_nonzero(a != b), a.size) for a, b in pairs]
    cells = [process.spread(each).text(1e-3, 1) for each in times]
    cells += [process.ratios(times[1], times[0]).text(), f"{compiling:.0f}", str(code.stat().st_size >> 10)]
    print("\t".join([*cells, f"{sum(n for n, _ in counts)} of {sum(n for _, n in counts)}"]))


def quantized(model: Path, profile: str, data: Path) -> amct_opt.Loaded:
    """A network with the integers of a profile."""
    session = amct_opt.new_session()
    session.profile = profile
    module, _ = amct_opt.load(model, session)
    amct_opt.run_pipeline(module, "canonicalize,fuse-all", session)
    return amct_opt.quantize(module, session, data=data)


def first(data: Path) -> np.ndarray:
    """A sample that does not calibrate."""
    return np.ascontiguousarray(np.load(data, mmap_mode="r")[models.CALIBRATION :][:1])


def once(engine: str, path: Path, data: Path) -> None:
    """Reads a module and runs it once."""
    module, session = amct_opt.load(path)
    run = IreeModule(module, session) if engine == "iree" else amct_opt.Executable(module)
    run.run({"data": first(data)})


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    elif sys.argv[1] in ("numpy", "iree"):
        once(sys.argv[1], *map(Path, sys.argv[2:]))
    else:
        compare(*map(Path, sys.argv[1:]))
