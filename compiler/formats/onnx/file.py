"""The file. Its weights are not read or written through messages: they are mapped, and streamed from their arrays.

Protobuf's own serialization would keep the weights three times (array, message, bytes). A message is a sequence of fields in
any order, so the graph's initializers are written field by field after the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from onnx import GraphProto, ModelProto, StringStringEntryProto, TensorProto, helper

from ...ir.weights import place_of, release
from ...support.diagnostics import CompileError
from ...support.files import replacing, replacing_all
from ..wire import MOST_BYTES, Field, Places, header, only, rewritten, text, without
from .tensors import Array, packed, stored_size

_GRAPH = 7
"""ModelProto.graph"""
_INITIALIZER = 5
"""GraphProto.initializer"""
_NAME, _RAW_DATA = 8, 9
"""TensorProto.name, TensorProto.raw_data"""

INLINE = 1024
"""Arrays of up to this many bytes stay in the model: runtimes read shapes and axes there."""
_ALIGNMENT = 4096
"""Alignment of arrays in the external file, in bytes, so that they can be mapped."""


class Initializer(NamedTuple):
    """A constant of the graph, by name."""

    name: str
    array: Array


def without_weights(data: memoryview) -> tuple[bytes, Places]:
    """The model without the bytes of its large initializers, and their places in `data`.

    Raises MalformedError where `data` breaks off or is not a protobuf message.
    """
    places: Places = {}

    def graph(field: Field) -> bytes:
        return rewritten(data, field, {_INITIALIZER: tensor})

    def tensor(field: Field) -> bytes:
        name, raw = text(data, only(data, field, _NAME)), only(data, field, _RAW_DATA)
        if raw is None or not name or name in places:
            return bytes(data[field.value : field.end])
        places[name] = raw.value, raw.end
        return without(data, field, raw)

    return rewritten(data, Field.whole(data), {_GRAPH: graph}), places


def external_file(path: Path) -> Path:
    """The file in the same folder as `path` that contains its large arrays."""
    return path.with_name(f"{path.name}.data")


def write_model(
    model: ModelProto, graph: GraphProto, initializers: Sequence[Initializer], path: Path, *, external: bool
) -> list[Path]:
    """Writes a model whose graph and weights are passed separately; with `external`, or above 2 GB, arrays go next to it.

    Returns the files written; both are complete before either gets its name.
    """
    inline = [_Inline(i) for i in initializers]
    if not external and _graph_size(graph, inline) + model.ByteSize() + 16 <= MOST_BYTES:
        with replacing(path) as stream:
            _write(stream, model, graph, inline)
        return [path]
    beside = external_file(path)
    small = [i for i in initializers if i.array.nbytes <= INLINE]
    large = [i for i in initializers if i.array.nbytes > INLINE]
    checksum = hashlib.sha1(usedforsecurity=False)  # the one that ONNX defines
    with replacing_all(path, beside) as (stream, data):
        for initializer in large:
            for part in (b"\0" * (-data.tell() % _ALIGNMENT), packed(initializer.array).data):
                data.write(part)
                checksum.update(part)
            release(initializer.array)
        entries = {"location": beside.name, "checksum": checksum.hexdigest()}
        for initializer, offset in zip(large, _offsets(large), strict=True):
            graph.initializer.append(_external(initializer, offset, entries))
        _write(stream, model, graph, [_Inline(i) for i in small])
    return [path, beside]


def write_to_run(model: ModelProto, graph: GraphProto, initializers: Sequence[Initializer], path: Path) -> None:
    """Writes a model that this process runs and deletes, without a checksum, and without waiting for the disk. Large arrays go
    into a separate file unless they are mapped from a file of the same folder. Raises CompileError if it cannot be written.
    """
    beside = external_file(path)
    small = [i for i in initializers if i.array.nbytes <= INLINE]
    try:
        with path.open("wb") as stream, beside.open("wb") as data:
            for initializer in (i for i in initializers if i.array.nbytes > INLINE):
                file, offset = place_of(initializer.array) or (Path(), 0)
                if file.parent != path.parent or stored_size(initializer.array) != initializer.array.nbytes:
                    data.write(b"\0" * (-data.tell() % _ALIGNMENT))
                    file, offset = beside, data.tell()
                    data.write(packed(initializer.array).data)
                    release(initializer.array)
                graph.initializer.append(_external(initializer, offset, {"location": file.name}))
            _write(stream, model, graph, [_Inline(i) for i in small])
    except OSError as e:
        raise CompileError(f"cannot be written: {e.strerror}", where=str(path)) from e


class _Inline:
    """An initializer as a field of the graph: the part before the bytes of its array."""

    def __init__(self, initializer: Initializer):
        self.array = initializer.array
        head = _tensor(initializer).SerializeToString()
        data = header(_RAW_DATA, stored_size(self.array))
        self.head = header(_INITIALIZER, len(head) + len(data) + stored_size(self.array)) + head + data

    @property
    def size(self) -> int:
        return len(self.head) + stored_size(self.array)


def _graph_size(graph: GraphProto, inline: Sequence[_Inline]) -> int:
    return graph.ByteSize() + sum(i.size for i in inline)


def _write(stream: IO[bytes], model: ModelProto, graph: GraphProto, inline: Sequence[_Inline]) -> None:
    stream.write(model.SerializeToString(deterministic=True))
    stream.write(header(_GRAPH, _graph_size(graph, inline)))
    stream.write(graph.SerializeToString(deterministic=True))
    for each in inline:
        stream.write(each.head)
        stream.write(packed(each.array).data)
        release(each.array)


def _tensor(initializer: Initializer) -> TensorProto:
    code = helper.np_dtype_to_tensor_dtype(initializer.array.dtype)
    return TensorProto(name=initializer.name, dims=initializer.array.shape, data_type=code)


def _external(initializer: Initializer, offset: int, file: Mapping[str, str]) -> TensorProto:
    tensor = _tensor(initializer)
    tensor.data_location = TensorProto.EXTERNAL
    entries = {**file, "offset": str(offset), "length": str(stored_size(initializer.array))}
    tensor.external_data.extend(StringStringEntryProto(key=k, value=v) for k, v in entries.items())
    return tensor


def _offsets(large: Sequence[Initializer]) -> Iterator[int]:
    position = 0
    for initializer in large:
        position += -position % _ALIGNMENT
        yield position
        position += stored_size(initializer.array)
