"""Keras files, and objects of a running program: graphs, functions and Keras models. Imports TensorFlow.

Nothing is frozen: TensorFlow traces the graph, and captured variables become constants of the module.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from textwrap import shorten
from typing import Any, cast
from zipfile import BadZipFile, ZipFile

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ...formats.tensorflow.library import tensorflow
from ...formats.tensorflow.schema import GraphDef
from ...formats.tensorflow.tensors import Array
from ...session import Session
from ...support.diagnostics import CompileError, first_line
from ..options import take_only
from .importer import build
from .source import Signature, Source, TensorInfo

_SIGNATURE = "serving_default"
_METADATA = 1 << 16
"""The maximum number of bytes to read of a .keras file's metadata."""


def read(path: Path, session: Session) -> ModuleOp:
    """The model in a `.keras` or `.h5` file as a module in `nn`, like `from_keras`.

    Code in a file is not run. Raises CompileError, located at the file, if TensorFlow is not
    installed, and for a file that is not such a model.
    """
    where = str(path)
    take_only(session.imports, ("inputs", "outputs", "shapes"), where)
    if not path.is_file():
        raise CompileError("cannot be read: No such file or directory", where=where)
    if "keras" not in sys.modules:
        os.environ["KERAS_BACKEND"] = "tensorflow"
    tensorflow("a Keras file", where)
    return _of_keras(_load(path), path, session)


def from_graph(graph: Any, session: Session, variables: Mapping[str, Array] | None = None) -> ModuleOp:
    """A `tf.Graph` or GraphDef as a module in `nn`; inputs and outputs are from `session.imports`, or found in the graph.

    A graph that is not frozen gets the values of its variables by their nodes' names. Raises CompileError like `read`.
    """
    message = graph.as_graph_def() if hasattr(graph, "as_graph_def") else graph
    return build(_source(Path("graph"), message, variables or {}, None), session)


def from_function(function: Any, session: Session, *signature: Any) -> ModuleOp:
    """A `tf.function`, ConcreteFunction or other callable on tensors as a module in `nn`.

    `signature` are the arguments to trace it with (`tf.TensorSpec`), if it has no input signature of its own. Inputs are
    named like the arguments, outputs like the keys of a returned dictionary, otherwise `output_0` and so on. Raises CompileError
    if it cannot be traced or represented.
    """
    name = getattr(function, "__name__", "function")
    tf = tensorflow("a function", name)
    if not hasattr(function, "captured_inputs"):
        traced = function if hasattr(function, "get_concrete_function") else tf.function(function)
        try:
            function = traced.get_concrete_function(*signature)
        except (TypeError, ValueError) as e:
            hint = "give a tf.TensorSpec for each argument"
            raise CompileError(f"cannot be traced: {first_line(e)}", where=name, hint=hint) from e
    inputs = function.inputs[: len(function.inputs) - len(function.captured_inputs)]
    names = [t.op.get_attr("_user_specified_name").decode() for t in inputs]
    structured = function.structured_outputs
    keys = sorted(cast("dict[str, Any]", structured)) if isinstance(structured, dict) else []
    return _traced(Path(name), function, names, keys, session)


def from_keras(model: Any, session: Session) -> ModuleOp:
    """A model of Keras 3 (on TensorFlow) or of tf_keras as a module in `nn`, in inference mode.

    Inputs and outputs have the model's names, layers those of Keras in the graph; an unknown batch size stays unknown.
    Raises CompileError for a model without known inputs, or one that cannot be represented.
    """
    return _of_keras(model, Path(model.name), session)


def _of_keras(model: Any, path: Path, session: Session) -> ModuleOp:
    where = str(path)
    tf = tensorflow("a Keras model", where)
    tensors: Sequence[Any] = getattr(model, "inputs", None) or ()
    if not tensors:
        hint = "from_function takes any model, with a tf.TensorSpec for each input"
        raise CompileError("the model does not say what its inputs are", where=where, hint=hint)
    structure = model.input if hasattr(model, "_nested_inputs") or hasattr(model, "_inputs_struct") else tensors[0]

    def infer(*inputs: Any) -> list[Any]:
        return tf.nest.flatten(model(tf.nest.pack_sequence_as(structure, inputs), training=False))

    specs = [tf.TensorSpec(t.shape, t.dtype) for t in tensors]
    try:
        function = tf.function(infer, autograph=False).get_concrete_function(*specs)
    except Exception as e:  # layers of the model may raise anything
        hint = "its layers may need inputs of known sizes"
        raise CompileError(f"cannot be traced: {_reason(e)}", where=where, hint=hint) from e
    return _traced(path, function, [t.name for t in tensors], _output_names(model), session)


def _output_names(model: Any) -> Sequence[str]:
    """The keys of a returned dictionary, otherwise the names of the layers that compute the outputs."""
    outputs = getattr(model, "output", None)
    if isinstance(outputs, dict):
        return sorted(cast("dict[str, Any]", outputs))
    return getattr(model, "output_names", None) or [model.layers[-1].name]


