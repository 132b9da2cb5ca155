"""How long each part takes: import, passes, and one run at every stage next to onnxruntime.

    python benchmarks/run.py [MODEL.onnx ...]

Without models: the digits example, and light models of the onnx package with seeded weights. Inputs are seeded noise, so the
figures are times and memory, never accuracy. A run is the fastest of several; OPENBLAS_NUM_THREADS decides the threads of numpy.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from importlib.util import module_from_spec, spec_from_file_location
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from xdsl.dialects.builtin import ModuleOp

from amct_opt import frontends
from amct_opt.data import synthetic_samples
from amct_opt.ir.functions import main_function
from amct_opt.pipelines.passes import make_pass, run_passes
from amct_opt.pipelines.timing import peak_memory
from amct_opt.runtime.executor import Executable
from amct_opt.session.universe import new_session
from amct_opt.support.tables import print_table

Array = np.ndarray[Any, np.dtype[Any]]

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
LIGHT_MODELS = ("squeezenet", "resnet50")
REPEATS = 5
CALIBRATION_SAMPLES = 2

HEADERS = (
    "model",
    "import s",
    "fuse s",
    "quantize s",
    "lower s",
    "float ms",
    "fake ms",
    "int8 ms",
    "ort ms",
    "peak MB",
)


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def fastest(action: Callable[[], object]) -> float:
    """Milliseconds of the fastest of several calls, after one that does not count."""
    action()
    return 1000 * min(seconds(action) for _ in range(REPEATS))


def ort_run(path: Path, inputs: Mapping[str, Array]) -> Callable[[], object]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, dict(inputs))


def measure(path: Path, folder: Path) -> tuple[str, ...]:
    """One row of the table."""
    session = new_session()
    start = time.perf_counter()
    module = frontends.read(path, session)
    importing = time.perf_counter() - start
    function = main_function(module)
    samples = synthetic_samples(function, count=CALIBRATION_SAMPLES)
    inputs = next(iter(samples.batches()))
    data = folder / "data.npz"
    np.savez(data, **dict[str, Any](samples.arrays()))

    def passes(*names_and_options: tuple[str, str]) -> float:
        chain = [make_pass(name, options) for name, options in names_and_options]
        return seconds(lambda: run_passes(module, chain, session))

    def one_run(stage: ModuleOp) -> float:
        executable = Executable(stage)
        return fastest(lambda: executable.run(inputs))

    fusing = passes(("canonicalize", ""), ("fuse-all", ""))
    floating = one_run(module)
    quantizing = passes(("quantize", f"data={data}"))
    fake = one_run(module)
    lowering = passes(("lower-to-ascend", ""))
    integer = one_run(module)
    reference = fastest(ort_run(path, inputs))
    parts = [f"{t:.2f}" for t in (importing, fusing, quantizing, lowering)]
    runs = [f"{t:.2f}" for t in (floating, fake, integer, reference)]
    return (path.stem, *parts, *runs, f"{peak_memory() / 1e6:.0f}")


def light_model(name: str, folder: Path) -> Path:
    """A light model written to `folder`."""
    spec = spec_from_file_location("light", EXAMPLES / "models" / "light.py")
    assert spec is not None
    assert spec.loader is not None
    light = module_from_spec(spec)
    spec.loader.exec_module(light)
    path = folder / f"{name}.onnx"
    onnx.save(light.build(name), path)
    return path


def main(models: list[Path]) -> None:
    with (
        tempfile.TemporaryDirectory() as temporary,
        # a process for each task, so that the memory measured is the model's own
        ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool,
    ):
        folder = repeat(Path(temporary))
        models = models or [EXAMPLES / "digits" / "digits.onnx", *pool.map(light_model, LIGHT_MODELS, folder)]
        rows = list(pool.map(measure, models, folder))
    print_table("benchmarks, one sample per run", HEADERS, rows)


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
