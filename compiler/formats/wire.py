"""Protobuf's encoding (https://protobuf.dev/programming-guides/encoding/) around weights, which protobuf itself would copy.

When a file is read, its weights are removed before protobuf parses it: only the fields on the way to them are read. When a file
is written, the bytes of arrays are placed between the parts that protobuf encodes. Each format defines where its weights are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..support.diagnostics import CompileError

Array = np.ndarray[Any, np.dtype[Any]]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Kinds of fields."""
_FIXED_SIZES = {FIXED64: 8, FIXED32: 4}

LARGE = 1 << 14
"""Smaller values stay in the message: they are cheap to copy, and small constants are read from there."""

MOST_BYTES = 2**31 - 1
"""The largest file that protobuf can read."""

Places = dict[str, tuple[int, int]]
"""The places of weights in the file, by name: begin and end."""


class MalformedError(ValueError):
    """The bytes are not a valid encoding."""


class Field(NamedTuple):
    """A field of a message: its number, its kind, and the place of its bytes."""

    number: int
    kind: int
    begin: int
    """The position where the whole field begins, its tag included."""
    value: int
    """The position where the value begins: after tag and length."""
    end: int

    @property
    def large(self) -> bool:
        return self.kind == BYTES and self.end - self.value > LARGE

    @staticmethod
    def whole(data: memoryview) -> Field:
        """The whole `data`, as the value of a field."""
        return Field(0, BYTES, 0, 0, len(data))


Rewrite = Callable[[Field], bytes]
"""Maps a field to the value that replaces its own."""


def mapped(path: Path) -> Array:
    """The bytes of a file, mapped read-only. Raises CompileError if it cannot be read."""
    try:
        empty = path.stat().st_size == 0
        return np.empty(0, np.uint8) if empty else np.memmap(path, np.uint8, "r")
    except OSError as e:
        raise CompileError(f"cannot be read: {e.strerror}", where=str(path)) from None


def rewritten(data: memoryview, message: Field, rules: Mapping[int, Rewrite]) -> bytes:
    """A message in which rules, by number, replace the values of large fields."""
    result = bytearray()
    done = message.value
    for field in fields(data, message):
        if field.large and (rewrite := rules.get(field.number)) is not None:
            result += data[done : field.begin]
            result += delimited(field.number, rewrite(field))
            done = field.end
    result += data[done : message.end]
    return bytes(result)


def without(data: memoryview, message: Field, field: Field) -> bytes:
    """A message without one of its fields."""
    return bytes(data[message.value : field.begin]) + bytes(data[field.end : message.end])


def only(data: memoryview, message: Field, number: int) -> Field | None:
    """The one field of this number with bytes; None if there is none, or several for protobuf to merge."""
    found = [f for f in fields(data, message) if (f.number, f.kind) == (number, BYTES)]
    return found[0] if len(found) == 1 else None


def text(data: memoryview, field: Field | None) -> str:
    """The text in a field; empty if there is no field."""
    return "" if field is None else bytes(data[field.value : field.end]).decode(errors="replace")


def fields(data: memoryview, message: Field) -> Iterator[Field]:
    """The fields of a message. Raises MalformedError if it is truncated or not a message."""
    at, end = message.value, message.end
    while at < end:
        tag, value = read_varint(data, at, end)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            _, stop = read_varint(data, value, end)
        elif kind == BYTES:
            length, value = read_varint(data, value, end)
            stop = value + length
        elif kind in _FIXED_SIZES:
            stop = value + _FIXED_SIZES[kind]
        else:
            raise MalformedError(f"wire type {kind} at byte {at}")
        if number == 0:
            raise MalformedError(f"a field without a number at byte {at}")
        if stop > end:
            raise MalformedError(
                f"field {number} at byte {at} should have {stop - value} bytes, {end - value} are there"
            )
        yield Field(number, kind, at, value, stop)
        at = stop


def read_varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """A number in groups of seven bits, lowest first, and its end."""
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


def varint(value: int) -> bytes:
    """A number in the form that `read_varint` reads."""
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value])


def header(number: int, size: int) -> bytes:
    """The bytes before the `size` bytes of a field's value."""
    return varint(number << 3 | BYTES) + varint(size)


def delimited(number: int, value: bytes) -> bytes:
    """A field of bytes: a text, a message, or numbers in one run."""
    return header(number, len(value)) + value