def _traced(path: Path, function: Any, inputs: Sequence[str], outputs: Sequence[str], session: Session) -> ModuleOp:
    """Imports a ConcreteFunction with these names of arguments and results; result names are ignored if they do not fit."""
    if len(set(outputs)) != len(function.outputs):
        outputs = [f"output_{i}" for i in range(len(function.outputs))]
    arguments = {name: _info(t) for name, t in zip(inputs, function.inputs, strict=False)}
    results = {name: _info(t) for name, t in zip(outputs, function.outputs, strict=True)}
    graph = function.graph
    signatures = {_SIGNATURE: Signature(arguments, results)}
    return build(_source(path, graph.as_graph_def(), dict(_captured(graph)), signatures), session)


def _info(tensor: Any) -> TensorInfo:
    shape = None if tensor.shape.rank is None else tuple(-1 if d is None else d for d in tensor.shape)
    return TensorInfo(tensor.name, tensor.dtype.as_datatype_enum, shape)


def _captured(graph: Any) -> Iterator[tuple[str, Array]]:
    """Values captured by a function's graph, by their placeholders in it."""
    variables = {id(v.handle): v for v in graph.variables}
    for outside, inside in graph.captures:
        value = variables.get(id(outside), outside)
        if value.dtype.is_numpy_compatible and value.dtype != "string":
            yield inside.op.name, np.asarray(value.numpy())


def _source(
    path: Path, graph: Any, variables: Mapping[str, Array], signatures: Mapping[str, Signature] | None
) -> Source:
    version = f"tensorflow {tensorflow('a graph', str(path)).__version__}"
    return Source(path, GraphDef.FromString(graph.SerializeToString()), {}, variables, signatures, version)


# Files


def _load(path: Path) -> Any:
    """The Keras model in a file. tf_keras reads HDF5 files of Keras 2 that Keras 3 cannot read."""
    where = str(path)
    old = path.suffix.lower() != ".keras" and _checked(path)
    try:
        return _loader("keras")(path, compile=False, safe_mode=True)
    except Exception as e:  # layers of the file may raise anything
        reason = _reason(e)
    if old:
        try:
            return _loader("tf_keras")(path, compile=False, safe_mode=True)
        except ImportError:
            hint = "`pip install --no-deps tf_keras`: it reads what Keras 2 wrote"
            raise CompileError(f"Keras cannot load it: {reason}", where=where, hint=hint) from None
        except Exception as e:
            reason = _reason(e)
    hint = "a model with code of its own is read as a SavedModel, which model.export writes"
    if not old and _is_of_keras_2(path):
        reason, hint = "Keras 2 wrote it", "save it as .h5 or as a SavedModel, which can be read"
    raise CompileError(f"Keras cannot load it: {reason}", where=where, hint=hint)


def _is_of_keras_2(path: Path) -> bool:
    """Whether Keras 2 wrote a .keras file: the format is the same, but the names of layers differ."""
    try:
        with ZipFile(path) as archive, archive.open("metadata.json") as file:
            return json.loads(file.read(_METADATA))["keras_version"].startswith("2.")
    except (OSError, BadZipFile, KeyError, ValueError, TypeError, AttributeError):
        return False


def _reason(error: Exception) -> str:
    """The innermost error of Keras in one line: Keras wraps each exception in the text of the next one."""
    innermost = str(error).rpartition("Exception encountered: ")[2]
    plain = re.sub(r"\x1b\[\d*m", "", innermost)
    sentence = first_line(re.sub(r"^Exception encountered when calling .*\n+", "", plain)).partition(". ")[0]
    return shorten(sentence, 200, placeholder=" ...") or type(error).__name__


def _loader(package: str) -> Callable[..., Any]:
    return import_module(package).models.load_model


def _checked(path: Path) -> bool:
    """Whether an HDF5 file may be one of Keras 2. Rejects layers with code of their own: tf_keras has no safe mode for it.

    Raises CompileError, located at the file, for such a layer, or if it is not an HDF5 file with a model.
    """
    where = str(path)
    h5py: Any = import_module("h5py")
    try:
        with h5py.File(path, "r") as file:
            config, version = file.attrs.get("model_config"), file.attrs.get("keras_version")
    except OSError as e:
        raise CompileError(f"is not an HDF5 file: {first_line(e)}", where=where) from None
    if config is None:
        hint = "save the whole model: model.save"
        raise CompileError("holds no model, only weights or other data", where=where, hint=hint)
    try:
        parsed = json.loads(config)
    except (ValueError, RecursionError):
        raise CompileError("its model is not described in JSON", where=where) from None
    if any(each.get("class_name") == "Lambda" for each in _objects(parsed)):
        hint = "replace it by a layer of Keras, or export a SavedModel"
        raise CompileError("holds a Lambda layer, whose code is not run", where=where, hint=hint)
    return not str(version).startswith("3.")


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """The objects inside parsed JSON, including itself."""
    stack = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, dict):
            found = cast("dict[str, Any]", each)
            yield found
            stack.extend(found.values())
        elif isinstance(each, list):
            stack.extend(cast("list[Any]", each))
