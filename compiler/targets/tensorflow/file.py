"""Writing the file: a GraphDef is a sequence of nodes, those of weights are streamed from their arrays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...diagnostics import CompileError
from ...files import replacing
from ...formats.wire import MOST_BYTES, varint
from ...frontends.tensorflow.schema import MESSAGES, GraphDef
from ...frontends.tensorflow.tensors import code_of
from .graph import Array, Const, NodeDef

_PRODUCER = 1087
"""The version of graphs that is claimed, one of TensorFlow 2; older versions read such files, too."""
_MIN_CONSUMER = 12

_NODE = b"\x0a"
_ATTR = b"\x2a"
_VALUE_KEY = b"\x0a\x05value"
_VALUE = b"\x12"
_TENSOR = b"\x42"
_CONTENT = b"\x22"
"""Keys of length-delimited fields: number * 8 + 2 (GraphDef node 1, NodeDef attr 5, an attribute's key 1 and value 2, AttrValue
tensor 8, TensorProto tensor_content 4)."""


def write_graph(nodes: Sequence[NodeDef | Const], path: Path) -> None:
    """Write a GraphDef of these nodes. Raises CompileError, with nothing written, where it would be above 2 GB."""
    versions = GraphDef(versions={"producer": _PRODUCER, "min_consumer": _MIN_CONSUMER}).SerializeToString()
    pieces = [_piece(n) for n in nodes]
    size = len(versions) + sum(len(head) + (0 if array is None else array.nbytes) for head, array in pieces)
    if size > MOST_BYTES:
        hint = "quantize its weights, or write -t onnx, which keeps them beside the model"
        message = f"would take {size / 1e9:.1f} GB, a GraphDef holds its weights and has 2 GB at most"
        raise CompileError(message, where=str(path), hint=hint)
    with replacing(path) as stream:
        for head, array in pieces:
            stream.write(head)
            if array is not None:
                stream.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        stream.write(versions)


def _piece(node: NodeDef | Const) -> tuple[bytes, Array | None]:
    """A node as a field of the graph; of a constant, what comes before the bytes of its array."""
    if not isinstance(node, Const):
        data: bytes = node.SerializeToString(deterministic=True)
        return _NODE + varint(len(data)) + data, None
    return _constant_head(node), node.array


def _constant_head(node: Const) -> bytes:
    """Everything of a Const but the array's bytes, which are the end of the innermost of its nested messages."""
    code = code_of(node.array.dtype)
    tensor = MESSAGES["TensorProto"](dtype=code, tensor_shape={"dim": [{"size": s} for s in node.array.shape]})
    message = MESSAGES["NodeDef"](name=node.name, op="Const")
    message.attr["dtype"].type = code
    head = b""
    for before, key in (
        (tensor.SerializeToString(), _CONTENT),
        (b"", _TENSOR),
        (_VALUE_KEY, _VALUE),
        (message.SerializeToString(), _ATTR),
        (b"", _NODE),
    ):
        head = before + key + varint(len(head) + node.array.nbytes) + head
    return head
