"""Weights stay in the file: a walk over the protobuf encoding that takes the initializers' bytes out before it is parsed.

protobuf would copy every weight twice. Only the fields of the model, its graph and the graph's initializers are looked at
(https://protobuf.dev/programming-guides/encoding/); everything else goes to protobuf as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_GRAPH = 7
"""ModelProto.graph"""
_INITIALIZER = 5
"""GraphProto.initializer"""
_NAME, _RAW_DATA = 8, 9
"""TensorProto.name, TensorProto.raw_data"""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}

LARGE = 1 << 14
"""Initializers of fewer bytes stay in the model, where shape inference can read them."""


class MalformedError(ValueError):
    """The bytes are no protobuf message."""


class _Field(NamedTuple):
    number: int
    kind: int
    begin: int
    """Of the whole field, tag included."""
    value: int
    """Of the value: past tag and length."""
    end: int


def without_weights(data: memoryview) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """The model without the bytes of its large initializers, and where these are in `data`: begin and end by name.

    Raises MalformedError where `data` breaks off or is no protobuf message.
    """
    places: dict[str, tuple[int, int]] = {}
    model = bytearray()
    for field in _fields(data, 0, len(data)):
        if (field.number, field.kind) == (_GRAPH, _BYTES):
            model += _delimited(_GRAPH, _graph(data, field, places))
        else:
            model += data[field.begin : field.end]
    return bytes(model), places


def _graph(data: memoryview, graph: _Field, places: dict[str, tuple[int, int]]) -> bytes:
    result = bytearray()
    for field in _fields(data, graph.value, graph.end):
        if (field.number, field.kind) == (_INITIALIZER, _BYTES) and field.end - field.value > LARGE:
            result += _delimited(_INITIALIZER, _tensor(data, field, places))
        else:
            result += data[field.begin : field.end]
    return bytes(result)


def _tensor(data: memoryview, tensor: _Field, places: dict[str, tuple[int, int]]) -> bytes:
    fields = list(_fields(data, tensor.value, tensor.end))
    names = [f for f in fields if (f.number, f.kind) == (_NAME, _BYTES)]
    raw = [f for f in fields if (f.number, f.kind) == (_RAW_DATA, _BYTES)]
    name = bytes(data[names[0].value : names[0].end]).decode(errors="replace") if len(names) == 1 else ""
    if len(raw) != 1 or not name or name in places:
        return bytes(data[tensor.value : tensor.end])
    places[name] = raw[0].value, raw[0].end
    return b"".join(data[f.begin : f.end] for f in fields if f is not raw[0])


def _fields(data: memoryview, begin: int, end: int) -> Iterator[_Field]:
    at = begin
    while at < end:
        tag, value = _varint(data, at, end)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            _, stop = _varint(data, value, end)
        elif kind == _BYTES:
            length, value = _varint(data, value, end)
            stop = value + length
        elif kind in _FIXED_SIZES:
            stop = value + _FIXED_SIZES[kind]
        else:
            raise MalformedError(f"wire type {kind} at byte {at}")
        if stop > end or number == 0:
            raise MalformedError(f"field {number} at byte {at} ends at {stop}, past the end at {end}")
        yield _Field(number, kind, at, value, stop)
        at = stop


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """A number of seven bits a byte, lowest first, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            raise MalformedError(f"a number breaks off at byte {at}")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise MalformedError(f"a number of more than ten bytes before byte {at}")


def _delimited(number: int, value: bytes) -> bytes:
    return _encoded(number << 3 | _BYTES) + _encoded(len(value)) + value


def _encoded(value: int) -> bytes:
    result = bytearray()
    while value >= 0x80:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)
