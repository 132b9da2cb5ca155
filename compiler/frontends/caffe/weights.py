"""The weights in a `.caffemodel`: blobs by layer, the large ones views of the mapped file.

The file is walked for names and blobs only: what else it says of layers, the prototxt says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from ...diagnostics import CompileError
from ...formats.wire import BYTES, Field, MalformedError, fields, mapped, only, text
from ..building import Array
from .schema import BlobProto, Message

_LAYERS = {100: (1, 7), 2: (4, 6)}
"""Number of NetParameter's `layer` and `layers`; in these of name and blobs."""
_DATA, _DOUBLE_DATA, _INT8_DATA = 5, 8, 10
_NUMBERS = {_DATA: np.dtype("<f4"), _DOUBLE_DATA: np.dtype("<f8"), _INT8_DATA: np.dtype("i1")}
"""Number and element type of BlobProto's fields that may be mapped."""
_FIELDS = {"double_data": np.float64, "int32_data": np.int32, "uint64_data": np.uint64}
"""Its other fields for weights."""
_GRADIENTS = (6, 9)
_LEGACY = ("num", "channels", "height", "width")


@dataclass(frozen=True, eq=False)
class Blob:
    """The numbers of one parameter."""

    dims: tuple[int, ...]
    numbers: Array
    """float32, float64 or integers, of rank 1."""
    legacy: bool = False
    """`dims` are the four numbers that blobs had before they had a shape."""

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether Caffe takes this for a parameter of that shape: four numbers may have ones in front."""
        if prod(shape) == 1 == prod(self.dims):
            return True
        return self.dims == ((1,) * (4 - len(shape)) + tuple(shape) if self.legacy else tuple(shape))

    def shaped(self, shape: Sequence[int]) -> Array:
        """The numbers, floats as float32, which is what Caffe computes in; without a copy where they are."""
        if self.numbers.dtype.kind != "f":
            return self.numbers.reshape(tuple(shape))
        with np.errstate(over="ignore"):
            return self.numbers.astype(np.float32, copy=False).reshape(tuple(shape))


def blob_of(proto: Message, numbers: Array | None, where: str) -> Blob:
    """A blob of a message, whose numbers may be elsewhere. Raises CompileError when there are not as many as its shape says."""
    if numbers is None:
        numbers = _numbers(proto)
    legacy = any(proto.HasField(name) for name in _LEGACY)
    dims = tuple(getattr(proto, name) for name in _LEGACY) if legacy else tuple(proto.shape.dim)
    if min((0, *dims)) < 0 or prod(dims) != numbers.size:
        raise CompileError(f"is of shape {list(dims)} and holds {numbers.size} numbers", where=where)
    return Blob(dims, numbers, legacy)


def _numbers(proto: Message) -> Array:
    """Those of the first field that has some."""
    if proto.int8_data:
        return np.frombuffer(proto.int8_data, np.int8)
    for name, dtype in _FIELDS.items():
        if len(given := getattr(proto, name)):
            return np.array(given, dtype)
    return np.array(proto.data, np.float32)


def read_weights(path: Path) -> Mapping[str, list[Blob]]:
    """The blobs of a file by the layers' names. Raises CompileError, located there, for what is no such file."""
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
        "is no caffemodel", where=where, hint=hints[0] if hints else "the file is damaged, or of another format"
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
    """The one field with the numbers, all in one run; None where they are to be put together, which protobuf does."""
    found: Field | None = None
    for field in fields(data, blob):
        if field.number in _NUMBERS:
            if field.kind != BYTES or found is not None:
                return None
            found = field
    return found
