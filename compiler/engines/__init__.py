"""Backends run a module over samples: numpy's interpreter, onnxruntime, or IREE. All show the same values to a watcher."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from ..dialects.nn import weights_of
from ..ir.weights import set_aside
from ..runtime.executor import Executable
from ..runtime.kernels import Array
from ..support.diagnostics import CompileError
from ..support.files import scratch
from ..transforms.quantization.options import Device, Engine
from .cluster import Workers, check
from .estimate import loading, numbers, weights
from .float_graph import in_order
from .work import Wanted, Work

START = 1 << 27
"""Numbers that numpy moves while onnxruntime starts; onnxruntime must save at least that much."""
_INSTALL = "pip install 'amct-opt[onnxruntime]'"


@dataclass(frozen=True)
class Runner:
    """The engine and its number of threads."""

    engine: Engine = "auto"
    threads: int | None = None
    """The number of threads of onnxruntime; default: one per core, at most 8."""
    cluster: str | Workers | None = None
    """The workers that share the work, or a Dask cluster: `local:2` or `tcp://host:8786`. None for this process."""
    checkpoint: Path | None = None
    """The folder that keeps what a cluster has computed."""
    device: Device = "cpu"
    """The device on which onnxruntime computes."""

    def __post_init__(self) -> None:
        """Raises CompileError for an engine that is not installed, an invalid number of threads, a bad name of a cluster, or a
        device that it does not compute on.
        """
        if isinstance(self.cluster, str):
            check(self.cluster)
        if self.threads is not None and self.threads < 1:
            raise CompileError(f"threads must be positive, not {self.threads}", option="threads")
        if self.engine in ("numpy", "iree", "torch") and (self.threads or 1) > 1:
            hint = "engine=onnxruntime has threads; those inside of numpy's products are OPENBLAS_NUM_THREADS"
            raise CompileError(f"engine {self.engine} runs one batch at a time", hint=hint, option="threads")
        if self.engine == "onnxruntime" and not _installed():
            message = "engine onnxruntime requires onnxruntime to be installed"
            raise CompileError(message, hint=_INSTALL, option="engine")
        if self.engine == "torch" and not torch_installed():
            message = "engine torch requires PyTorch to be installed"
            raise CompileError(message, hint="pip install 'amct-opt[torch]'", option="engine")
        if self.device != "cpu":
            self._check_device()

    def _check_device(self) -> None:
        """Raises CompileError if onnxruntime does not compute here, or not on the device."""
        if self.engine not in ("auto", "onnxruntime"):
            message = f"engine {self.engine} does not compute on {self.device}"
            raise CompileError(message, hint="leave out engine, which is onnxruntime then", option="device")
        if self.cluster is not None:
            message = f"workers of a cluster do not compute on {self.device}"
            raise CompileError(message, hint="leave the cluster or the device out", option="device")
        from .onnx_runtime import check_device

        check_device(self.device)

    def run(self, work: Work) -> None:
        """`auto` uses onnxruntime if there is enough to compute and it supports the module; a note reports if it does not.

        Raises CompileError, located in the data, at an operation, or as the watcher does.
        """
        if self.engine == "iree":
            _in_native_code(work, self.engine)
        elif self.engine == "torch":
            from .in_torch import run_in_torch

            run_in_torch(work)
        elif self.device != "cpu":
            self._in_onnxruntime(work)
        elif self.engine == "numpy" or (self.engine == "auto" and not worthwhile(work)):
            _in_numpy(work)
        elif not _installed():
            work.session.note(f"{_INSTALL} makes this several times faster")
            _in_numpy(work)
        else:
            self._in_onnxruntime(work)

    def power(self, x: Array, exponent: float) -> Array:
        """The powers of float32 numbers, as PyTorch rounds them if it is the engine; otherwise they are the nearest float32."""
        if self.engine == "torch":
            from .in_torch import power

            return power(x, exponent)
        return (x.astype(np.float64) ** exponent).astype(np.float32)

    def settled(self, work: Work) -> Runner:
        """The runner with the engine that `run` would take instead of `auto`: parts of the work must all take the same."""
        if self.engine != "auto" or self.device != "cpu":
            return self
        if worthwhile(work) and _installed():
            from .onnx_runtime import OnnxRuntime

            with suppress(CompileError), scratch() as folder:
                OnnxRuntime(work, 1, folder)
                return replace(self, engine="onnxruntime")
        return replace(self, engine="numpy", threads=None)

    def _in_onnxruntime(self, work: Work) -> None:
        from .onnx_runtime import OnnxRuntime

        with scratch() as folder:
            try:
                with work.session.phase("load into onnxruntime"):
                    _set_weights_aside(work, folder)
                    prepared = OnnxRuntime(work, self.threads, folder, self.device)
            except CompileError as e:
                if self.device != "cpu":
                    raise
                if self.engine == "onnxruntime":
                    raise CompileError(e.message, where=e.where, hint="engine=numpy runs every module") from None
                place = f"{e.where}: " if e.where else ""
                work.session.note(f"running in numpy, as onnxruntime cannot: {place}{e.message}")
                _in_numpy(work)
                return
            prepared.run()


def _in_numpy(work: Work) -> None:
    """Runs the interpreter, batch by batch."""
    executable = Executable(work.module, list(work.wanted))
    for batch in work.samples.batches():
        executable.run(batch, work.watch)
        work.done()


def _in_native_code(work: Work, engine: str) -> None:
    """Compiles the module, and runs batches one after the other. Raises CompileError as the engine and the watcher do."""
    with work.session.phase(f"compile with {engine.upper()}"):
        native = work.session.engines[engine](work.module, work.session, in_order(work.module, list(work.wanted)))
    for batch in work.samples.batches():
        native.run(batch, work.watch)
        work.done()


def _set_weights_aside(work: Work, folder: Path) -> None:
    """Releases computed weights: onnxruntime has its own copy, and ours are not read until calibration is over."""
    try:
        set_aside(weights_of(work.module), folder / "weights.safetensors")
    except OSError as e:
        raise CompileError(f"{folder}: {e.strerror}") from None


def worthwhile(work: Work) -> bool:
    """Whether onnxruntime finishes earlier, including its start and the loading of operations and weights."""
    return numbers(work) >= START + 2 * weights(work) + loading(work)


def _installed() -> bool:
    return find_spec("onnxruntime") is not None


def torch_installed() -> bool:
    """Whether torch can be imported."""
    return find_spec("torch") is not None


HERE = Runner()
"""Runs in this process, with the engine that finishes first."""

__all__ = ["HERE", "Runner", "Wanted", "Work", "torch_installed"]
