"""Parts of tensors, as partitioned variables are saved: how they are written, where they lie, and their keys in a checkpoint."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ...diagnostics import CompileError

Part = tuple[tuple[int, int], ...]
"""Begin and length on each axis."""
_ALL = (0, -1)
"""All of an axis."""
_AXIS = re.compile(r"(\d+),(\d+)|-", re.ASCII)

_ESCAPES = {0x00: b"\x00\xff", 0xFF: b"\xff\x00"}
_END = b"\x00\x01"
"""Of a name in a key."""


def parse_part(spec: bytes) -> Part:
    """The part that `12 8 0,4:-` names: of a tensor of shape [12, 8], four rows from the first. Empty is all of it.

    Raises ValueError for anything else.
    """
    if not spec:
        return ()
    axes = [_AXIS.fullmatch(text) for text in spec.decode().split(" ")[-1].split(":")]
    if not all(axes):
        raise ValueError(spec)
    return tuple((int(m[1]), int(m[2])) if m[1] else _ALL for m in axes if m)


def part_of(proto: Any) -> Part:
    """The part that a TensorSliceProto names."""
    return tuple((e.start, e.length) if e.HasField("length") else _ALL for e in proto.extent)


def span_of(part: Part, shape: Sequence[int], where: str) -> tuple[slice, ...]:
    """A part as an index of a tensor of some shape."""
    if len(part) == len(shape):
        pairs = list(zip(part, shape, strict=True))
        spans = [slice(size) if axis == _ALL else slice(axis[0], sum(axis)) for axis, size in pairs]
        if all(begin >= 0 and begin + length <= size for (begin, length), size in pairs):
            return tuple(spans)
    raise CompileError(f"a part of it, {list(part)}, is not within its shape {list(shape)}", where=where)


def part_key(key: bytes, part: Part) -> bytes:
    """The key of a part: fields that sort as what they stand for does (`EncodeTensorNameSlice` and `OrderedCode`)."""
    name = b"".join(_ESCAPES.get(byte, bytes([byte])) for byte in key)
    return _natural(0) + name + _END + _natural(len(part)) + b"".join(_signed(n) for axis in part for n in axis)


def _natural(number: int) -> bytes:
    """The count of the bytes that follow, and these, highest first."""
    size = (number.bit_length() + 7) // 8
    return bytes([size]) + number.to_bytes(size, "big")


def _signed(number: int) -> bytes:
    """As many leading ones as there are bytes, then sign and number; of a negative number all bits are turned."""
    size = (number if number >= 0 else ~number).bit_length() // 7 + 1
    ones = (1 << size) - 1 << 7 * size
    return (number % (1 << 8 * size) ^ ones).to_bytes(size, "big")
