"""Checkpoints: an index of tensors by key, and files with their bytes, which are mapped, not read.

`variables.index` is a table of BundleEntryProto; `variables.data-00000-of-00001` and so on contain the bytes. A partitioned
variable is stored in parts. (tensorflow/core/util/tensor_bundle)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from ...support.diagnostics import CompileError
from ..wire import MalformedError, mapped
from .crc32c import masked_crc32c
from .leveldb import entries
from .schema import ENUMS, BundleEntryProto, BundleHeaderProto
from .tensors import Array, decoded, dtype_of, shape_of

_HEADER = b""
_NEWEST = 1
"""The version of the format."""
_LITTLE = ENUMS["BundleHeaderProto.Endianness"]["LITTLE"]

Part = tuple[tuple[int, int], ...]
"""Begin and length on each axis."""
_ALL = (0, -1)
"""A whole axis."""
_AXIS = re.compile(r"(\d+),(\d+)|-", re.ASCII)

_ESCAPES = {0x00: b"\x00\xff", 0xFF: b"\xff\x00"}
_END = b"\x00\x01"
"""Ends a name in a key."""


class Checkpoint:
    """The tensors of a checkpoint by key; `prefix` is the common prefix of its files.

    Raises CompileError, located at the index, if that is missing, corrupted, or of an unsupported kind.
    """

    def __init__(self, prefix: Path):
        self._prefix = prefix
        where = f"{prefix}.index"
        table = _table(Path(where))
        if _HEADER not in table:
            raise CompileError("is not a checkpoint index: it has no header", where=where)
        header = _parsed(BundleHeaderProto, table.pop(_HEADER), where)
        if header.endianness != _LITTLE:
            raise CompileError("holds numbers in big-endian order, which is not supported", where=where)
        if header.version.min_consumer > _NEWEST:
            raise CompileError(f"is of a newer format, {header.version.min_consumer}", where=where)
        self._shards = header.num_shards
        self._entries = {key: _parsed(BundleEntryProto, value, where) for key, value in table.items()}
        self._mapped: dict[int, Array] = {}
        self._compared: set[tuple[int, int, int]] = set()

    def read(self, key: bytes, part: Part, where: str) -> Array:
        """The tensor of a key, or, if `part` is not empty, that part of it; a view of the file unless it is joined from parts.

        Raises CompileError, located at `where`, if the tensor or a file is missing, or does not fit its description or its
        checksum, which is compared at first use.
        """
        entry = self._entry(key, where)
        if not entry.slices:
            whole = self._stored(entry, where)
        elif (alone := self._entries.get(part_key(key, part))) is not None:
            return self._stored(alone, where)
        else:
            whole = self._joined(key, entry, where)
        return whole[span_of(part, whole.shape, where)] if part else whole

    def _entry(self, key: bytes, where: str) -> Any:
        if (entry := self._entries.get(key)) is None:
            hint = f"{self._prefix}.index belongs to another model"
            raise CompileError(f"its value '{key.decode(errors='replace')}' is not saved", where=where, hint=hint)
        return entry

    def _stored(self, entry: Any, where: str) -> Array:
        dtype, shape = dtype_of(entry.dtype, where), shape_of(entry.shape, where)
        data, begin, end = self._shard(entry.shard_id, where), entry.offset, entry.offset + entry.size
        if not 0 <= begin <= end <= data.size:
            message = f"needs bytes {begin} to {end} of {self._file(entry.shard_id).name}, which has {data.size}"
            raise CompileError(message, where=where, hint="the file is truncated, or another one")
        place = (entry.shard_id, begin, end)
        if place not in self._compared:
            if masked_crc32c(data[begin:end]) != entry.crc32c:
                file = self._file(entry.shard_id).name
                raise CompileError(f"its value in {file} is corrupted: checksum mismatch", where=where)
            self._compared.add(place)
        return decoded(data[begin:end], dtype, shape, where)

    def _joined(self, key: bytes, entry: Any, where: str) -> Array:
        """A tensor that is stored only in parts."""
        shape = shape_of(entry.shape, where)
        parts = [part_of(proto) for proto in entry.slices]
        arrays = [self._stored(self._entry(part_key(key, part), where), where) for part in parts]
        if sum(a.size for a in arrays) != prod(shape):
            raise CompileError("the parts that are saved do not make up the whole", where=where)
        whole = np.zeros(shape, dtype_of(entry.dtype, where))
        for part, array in zip(parts, arrays, strict=True):
            span = span_of(part, shape, where)
            if whole[span].shape != array.shape:
                raise CompileError("the parts that are saved do not fit their places", where=where)
            whole[span] = array
        return whole

    def _shard(self, number: int, where: str) -> Array:
        if not 0 <= number < self._shards:
            raise CompileError(f"is in file {number} of {self._shards}", where=where)
        if number not in self._mapped:
            path = self._file(number)
            if not path.is_file():
                raise CompileError(f"the file that holds it is missing: {path}", where=where)
            self._mapped[number] = mapped(path)
        return self._mapped[number]

    def _file(self, number: int) -> Path:
        return Path(f"{self._prefix}.data-{number:05d}-of-{self._shards:05d}")


def _table(path: Path) -> dict[bytes, memoryview]:
    data = mapped(path)
    try:
        return entries(data.data)
    except MalformedError as e:
        raise CompileError(f"is not a checkpoint index: {e}", where=str(path)) from None


def _parsed(message: type[Any], value: memoryview, where: str) -> Any:
    try:
        return message.FromString(bytes(value))
    except DecodeError:
        raise CompileError("is not a checkpoint index: an entry is malformed", where=where) from None


def parse_part(spec: bytes) -> Part:
    """The part that `12 8 0,4:-` names: of a tensor of shape [12, 8], four rows from the first. Empty is all of it.

    Raises ValueError for other text.
    """
    if not spec:
        return ()
    axes = [_AXIS.fullmatch(text) for text in spec.decode().split(" ")[-1].split(":")]
    if not all(axes):
        raise ValueError(spec)
    return tuple((int(m[1]), int(m[2])) if m[1] else _ALL for m in axes if m)


def part_of(proto: Any) -> Part:
    """The part in a TensorSliceProto."""
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
    """The key of a part: fields that sort like their values (`EncodeTensorNameSlice` and `OrderedCode`)."""
    name = b"".join(_ESCAPES.get(byte, bytes([byte])) for byte in key)
    return _natural(0) + name + _END + _natural(len(part)) + b"".join(_signed(n) for axis in part for n in axis)


def _natural(number: int) -> bytes:
    """The count of the following bytes, then the bytes, highest first."""
    size = (number.bit_length() + 7) // 8
    return bytes([size]) + number.to_bytes(size, "big")


def _signed(number: int) -> bytes:
    """Encodes an integer: one leading 1 for each byte, then sign and number; all bits of a negative number are inverted."""
    size = (number if number >= 0 else ~number).bit_length() // 7 + 1
    ones = (1 << size) - 1 << 7 * size
    return (number % (1 << 8 * size) ^ ones).to_bytes(size, "big")
