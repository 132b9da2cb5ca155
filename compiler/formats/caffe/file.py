"""The two files of a net. The weights in a `.caffemodel` are views of the mapped file, and are written without a copy of them.

Only the names and blobs of layers are read and written there: parameters are in the prototxt, where fork and
version do not change what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from pathlib import Path
from textwrap import indent
from typing import Any, NamedTuple

import numpy as np
from google.protobuf import text_format
from google.protobuf.message import DecodeError

from ...support.diagnostics import CompileError
from ...support.files import replacing_all
from ..wire import BYTES, MOST_BYTES, Field, MalformedError, fields, header, mapped, only, text
from .schema import BlobProto, LayerParameter, Message, NetParameter

Array = np.ndarray[Any, np.dtype[Any]]

_LAYER, _BLOBS = 100, 7
"""NetParameter.layer, LayerParameter.blobs"""
_LAYERS = {_LAYER: (1, _BLOBS), 2: (4, 6)}
"""Numbers of NetParameter's `layer` and `layers`, each with those of name and blobs."""
_DATA, _DOUBLE_DATA, _INT8_DATA = 5, 8, 10
_NUMBERS = {_DATA: np.dtype("<f4"), _DOUBLE_DATA: np.dtype("<f8"), _INT8_DATA: np.dtype("i1")}
"""Number and element type of BlobProto's fields that may be mapped."""
_FIELDS = {"double_data": np.float64, "int32_data": np.int32, "uint64_data": np.uint64}
"""The other fields for weights."""
_GRADIENTS = (6, 9)
_LEGACY = ("num", "channels", "height", "width")
_RAW = {"float32": _DATA, "int8": _INT8_DATA}
"""The fields that are written as the bytes of an array."""
_LISTS = {"int32": "int32_data", "uint64": "uint64_data"}
"""The fields whose numbers are encoded one by one."""


@dataclass(frozen=True, eq=False)
class Blob:
    """The numbers of one parameter."""

    dims: tuple[int, ...]
    numbers: Array
    """float32, float64 or integers, of rank 1."""
    legacy: bool = False
    """`dims` are the four numbers that blobs had before they had a shape."""

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether Caffe accepts this as a parameter of that shape: four numbers may have leading ones."""
        if prod(shape) == 1 == prod(self.dims):
            return True
        return self.dims == ((1,) * (4 - len(shape)) + tuple(shape) if self.legacy else tuple(shape))

    def shaped(self, shape: Sequence[int]) -> Array:
        """The numbers; floats as float32, in which Caffe computes, without a copy if they already are."""
        if self.numbers.dtype.kind != "f":
            return self.numbers.reshape(tuple(shape))
        with np.errstate(over="ignore"):
            return self.numbers.astype(np.float32, copy=False).reshape(tuple(shape))


def blob_of(proto: Message, numbers: Array | None, where: str) -> Blob:
    """A blob of a message, whose numbers may be elsewhere. Raises CompileError if their count does not fit the shape."""
    if numbers is None:
        numbers = _numbers(proto)
    legacy = any(proto.HasField(name) for name in _LEGACY)
    dims = tuple(getattr(proto, name) for name in _LEGACY) if legacy else tuple(proto.shape.dim)
    if min((0, *dims)) < 0 or prod(dims) != numbers.size:
        raise CompileError(f"is of shape {list(dims)} and holds {numbers.size} numbers", where=where)
    return Blob(dims, numbers, legacy)


def _numbers(proto: Message) -> Array:
    """The numbers of the first field that has some."""
    if proto.int8_data:
        return np.frombuffer(proto.int8_data, np.int8)
    for name, dtype in _FIELDS.items():
        if len(given := getattr(proto, name)):
            return np.array(given, dtype)
    return np.array(proto.data, np.float32)


def read_weights(path: Path) -> Mapping[str, list[Blob]]:
    """The blobs of a file by the layers' names. Raises CompileError, located in the file, for other content."""
    data, where = mapped(path), str(path)
    if not data.size:
        raise CompileError("is empty", where=where)
    found: dict[str, list[Blob]] = {}
    layers = 0
    try:
        for layer in fields(data.data, Field.whole(data.data)):
            if layer.kind != BYTES or layer.number not in _LAYERS:
                continue
            layers += 1
            name_number, blobs_number = _LAYERS[layer.number]
            name = text(data.data, only(data.data, layer, name_number))
            inside = [f for f in fields(data.data, layer) if (f.number, f.kind) == (blobs_number, BYTES)]
            if inside and name in found:
                raise CompileError(f"holds the weights of layer '{name}' twice", where=where)
            if inside:
                found[name] = [_blob(data, f, f"{where}: blob {i} of '{name}'") for i, f in enumerate(inside)]
    except (MalformedError, DecodeError):
        raise _no_model(data, where) from None
    if not layers:
        raise _no_model(data, where)
    return found


