"""Writing the file: initializers are streamed from their arrays, inline or beside the model.

Protobuf's own serialization would hold the weights three times (array, message, bytes). A message is a sequence of fields in
any order, so the graph's initializers are written field by field behind the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from onnx import GraphProto, ModelProto, StringStringEntryProto, TensorProto, helper

from ...files import replacing, replacing_all
from ...formats.wire import MOST_BYTES, varint
from ...weights import release
from .graph import Initializer

Array = np.ndarray[Any, np.dtype[Any]]

INLINE = 1024
"""Arrays of up to this many bytes stay in the model: runtimes read shapes and axes there."""
_ALIGNMENT = 4096
"""Where arrays start in the external file, so that they can be mapped."""

_FIELD = {"model.graph": b"\x3a", "graph.initializer": b"\x2a", "tensor.raw_data": b"\x4a"}
"""Keys of length-delimited fields: number * 8 + 2 (onnx.proto: graph 7, initializer 5, raw_data 9)."""


def external_file(path: Path) -> Path:
    """The file beside `path` that holds its large arrays."""
    return path.with_name(f"{path.name}.data")


def write_model(
    model: ModelProto, graph: GraphProto, initializers: Sequence[Initializer], path: Path, *, external: bool
) -> list[Path]:
    """Write a model whose graph and weights are given apart; with `external`, and above 2 GB, arrays go beside it.

    Returns the files written; both are complete before either takes its name.
    """
    inline = [_Inline(i) for i in initializers]
    if not external and _graph_size(graph, inline) + model.ByteSize() + 16 <= MOST_BYTES:
        with replacing(path) as stream:
            _write(stream, model, graph, inline)
        return [path]
    beside = external_file(path)
    small = [i for i in initializers if i.array.nbytes <= INLINE]
    large = [i for i in initializers if i.array.nbytes > INLINE]
    for initializer, offset in zip(large, _offsets(large), strict=True):
        graph.initializer.append(_external(initializer, offset, beside.name))
    with replacing_all(path, beside) as (stream, data):
        for initializer in large:
            data.write(b"\0" * (-data.tell() % _ALIGNMENT))
            data.write(packed(initializer.array).data)
            release(initializer.array)
        _write(stream, model, graph, [_Inline(i) for i in small])
    return [path, beside]


class _Inline:
    """An initializer as a field of the graph: what comes before the bytes of its array."""

    def __init__(self, initializer: Initializer):
        self.array = initializer.array
        head = _tensor(initializer).SerializeToString()
        data = _FIELD["tensor.raw_data"] + varint(_stored_size(self.array))
        length = len(head) + len(data) + _stored_size(self.array)
        self.head = _FIELD["graph.initializer"] + varint(length) + head + data

    @property
    def size(self) -> int:
        return len(self.head) + _stored_size(self.array)


def _graph_size(graph: GraphProto, inline: Sequence[_Inline]) -> int:
    return graph.ByteSize() + sum(i.size for i in inline)


def _write(stream: IO[bytes], model: ModelProto, graph: GraphProto, inline: Sequence[_Inline]) -> None:
    stream.write(model.SerializeToString(deterministic=True))
    stream.write(_FIELD["model.graph"] + varint(_graph_size(graph, inline)))
    stream.write(graph.SerializeToString(deterministic=True))
    for each in inline:
        stream.write(each.head)
        stream.write(packed(each.array).data)
        release(each.array)


def _tensor(initializer: Initializer) -> TensorProto:
    code = helper.np_dtype_to_tensor_dtype(initializer.array.dtype)
    return TensorProto(name=initializer.name, dims=initializer.array.shape, data_type=code)


def _external(initializer: Initializer, offset: int, location: str) -> TensorProto:
    tensor = _tensor(initializer)
    tensor.data_location = TensorProto.EXTERNAL
    entries = {"location": location, "offset": str(offset), "length": str(_stored_size(initializer.array))}
    tensor.external_data.extend(StringStringEntryProto(key=k, value=v) for k, v in entries.items())
    return tensor


def _offsets(large: Sequence[Initializer]) -> Iterator[int]:
    position = 0
    for initializer in large:
        position += -position % _ALIGNMENT
        yield position
        position += _stored_size(initializer.array)


_HALF_BYTE = frozenset({"int4", "uint4"})


def _stored_size(array: Array) -> int:
    """Bytes in the file: as in memory, but two elements per byte for 4-bit types."""
    return (array.size + 1) // 2 if array.dtype.name in _HALF_BYTE else array.nbytes


def packed(array: Array) -> Array:
    """The bytes of an array as ONNX stores them; a view where the array is contiguous."""
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if array.dtype.name not in _HALF_BYTE:
        return flat
    halves = np.append(flat & 0x0F, np.zeros(array.size % 2, np.uint8)).reshape(-1, 2)
    return halves[:, 0] | halves[:, 1] << 4
