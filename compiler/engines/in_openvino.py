"""The engine `openvino`: ONNX files in OpenVINO on the processor, and modules as the ONNX files that they are written to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ..data.stored import Array
from ..ir.functions import main_function, output_names, return_op
from ..runtime.executor import Watch
from ..runtime.plan import RunError
from ..session import Session
from ..support.diagnostics import CompileError, first_line
from ..support.files import scratch
from ..targets.graph import source
from ..targets.onnx import OnnxTarget
from .float_graph import reduced_to

_INSTALL = "pip install 'amct-opt[openvino]'"


def openvino() -> Any:
    """The package. Raises CompileError, which says how to install it."""
    try:
        return import_module("openvino")
    except ImportError:
        raise CompileError("OpenVINO is not installed", hint=_INSTALL) from None


def compiled(path: Path, threads: int = 0) -> Any:
    """A file as OpenVINO runs it, with its default options but for the type of floats: float32, also where the processor has
    bfloat16. `threads` is their number; 0 for as many as OpenVINO chooses. Raises CompileError, located in the file.
    """
    config = {"INFERENCE_PRECISION_HINT": "f32", **({"INFERENCE_NUM_THREADS": threads} if threads else {})}
    core = openvino().Core()
    try:
        return core.compile_model(core.read_model(path), "CPU", config)
    except Exception as e:  # OpenVINO's have no other base
        raise CompileError(f"OpenVINO does not take the file: {_reason(e)}", where=str(path)) from None


class OpenVino:
    """An ONNX file in OpenVINO."""

    def __init__(self, path: Path, module: ModuleOp, watched: Sequence[SSAValue] = ()):
        """The file computes a module; outputs beyond those of the module have the `watched` values. Raises CompileError if
        OpenVINO is not installed, or does not take the file.
        """
        self.outputs: list[str] = output_names(main_function(module))
        self._model = compiled(path)
        self._watched = watched

    def run(self, inputs: Mapping[str, Array], watch: Watch | None = None) -> dict[str, Array]:
        """Arrays by output name; `watch` is called with each watched value. Raises RunError if OpenVINO cannot run it."""
        given = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
        try:
            request = self._model.create_infer_request()  # one for each run: threads may call this at the same time
            found = list(request.infer(given, share_outputs=False).values())
        except Exception as e:  # OpenVINO's have no other base
            raise RunError(f"OpenVINO does not run the file: {_reason(e)}") from None
        for value, array in zip(self._watched, found[len(self.outputs) :], strict=True):
            if watch is not None:
                watch(value, array)
        return dict(zip(self.outputs, found, strict=False))


def in_openvino(module: ModuleOp, session: Session, watched: Sequence[SSAValue] = ()) -> OpenVino:
    """A module as OpenVINO runs its ONNX file, run by input and output name like an `Executable`; `watched` values are shown in
    every run, as further outputs of the file. Raises CompileError if an operation has no form in ONNX, located there, and as
    `OpenVino` does.
    """
    function = main_function(module)
    names = output_names(function)
    shown = [f"shown/{i}" for i in range(len(watched))]
    values = [source(v) for v in (*return_op(function).operands, *watched)]
    with scratch() as folder:
        path = folder / "model.onnx"
        OnnxTarget().write(reduced_to(module, values, [*names, *shown]), path, session.silent())
        return OpenVino(path, module, watched)


def _reason(error: Exception) -> str:
    """The last line that says what is wrong: those before it say where in OpenVINO's source."""
    lines = [line.strip().removeprefix("-- ") for line in str(error).splitlines() if "src/" not in line]
    said = [line for line in lines if line and not line.endswith(":") and not line.startswith("Conversion is failed")]
    return first_line(said[-1] if said else str(error))
