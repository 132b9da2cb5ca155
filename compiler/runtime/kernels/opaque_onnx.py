"""Carried operators of ONNX: run by onnxruntime; by onnx.reference if that is not installed or has no kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dialects import nn
from ...dialects.nn.shapes import known, tensor_of, text as shape_text
from ...ir.dtypes import AS_BYTES, Tensor, numpy_dtype
from ...support.diagnostics import first_line, op_error
from . import Array, Kernel

if TYPE_CHECKING:
    from onnx import ModelProto

Run = Callable[[Sequence[Array]], Sequence[Any]]
"""Maps one array per input of a model to one value per output."""

_FATAL = 4
"""onnxruntime's level for fatal messages only."""


def reference(op: nn.OpaqueOp) -> Kernel:
    """The operator as a separate model, in which constants are constants: MatMulNBits rounds its input only before
    constant weights. Results are checked against the declared types.

    If one engine fails on some inputs, or its results contradict the declared types, the other one runs them.
    Raises CompileError, located, if neither can be started.
    """
    from ...formats.onnx.opaque import model_around

    kind = op.op_type.data
    try:
        model = model_around(op)
        engines = Engines(model, _constants(op, model))
    except (TypeError, ValueError) as e:
        raise op_error(op, f"cannot be run: {e}") from None
    types = [tensor_of(r) for r in op.outputs]

    def run(*inputs: Array) -> Sequence[Array]:
        return engines.run(inputs, types, kind)

    return run


def _constants(op: nn.OpaqueOp, model: ModelProto) -> dict[str, Array]:
    """The operands that are constants, by the names of the model's inputs; empty arrays stay inputs."""
    pairs = zip(model.graph.input, map(nn.array_of, op.inputs), strict=True)
    return {
        i.name: np.require(array, requirements=["C", "A"]) for i, array in pairs if array is not None and array.size
    }


class Engines:
    """The libraries that can run a small model, in order: onnxruntime if it is installed and takes the model, then
    onnx.reference.

    An engine is started when it is first needed, once; `run` may be called from several threads at a time.
    """

    def __init__(self, model: ModelProto, constants: Mapping[str, Array]):
        """`constants` are arrays for some of the inputs, the same in every run. Raises ValueError, which names both engines, if
        neither takes the model.
        """
        self._model, self._constants = model, constants
        self._lock = Lock()
        self._started: list[tuple[str, Run]] = []
        self._waiting = list(_ENGINES)
        self._refusals: list[str] = []
        if self._engine(0) is None:
            raise ValueError("; ".join(self._refusals))

    def run(self, inputs: Sequence[Array], types: Sequence[Tensor], what: str) -> list[Array]:
        """The results of the first engine that returns arrays of these types. Raises ValueError if none does."""
        reasons: list[str] = []
        while (engine := self._engine(len(reasons))) is not None:
            name, compute = engine
            try:
                results = compute(inputs)
                return [_checked(r, t, i) for i, (r, t) in enumerate(zip(results, types, strict=True))]
            except Exception as e:  # the engines' errors have no other base class
                reasons.append(f"{name} failed on '{what}': {first_line(str(e.__cause__ or e))}")
        raise ValueError("; ".join([*reasons, *self._refusals]))

    def _engine(self, index: int) -> tuple[str, Run] | None:
        with self._lock:
            while index >= len(self._started) and self._waiting:
                name = self._waiting.pop(0)
                try:
                    self._started.append((name, _ENGINES[name](self._model, self._constants)))
                except ImportError:
                    self._refusals.append(f"{name} is not installed")
                except Exception as e:  # the engines' errors have no other base class
                    self._refusals.append(f"{name}: {first_line(e)}")
            return self._started[index] if index < len(self._started) else None


def _in_onnxruntime(model: ModelProto, constants: Mapping[str, Array]) -> Run:
    """A session of one thread that keeps no memory between runs, and computes every node unchanged."""
    onnxruntime: Any = import_module("onnxruntime")
    if unusual := _unusual(model):
        raise ValueError(f"has no arrays of {unusual}")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = _FATAL
    large = {name: array for name, array in constants.items() if array.nbytes > _INLINE}
    held = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in large.values()]
    options.add_external_initializers([*large], held)
    text = _with_constants(model, constants).SerializeToString()
    session = onnxruntime.InferenceSession(text, options, providers=["CPUExecutionProvider"])
    names = [i.name for i in model.graph.input]

    def run(arrays: Sequence[Array]) -> Sequence[Any]:
        given = zip(names, arrays, strict=True)
        return session.run(None, {n: np.asarray(a, order="C") for n, a in given if n not in constants})

    return run


_INLINE = 1024
"""Bytes of a constant up to which it is in the model."""


def _with_constants(model: ModelProto, constants: Mapping[str, Array]) -> ModelProto:
    """A copy of a model in which these inputs are initializers. The data of large ones is passed separately; onnxruntime infers
    shapes from sizes and axes that are in the model only."""
    from onnx import ModelProto, StringStringEntryProto, TensorProto, helper, numpy_helper

    copy = ModelProto()
    copy.CopyFrom(model)
    inputs = [i for i in model.graph.input if i.name not in constants]
    del copy.graph.input[:]
    copy.graph.input.extend(inputs)
    for name, array in constants.items():
        if array.nbytes <= _INLINE:
            copy.graph.initializer.append(numpy_helper.from_array(array, name))
            continue
        code = helper.np_dtype_to_tensor_dtype(array.dtype)
        tensor = TensorProto(name=name, dims=array.shape, data_type=code, data_location=TensorProto.EXTERNAL)
        entries = {"location": name, "offset": "0", "length": str(array.nbytes)}
        tensor.external_data.extend(StringStringEntryProto(key=k, value=v) for k, v in entries.items())
        copy.graph.initializer.append(tensor)
    return copy


def _unusual(model: ModelProto) -> str:
    """The first element type of an input or output that numpy itself lacks."""
    from onnx.helper import tensor_dtype_to_np_dtype

    values = [*model.graph.input, *model.graph.output]
    dtypes = [tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type) for v in values]
    return next((d.name for d in dtypes if d.kind not in "fiub" or d.name in _NOT_OF_NUMPY), "")


_NOT_OF_NUMPY = frozenset({"bfloat16", *AS_BYTES})


def _in_reference(model: ModelProto, _: Mapping[str, Array]) -> Run:
    from onnx.reference import ReferenceEvaluator

    evaluator: Any = ReferenceEvaluator(model)
    names = [i.name for i in model.graph.input]
    return lambda arrays: evaluator.run(None, dict(zip(names, arrays, strict=True)))


_ENGINES: dict[str, Callable[[ModelProto, Mapping[str, Array]], Run]] = {
    "onnxruntime": _in_onnxruntime,
    "onnx.reference": _in_reference,
}


def _checked(result: Any, type_: Tensor, index: int) -> Array:
    """Returns a result unchanged. Raises ValueError if its type or a known size differs from the declared one."""
    if not hasattr(result, "dtype"):  # a sequence, or an optional value
        raise ValueError(f"result {index} is a {type(result).__name__}, {type_} is declared")
    array: Array = np.asarray(result)
    shape = type_.get_shape()
    fits = array.ndim == len(shape) and all(not known(d) or d == n for d, n in zip(shape, array.shape, strict=True))
    if not fits or array.dtype != numpy_dtype(type_.element_type):
        raise ValueError(f"result {index} is {array.dtype}{shape_text(array.shape)}, {type_} is declared")
    return array
