"""Shrinks a graph that fails, and writes what is left as ONNX and as module text next to the file of the whole graph.

ONNX models stay ONNX, and onnxruntime computes what candidates must give. Graphs of TensorFlow and Caffe become modules: if their
first run is wrong, onnxruntime computes the ONNX file of a candidate, and what is wrong in the import is not reduced.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, ValueInfoProto
from xdsl.dialects.builtin import ModuleOp

from amct_opt.dialects.nn.shapes import element_of, shape_of
from amct_opt.examine.checking.following import Graph
from amct_opt.examine.reduction import Reducer
from amct_opt.examine.reduction.candidates import Model, form_of, read
from amct_opt.examine.reduction.command import counted, write
from amct_opt.examine.reduction.saving import save
from amct_opt.ir.dtypes import numpy_dtype
from amct_opt.ir.functions import input_names, main_function
from amct_opt.runtime.comparison import layer_values
from amct_opt.runtime.executor import Executable
from amct_opt.session import ImportOptions
from amct_opt.session.universe import new_session
from amct_opt.targets.onnx import OnnxTarget

from .case import Array, Case
from .checks import Mismatch, check
from .choices import Choices
from .graph import run as onnxruntime_run

SECONDS = 60.0
"""How long a reduction takes at most."""

_RAISED = re.compile(r"[^:]*: (?P<kind>\w+(?:Error|Exception|Exit)|refused|the \w+)\b")


def shrink(
    case: Case, choices: Choices, failure: Mismatch, stem: Path, limited: Callable[[], AbstractContextManager[None]]
) -> str:
    """Writes `<stem>.onnx` and `<stem>.mlir`, and says what is left; `limited` bounds the time of each candidate."""
    session = new_session()
    session.warn = session.note = lambda message: None  # type: ignore[method-assign]
    session.imports = ImportOptions() if case.format == "onnx" else ImportOptions(**case.imports)
    model = read(case.path, session)
    values = _values(model, case.inputs)

    def fails(candidate: Model) -> bool:
        with tempfile.TemporaryDirectory() as folder:
            try:
                with limited():
                    smaller = _case(candidate, case, values, Path(folder), failure.stage)
                    check(smaller, choices, Path(folder))
            except Mismatch as e:
                return e.stage == failure.stage and _kind(e) == _kind(failure)
            except Exception:  # what no oracle runs, or takes too long, shows nothing
                return False
        return False

    if not fails(model):
        return "not reduced: its module alone does not fail"
    small = Reducer(form_of(model), fails, SECONDS).run(model)
    stem.parent.mkdir(parents=True, exist_ok=True)
    save(small, stem, session, write)
    return f"{counted(small)} of {counted(model)} operations in {stem}.onnx and .mlir still fail"


def _kind(failure: Mismatch) -> str:
    """What is raised, or that numbers differ."""
    found = _RAISED.match(str(failure))
    return found["kind"] if found else "numbers"


def _values(model: Model, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """Inner values by the names that inputs of candidates have."""
    if isinstance(model, ModuleOp):
        graph = Graph(model)
        trace = graph.trace(inputs)
        return {**{name: trace[graph.slots[value]] for name, value in layer_values(model).items()}, **inputs}
    shown = ModelProto()
    shown.CopyFrom(model)
    given = {value.name for value in model.graph.output}
    made = [name for node in model.graph.node for name in node.output if name and name not in given]
    shown.graph.output.extend(ValueInfoProto(name=name) for name in made)
    try:
        found = onnxruntime_run(shown, inputs, optimized=False)
    except Exception:  # onnxruntime raises classes of its own
        return inputs
    return {**{name: array for name, array in found.items() if isinstance(array, np.ndarray)}, **inputs}


def _case(model: Model, case: Case, values: Mapping[str, Array], folder: Path, stage: str) -> Case:
    """A candidate in a file, on the values that it had in the whole graph; of sizes that changed, a part of them."""
    random = np.random.default_rng(0)

    def array(name: str, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
        value = values.get(name)
        if value is None or value.dtype != dtype or value.ndim != len(shape):
            value = random.normal(0, 1, [n if n > 0 else 2 for n in shape])
        return np.resize(value, [n if n > 0 else m for n, m in zip(shape, value.shape, strict=True)]).astype(dtype)

    if isinstance(model, ModuleOp):
        function = main_function(model)
        arguments = zip(input_names(function), function.body.block.args, strict=True)
        inputs = {name: array(name, tuple(shape_of(a)), numpy_dtype(element_of(a))) for name, a in arguments}
        path = write(model, folder / "candidate.mlir")
        expected = _of_onnx(model, inputs, folder) if stage == "run" else Executable(model).run(inputs)
        return replace(case, path=path, inputs=inputs, expected=expected, imports={})
    inputs: dict[str, Array] = {}
    weights = {weight.name for weight in model.graph.initializer}
    for value in model.graph.input:
        if value.name not in weights:
            type_ = value.type.tensor_type
            shape = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in type_.shape.dim)
            inputs[value.name] = array(value.name, shape, onnx.helper.tensor_dtype_to_np_dtype(type_.elem_type))
    path = write(model, folder / "candidate.onnx")
    expected = onnxruntime_run(model, inputs, optimized=False)
    return replace(case, path=path, inputs=inputs, expected=expected, imports={})


def _of_onnx(module: ModuleOp, inputs: Mapping[str, Array], folder: Path) -> dict[str, Array]:
    (path,) = OnnxTarget().write(module, folder / "oracle.onnx", new_session().silent())
    return onnxruntime_run(path.read_bytes(), inputs, optimized=False)
