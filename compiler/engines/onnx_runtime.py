"""The engine `onnxruntime`: the module as an ONNX file with the wanted values as outputs, run in threads.

One session, and one thread per core that runs whole batches: threads inside operations gain less, and wait for each other.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from xdsl.ir import BlockArgument, SSAValue

from ..data.stored import Array
from ..ir.functions import input_names, main_function
from ..runtime.executor import Executable
from ..support.diagnostics import CompileError, first_line
from ..targets.graph import source
from ..transforms.quantization.options import Device
from .float_graph import Shown, in_order, write_float_graph
from .threads import OrderedBatches, Turn, threads_here
from .work import Work

_FATAL = 4


class OnnxRuntime:
    """A unit of work whose module onnxruntime has loaded.

    A batch that it cannot run, or whose results are not finite, is run by the interpreter, which reports the operation.
    """

    def __init__(self, work: Work, threads: int | None, folder: Path, device: Device = "cpu"):
        """Raises CompileError if the module has no form in ONNX, or onnxruntime rejects it."""
        self._work = work
        self._threads = min(threads or (threads_here() if device == "cpu" else 1), work.samples.runs)
        self._values = in_order(work.module, list(work.wanted))
        self._arguments = _arguments(work, self._values)
        computed = {v: work.wanted[v] for v in self._values if v not in self._arguments}
        self._shown: list[Shown] = []
        self._session: Any = None
        if computed:
            path = folder / "model.onnx"
            self._shown = write_float_graph(work.module, computed, path)
            self._session = _session(path, device)
        self._interpreter: Executable | None = None
        self._repeated: list[str] = []

    def run(self) -> None:
        """Raises CompileError, located in the data, at an operation, or as the watcher does."""
        OrderedBatches(self._work.samples.batches()).run(self._batch, self._threads)
        if self._repeated:
            count = f"{len(self._repeated)} of {self._work.samples.runs} batches"
            self._work.session.note(f"{count} were run in numpy again: {self._repeated[0]}")

    def _batch(self, batch: Mapping[str, Array], turn: Turn) -> None:
        try:
            arrays = self._computed(batch)
        except _Unusable as e:
            with turn:
                self._repeat(batch, str(e))
                self._work.done()
            return
        self._tell(arrays, ordered=False)
        with turn:
            self._tell(arrays, ordered=True)
            self._work.done()

    def _computed(self, batch: Mapping[str, Array]) -> dict[SSAValue, Array]:
        """The wanted values, or their extremes. Raises _Unusable."""
        arrays = {value: batch[name] for value, name in self._arguments.items()}
        if self._session is None:
            return arrays
        try:
            outputs: list[Array] = self._session.run(None, dict(batch))
        except Exception as e:  # onnxruntime's errors have no other base class
            raise _Unusable(first_line(e)) from None
        rest = iter(outputs)
        for shown in self._shown:
            found = [next(rest) for _ in shown.outputs]
            if shown.reduced and not np.isfinite(found).all():
                raise _Unusable("not all values are finite")
            array = np.array(found[:2]) if shown.reduced else found[0]
            arrays.update(dict.fromkeys(shown.values, array))
        return arrays

    def _tell(self, arrays: dict[SSAValue, Array], *, ordered: bool) -> None:
        """Shows the wanted values; each is dropped afterwards."""
        for value in self._values:
            if value in arrays and self._work.wanted[value].ordered == ordered:
                self._work.watch(value, arrays.pop(value))

    def _repeat(self, batch: Mapping[str, Array], reason: str) -> None:
        if self._interpreter is None:
            self._interpreter = Executable(self._work.module, self._values)
        self._interpreter.run(batch, self._work.watch)
        self._repeated.append(reason)


class _Unusable(Exception):
    """The result of onnxruntime for a batch cannot be used."""


def _arguments(work: Work, values: Sequence[SSAValue]) -> dict[SSAValue, str]:
    """The values that are inputs, with their input."""
    function = main_function(work.module)
    names = dict(zip(function.body.block.args, input_names(function), strict=True))
    return {v: names[a] for v in values if isinstance(a := source(v), BlockArgument)}


Arithmetic = Literal["exact", "saturates", "wraps"]
"""Ways in which onnxruntime adds products of uint8 and int8: in 32 bits, or two at a time in 16 bits."""


@cache
def arithmetic() -> Arithmetic:
    """Finds out how onnxruntime adds products here, by convolutions whose sums of two products leave 16 bits.

    Raises what onnxruntime raises, or ImportError.
    """
    onnxruntime: Any = import_module("onnxruntime")
    products, steps, zero_point = 64, 100, 128

    def differs(x: int, weight: int) -> bool:
        sums = products * x * weight
        given = {
            "one": np.float32(1),
            "zero": np.uint8(0),
            "weight": np.full((16, products, 1, 1), weight, np.int8),
            "no offset": np.int8(0),
            "scale": np.float32(abs(sums) / steps or 1),
            "offset": np.uint8(zero_point),
        }
        constants = [numpy_helper.from_array(np.asarray(each), name) for name, each in given.items()]
        inputs = ["x", "one", "zero", "weight", "one", "no offset", "scale", "offset"]
        x_info, y_info = (helper.make_tensor_value_info(name, TensorProto.UINT8, None) for name in "xy")
        node = helper.make_node("QLinearConv", inputs, ["y"])
        graph = helper.make_graph([node], "probe", [x_info], [y_info], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=providers("cpu"))
        (y,) = session.run(None, {"x": np.full((1, products, 4, 4), x, np.uint8)})
        return bool((y != zero_point + (steps if sums else 0)).any())

    return "saturates" if differs(255, 127) else "wraps" if differs(0, -128) else "exact"


def processor() -> str:
    """The name of the processor."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
