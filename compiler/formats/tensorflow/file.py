"""The file. Its weights, the values of Const nodes, also in functions, are not read or written through messages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...support.diagnostics import CompileError
from ...support.files import replacing
from ..wire import MOST_BYTES, Field, Places, delimited, header, only, rewritten, text, without
from .schema import GraphDef, Message, NodeDef, TensorProto
from .tensors import Array, code_of

_META_GRAPH, _GRAPH = 2, 2
"""SavedModel.meta_graphs, MetaGraphDef.graph_def"""
_NODE, _LIBRARY = 1, 2
"""GraphDef.node, GraphDef.library"""
_FUNCTION = 1
"""FunctionDefLibrary.function"""
_SIGNATURE, _NODE_DEF = 1, 3
"""FunctionDef.signature, FunctionDef.node_def"""
_NAME, _OP, _ATTR = 1, 2, 5
"""NodeDef.name, NodeDef.op, NodeDef.attr; OpDef.name, too, is 1"""
_KEY, _VALUE = 1, 2
"""An entry of a map"""
_TENSOR, _CONTENT = 8, 4
"""AttrValue.tensor, TensorProto.tensor_content"""

_PRODUCER = 1087
"""The declared version of graphs, one of TensorFlow 2; older versions read such files, too."""
_MIN_CONSUMER = 12


class Const(NamedTuple):
    """A node with an array, separate from the messages: its bytes go into the file unchanged."""

    name: str
    array: Array


def key_of(function: str, node: str) -> str:
    """The key of the weight in a Const node: the function whose body contains it, and the node."""
    return f"{function}/{node}" if function else node


def graph_without_weights(data: memoryview) -> tuple[bytes, Places]:
    """A GraphDef without the bytes of its large constants, and their places in `data`, by `key_of` their nodes.

    Raises MalformedError where `data` breaks off or is not a protobuf message.
    """
    places: Places = {}
    return _graph(data, Field.whole(data), places), places


def saved_model_without_weights(data: memoryview) -> tuple[bytes, Places]:
    """Like `graph_without_weights`, for a SavedModel."""
    places: Places = {}

    def meta_graph(field: Field) -> bytes:
        return rewritten(data, field, {_GRAPH: lambda graph: _graph(data, graph, places)})

    return rewritten(data, Field.whole(data), {_META_GRAPH: meta_graph}), places


def _graph(data: memoryview, field: Field, places: Places) -> bytes:
    def library(field: Field) -> bytes:
        return rewritten(data, field, {_FUNCTION: function})

    def function(field: Field) -> bytes:
        signature = only(data, field, _SIGNATURE)
        name = "" if signature is None else text(data, only(data, signature, _NAME))
        return rewritten(data, field, {_NODE_DEF: lambda node: _node(data, node, name, places)})

    return rewritten(data, field, {_NODE: lambda node: _node(data, node, "", places), _LIBRARY: library})


def _node(data: memoryview, field: Field, function: str, places: Places) -> bytes:
    name, op = (text(data, only(data, field, number)) for number in (_NAME, _OP))
    key = key_of(function, name)

    def attribute(field: Field) -> bytes:
        rules = {_VALUE: value} if text(data, only(data, field, _KEY)) == "value" else {}
        return rewritten(data, field, rules)

    def value(field: Field) -> bytes:
        return rewritten(data, field, {_TENSOR: tensor})

    def tensor(field: Field) -> bytes:
        content = only(data, field, _CONTENT)
        if content is None or key in places:
            return bytes(data[field.value : field.end])
        places[key] = content.value, content.end
        return without(data, field, content)

    return rewritten(data, field, {_ATTR: attribute} if op == "Const" else {})


def write_graph(nodes: Sequence[Message | Const], path: Path) -> None:
    """Writes a GraphDef of these nodes. Raises CompileError, with nothing written, if it would exceed 2 GB."""
    versions = GraphDef(versions={"producer": _PRODUCER, "min_consumer": _MIN_CONSUMER}).SerializeToString()
    pieces = [_piece(n) for n in nodes]
    size = len(versions) + sum(len(head) + (0 if array is None else array.nbytes) for head, array in pieces)
    if size > MOST_BYTES:
        hint = "quantize its weights, or write -t onnx, which keeps them next to the model"
        message = f"would take {size / 1e9:.1f} GB, a GraphDef holds its weights and has 2 GB at most"
        raise CompileError(message, where=str(path), hint=hint)
    with replacing(path) as stream:
        for head, array in pieces:
            stream.write(head)
            if array is not None:
                stream.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        stream.write(versions)


def _piece(node: Message | Const) -> tuple[bytes, Array | None]:
    """A node as a field of the graph; for a constant the part before the bytes of its array."""
    if not isinstance(node, Const):
        data: bytes = node.SerializeToString(deterministic=True)
        return delimited(_NODE, data), None
    return _constant_head(node), node.array


def _constant_head(node: Const) -> bytes:
    """A Const without the array's bytes, which end the innermost of its nested messages."""
    code = code_of(node.array.dtype)
    tensor = TensorProto(dtype=code, tensor_shape={"dim": [{"size": s} for s in node.array.shape]})
    message = NodeDef(name=node.name, op="Const")
    message.attr["dtype"].type = code
    head = b""
    for before, number in (
        (tensor.SerializeToString(), _CONTENT),
        (b"", _TENSOR),
        (delimited(_KEY, b"value"), _VALUE),
        (message.SerializeToString(), _ATTR),
        (b"", _NODE),
    ):
        head = before + header(number, len(head) + node.array.nbytes) + head
    return head
