"""Reads a file into a parsed model: a frozen graph or a SavedModel, its weights and the values of its variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from ...formats.tensorflow.file import graph_without_weights, saved_model_without_weights
from ...formats.tensorflow.schema import GraphDef, Message, SavedModel
from ...formats.tensorflow.tensors import Array
from ...formats.wire import VARINT, Field, MalformedError, fields, mapped
from ...support.diagnostics import CompileError, first_line
from ...support.files import read_text
from .saved_model import file_in, serving_graph, variables


@dataclass(frozen=True)
class TensorInfo:
    """The entry of a signature for an input or output."""

    name: str
    """The name of the tensor, `x:0`; empty if it is made of several."""
    dtype: int
    """TensorFlow's number of its element type."""
    shape: tuple[int, ...] | None
    """-1 for an unknown size, None for an unknown rank."""


@dataclass(frozen=True)
class Signature:
    """A function of a SavedModel, by the names of its arguments and results."""

    inputs: Mapping[str, TensorInfo]
    outputs: Mapping[str, TensorInfo]


@dataclass(frozen=True)
class Source:
    """A model, and the places in its files of the data that the graph lacks."""

    path: Path
    graph: Message
    """A GraphDef with the library of functions, without the bytes of large constants."""
    weights: Mapping[str, Array]
    """The bytes of the large constants (uint8, views of the mapped file) by `node`, of those in functions by `function/node`."""
    variables: Mapping[str, Array]
    """Values by the name of the variable's node (of its handle's, for resource variables)."""
    signatures: Mapping[str, Signature] | None
    """Signatures by name; None for graphs, which have no signatures."""
    producer: str


def load(path: Path) -> Source:
    """The model in a file (a GraphDef or a SavedModel, binary or `.pbtxt`) or in a SavedModel's folder.

    Raises CompileError, located at the file, for other content.
    """
    file = file_in(path) if path.is_dir() else path
    model, weights = _from_text(file) if file.suffix.lower() == ".pbtxt" else _from_bytes(file)
    if isinstance(model, GraphDef):
        _check(model, str(file))
        return Source(path, model, weights, {}, None, _graph_version(model))
    chosen = serving_graph(model, str(file))
    graph, version = chosen.graph_def, chosen.meta_info_def.tensorflow_version
    _check(graph, str(file))
    return Source(
        path,
        graph,
        weights,
        variables(chosen, file.parent),
        {key: _signature(s) for key, s in chosen.signature_def.items() if not key.startswith("__saved_model")},
        f"tensorflow {version}" if version else _graph_version(graph),
    )


def _from_bytes(file: Path) -> tuple[Message, dict[str, Array]]:
    data = mapped(file)
    if not data.size:
        raise CompileError("is empty", where=str(file))
    try:
        saved = _is_saved_model(data.data)
        stripped, places = (saved_model_without_weights if saved else graph_without_weights)(data.data)
        model = (SavedModel if saved else GraphDef).FromString(stripped)
    except (MalformedError, DecodeError) as e:
        reason = str(e).rpartition(": ")[2]
        raise CompileError(
            f"is not a TensorFlow model: {reason}", where=str(file), hint=_suspicion(data.data)
        ) from None
    if not (model.meta_graphs if saved else model.node):
        raise CompileError("is not a TensorFlow model: it holds no graph", where=str(file), hint=_suspicion(data.data))
    return model, {key: data[begin:end] for key, (begin, end) in places.items()}


def _is_saved_model(data: memoryview) -> bool:
    """Whether it is a SavedModel: its first field is a number, the format version; that of a graph is a message, a node."""
    first = next((f for f in fields(data, Field.whole(data)) if f.number == 1), None)
    return first is not None and first.kind == VARINT


def _from_text(file: Path) -> tuple[Message, dict[str, Array]]:
    text, where = read_text(file), str(file)
    model = SavedModel() if re.search(r"^\s*meta_graphs\b", text, re.MULTILINE) else GraphDef()
    try:
        text_format.Parse(text, model, allow_unknown_field=True)
    except text_format.ParseError as e:
        line = f":{e.GetLine()}" if e.GetLine() else ""
        reason = first_line(str(e).rpartition(" : ")[2])
        raise CompileError(f"is not the text of a TensorFlow model: {reason}", where=where + line) from None
    except RecursionError:
        raise CompileError("is nested too deeply", where=where) from None
    return model, {}


def _check(graph: Message, where: str) -> None:
    if not graph.node:
        raise CompileError("holds a graph without nodes", where=where)
    if not all(node.op for node in graph.node):
        hint = "the file is damaged, or of another format"
        raise CompileError("is not a TensorFlow model: a node names no operator", where=where, hint=hint)


def _signature(signature: Message) -> Signature:
    return Signature(
        {key: _tensor_info(info) for key, info in sorted(signature.inputs.items())},
        {key: _tensor_info(info) for key, info in sorted(signature.outputs.items())},
    )


def _tensor_info(info: Message) -> TensorInfo:
    shape = info.tensor_shape
    return TensorInfo(info.name, info.dtype, None if shape.unknown_rank else tuple(d.size for d in shape.dim))


def _graph_version(graph: Message) -> str:
    version = graph.versions.producer
    return f"tensorflow (graph version {version})" if version else "tensorflow"


_BEGINNINGS = (
    (b"version https://git-lfs", "this is a Git LFS pointer: `git lfs pull` gets the file itself"),
    (b"\x89HDF\r\n\x1a\n", "this is an HDF5 file, as Keras writes: name it .h5"),
    (b"PK\x03\x04", "this is a zip archive, as Keras writes: name it .keras"),
    (b"\x1f\x8b", "this is compressed: unpack it first"),
    (b"node {", "this is text: name it .pbtxt"),
    (b"meta_graphs", "this is text: name it .pbtxt"),
    (b"saved_model_schema_version", "this is text: name it .pbtxt"),
)
_ONNX_GRAPH = 7
"""ModelProto.graph, a field that neither a GraphDef nor a SavedModel has."""


def _suspicion(data: memoryview) -> str:
    head = bytes(data[:32])
    for beginning, hint in _BEGINNINGS:
        if head.startswith(beginning):
            return hint
    if head[4:8] == b"TFL3":
        return "this is a TensorFlow Lite model, which is not read: start from the model that it was converted from"
    try:
        if any(f.number == _ONNX_GRAPH for f in fields(data, Field.whole(data))):
            return "this may be an ONNX model: name it .onnx"
    except MalformedError:
        pass
    return "the file is damaged or truncated, or of another format"