_ON_CPU = "device=cpu computes without a GPU"


def providers(device: Device) -> list[Any]:
    """The execution providers for onnxruntime; it uses the first that it can. Products on a GPU have all bits of float32."""
    return [_CPU] if device == "cpu" else [(_CUDA, {"use_tf32": 0}), _CPU]


def check_device(device: Device) -> None:
    """Raises CompileError if onnxruntime is not installed, or not for the device."""
    try:
        known: list[str] = import_module("onnxruntime").get_available_providers()
    except ImportError:
        hint = "pip install onnxruntime-gpu"
        raise CompileError(f"device {device} requires onnxruntime", hint=hint, option="device") from None
    if device != "cpu" and _CUDA not in known:
        message = f"device {device}: this onnxruntime has no {_CUDA}, only {', '.join(known)}"
        raise CompileError(message, hint=f"pip install onnxruntime-gpu in its place; {_ON_CPU}", option="device")


def check_started(session: Any, device: Device) -> None:
    """Raises CompileError if onnxruntime took the processor in place of the device, as it does where drivers are missing."""
    if device != "cpu" and session.get_providers()[0] != _CUDA:
        message = f"onnxruntime could not start on {device}, and took the processor"
        raise CompileError(message, hint=f"its log says why: CUDA and cuDNN of its version are needed; {_ON_CPU}")


def _session(path: Path, device: Device) -> Any:
    """Raises CompileError if onnxruntime cannot be loaded, rejects the file, or does not compute on the device."""
    try:
        onnxruntime: Any = import_module("onnxruntime")
    except ImportError as e:
        raise CompileError(f"onnxruntime cannot be loaded: {first_line(e)}") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # plans hold each thread's values at once
    options.log_severity_level = _FATAL
    options.add_session_config_entry("session.disable_quant_qdq", "1")  # computes exactly what the module specifies
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=providers(device))
    except Exception as e:  # onnxruntime's errors have no other base class
        raise CompileError(f"onnxruntime does not take the model: {first_line(e)}") from None
    check_started(session, device)
    return session
