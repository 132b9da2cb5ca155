"""The engines that run the models of `amct evaluate`: onnxruntime and OpenVINO on ONNX files, and those of the session."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ..data.inputs import Runnable
from ..engines.in_openvino import OpenVino
from ..engines.onnx_runtime import arithmetic, check_started
from ..runtime.boundary import Boundary
from ..runtime.executor import Array, Executable
from ..session import Session
from ..support.diagnostics import CompileError, first_line
from ..support.files import scratch
from ..targets.onnx import OnnxTarget
from ..transforms.quantization.convert.layer_weights import inexact_layers
from ..transforms.quantization.options import Device
from ..transforms.quantization.profiles import profile_of
from .peer import open_session


def default_engine(shared: bool) -> str:
    """onnxruntime if it is installed, because it is used for deployment; the interpreter if workers of a cluster share
    samples, because they may not have the file.
    """
    return "numpy" if shared or find_spec("onnxruntime") is None else "onnxruntime"


def named_engine(engine: str, path: Path) -> str:
    """The engine that runs a model: files that onnxruntime does not read are for the interpreter."""
    return "numpy" if engine == "onnxruntime" and path.suffix.lower() != ".onnx" else engine


def runnable(engine: str, path: Path, module: ModuleOp, session: Session, device: Device = "cpu") -> Runnable:
    """Makes a runnable of the model in a file. Raises CompileError if the engine is not installed, does not take the
    model, or does not compute on the device.
    """
    if device != "cpu" and (named := named_engine(engine, path)) != "onnxruntime":
        hint = f"device {device} is for ONNX files in onnxruntime"
        raise CompileError(f"{named} does not compute on {device}", hint=hint, option="device")
    named = named_engine(engine, path)
    if named == "onnxruntime":
        return OnnxRuntime(path, device)
    if named == "openvino" and path.suffix.lower() == ".onnx":
        return OpenVino(path, module)  # the file itself, which may be another tool's
    return session.engines[named](module, session)


@contextmanager
def as_file(module: ModuleOp, session: Session) -> Generator[Runnable]:
    """Context of a runnable that computes a module as onnxruntime will run its ONNX file here: the file if the
    processor gets sums of products wrong that the module has, else the interpreter.

    Raises CompileError if onnxruntime does not take the file.
    """
    profile = profile_of(session)
    installed = profile.facts.kernels and find_spec("onnxruntime") is not None
    if not installed or arithmetic() == "exact" or not inexact_layers(module, profile):
        yield Executable(module)
        return
    with scratch() as folder:
        OnnxTarget().write(module, folder / "network.onnx", session.silent())
        yield OnnxRuntime(folder / "network.onnx", "cpu")


@dataclass(frozen=True)
class InReals:
    """A quantized model that takes and gives the inputs and outputs of the float model."""

    model: Runnable
    boundary: Boundary

    def run(self, inputs: Mapping[str, Array], /) -> dict[str, Array]:
        """The outputs as floats, for inputs of the float model."""
        return self.boundary.reals(self.model.run(self.boundary.integers(inputs)))


class Input(NamedTuple):
    """The shape and type of an input; None for a size that is known only at run time."""

    shape: tuple[int | None, ...]
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        return f"{self.dtype} [{', '.join('?' if n is None else str(n) for n in self.shape)}]"


class OnnxRuntime:
    """An ONNX file in onnxruntime, with its default options."""

    def __init__(self, path: Path, device: Device):
        """Raises CompileError if onnxruntime is not installed, or does not take the file."""
        try:
            onnxruntime: Any = import_module("onnxruntime")
        except ImportError:
            hint = "pip install 'amct-opt[onnxruntime]'"
            raise CompileError("--engine onnxruntime requires onnxruntime", hint=hint) from None
        try:
            self._session: Any = open_session(onnxruntime, path, device)
        except Exception as e:  # onnxruntime's have no other base
            message = f"onnxruntime does not take the file: {first_line(e)}"
            raise CompileError(message, hint="--engine numpy runs it") from None
        check_started(self._session, device)
        self._outputs: list[str] = [output.name for output in self._session.get_outputs()]

    @property
    def inputs(self) -> dict[str, Input]:
        """The inputs in order, by name. Raises CompileError for a type that numpy does not have."""
        return {
            each.name: Input(tuple(n if isinstance(n, int) else None for n in each.shape), _dtype(each))
            for each in self._session.get_inputs()
        }

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Raises CompileError if onnxruntime cannot run it."""
        try:
            found: list[Array] = self._session.run(self._outputs, dict(inputs))
        except Exception as e:  # onnxruntime's have no other base
            raise CompileError(f"onnxruntime does not run the file: {first_line(e)}") from None
        return dict(zip(self._outputs, found, strict=True))


def _dtype(given: Any) -> np.dtype[Any]:
    """The type of an input that onnxruntime names `tensor(int64)`, `tensor(float)`."""
    name = str(given.type).removeprefix("tensor(").removesuffix(")")
    try:
        return np.dtype({"float": "float32", "double": "float64"}.get(name, name))
    except TypeError:
        raise CompileError(f"input '{given.name}' has type {given.type}, which numpy does not have") from None