_BEGINNINGS = (
    (b"version https://git-lfs", "this is a Git LFS pointer: `git lfs pull` gets the file itself"),
    (b"\x89HDF\r\n\x1a\n", "this is HDF5: Caffe's `snapshot_format: BINARYPROTO` writes what is read here"),
)


def _no_model(data: Array, where: str) -> CompileError:
    start = data[:24].tobytes()
    hints = [hint for beginning, hint in _BEGINNINGS if start.startswith(beginning)]
    return CompileError(
        "is not a caffemodel", where=where, hint=hints[0] if hints else "the file is damaged, or of another format"
    )


def _blob(data: Array, field: Field, where: str) -> Blob:
    place = _packed(data.data, field)
    if place is None:
        return blob_of(BlobProto.FromString(bytes(data.data[field.value : field.end])), None, where)
    skipped = (place.number, *_GRADIENTS)
    rest = [f for f in fields(data.data, field) if f.number not in skipped]
    proto = BlobProto.FromString(b"".join(bytes(data.data[f.begin : f.end]) for f in rest))
    dtype = _NUMBERS[place.number]
    if (place.end - place.value) % dtype.itemsize:
        raise CompileError(f"holds a number of less than {dtype.itemsize} bytes", where=where)
    return blob_of(proto, _view(data, place, dtype), where)


def _view(data: Array, place: Field, dtype: np.dtype[Any]) -> Array:
    return np.frombuffer(data[place.value : place.end], dtype)


def _packed(data: memoryview, blob: Field) -> Field | None:
    """The one field with all numbers in one run; None if there are several, which protobuf merges."""
    found: Field | None = None
    for field in fields(data, blob):
        if field.number in _NUMBERS:
            if field.kind != BYTES or found is not None:
                return None
            found = field
    return found


@dataclass(frozen=True)
class NetLayer:
    """A layer, with its blobs separate."""

    proto: Message
    blobs: Sequence[Array] = ()
    """float32, int8, int32 or uint64."""
    text: str = ""
    """The text of the prototxt about it, next to `proto`."""


def write_net(name: str, layers: Sequence[NetLayer], prototxt: Path, caffemodel: Path) -> list[Path]:
    """Writes both files, or none. Raises CompileError if the weights exceed protobuf's limit of a file."""
    net = NetParameter(name=name or None)
    parts = [net.SerializeToString(), *chain.from_iterable(_written_layer(each) for each in layers)]
    size = sum(len(p) for p in parts)
    if size > MOST_BYTES:
        hint = "quantized weights take a quarter: --quantize and -t 'caffe{form=deploy}'"
        raise CompileError(
            f"would be of {size} bytes, Caffe reads up to {MOST_BYTES}", where=str(caffemodel), hint=hint
        )
    text = text_format.MessageToString(net, as_utf8=True) + "".join(map(_text, layers))
    with replacing_all(prototxt, caffemodel) as (readable, binary):
        readable.write(text.encode())
        for part in parts:
            binary.write(part)
    return [prototxt, caffemodel]


def _text(layer: NetLayer) -> str:
    inside = text_format.MessageToString(layer.proto, as_utf8=True)
    inside += f"{layer.text}\n" if layer.text else ""
    return f"layer {{\n{indent(inside, '  ')}}}\n"


def _written_layer(layer: NetLayer) -> list[bytes | memoryview]:
    """A layer as a field of the net, in pieces: the bytes before an array, the array's bytes, and so on."""
    blobs = [_written_blob(b) for b in layer.blobs]
    head = LayerParameter(name=layer.proto.name, type=layer.proto.type).SerializeToString()
    inside: list[bytes | memoryview] = [head]
    for blob in blobs:
        inside += [header(_BLOBS, len(blob.head) + len(blob.data)) + blob.head, blob.data]
    return [header(_LAYER, sum(map(len, inside))), *inside]


class _Piece(NamedTuple):
    head: bytes
    data: memoryview


def _written_blob(array: Array) -> _Piece:
    """A blob as the bytes before its array, and the array's bytes; a view where the array is contiguous."""
    proto = BlobProto()
    if array.ndim:
        proto.shape.dim.extend(array.shape)
    else:  # OpenCV reads no shape without axes; what blobs had before they had shapes means the same
        proto.num = proto.channels = proto.height = proto.width = 1
    if (field := _LISTS.get(array.dtype.name)) is not None:
        getattr(proto, field).extend(array.reshape(-1).tolist())
        return _Piece(proto.SerializeToString(), memoryview(b""))
    stored = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    size = prod(array.shape) * array.dtype.itemsize
    return _Piece(
        proto.SerializeToString() + header(_RAW[array.dtype.name], size), stored.reshape(-1).view(np.uint8).data
    )
