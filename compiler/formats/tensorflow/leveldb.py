"""Sorted tables of keys and values in LevelDB's layout, the index of TensorFlow's checkpoints.

A table is a run of blocks, then a footer with the place of the block that lists all others. A key is stored without the prefix
that it shares with the key before it. (https://github.com/google/leveldb/blob/main/doc/table_format.md)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..wire import MalformedError, read_varint
from .crc32c import masked_crc32c

_MAGIC = 0xDB4775248B80FB57.to_bytes(8, "little")
_FOOTER = 48
"""Bytes at the end: two places as varints, padding, the magic number."""
_UNCOMPRESSED = 0
_TRAILER = 5
"""Bytes after a block: the kind of its compression, and the checksum of the block and the kind."""
_MOST_SHARED = 64
"""Bytes of keys per byte of the file, at most: a key is written out at least once in sixteen."""


def entries(data: memoryview) -> dict[bytes, memoryview]:
    """The values of a table by key, as views of `data`. Raises MalformedError if it is corrupted, not a table, or a
    compressed one.
    """
    *blocks, _ = places(data)
    result: dict[bytes, memoryview] = {}
    last, budget = None, _MOST_SHARED * len(data)
    for offset, size in blocks:
        for key, value in _block(data, offset, size):
            budget -= len(key)
            if (last is not None and key <= last) or budget < 0:
                raise MalformedError("keys are not in order")
            result[key] = value
            last = key
    return result


def places(data: memoryview) -> Iterator[tuple[int, int]]:
    """Offset and size of every block, last of the one that lists the others. Raises MalformedError if that is malformed."""
    index = _index(data)
    for _, place in _block(data, *index):
        yield _handle(place, 0)[:2]
    yield index


def _index(data: memoryview) -> tuple[int, int]:
    """Offset and size of the block with the places of all others."""
    if len(data) < _FOOTER or bytes(data[-8:]) != _MAGIC:
        raise MalformedError("the magic number is missing at the end")
    _, _, after = _handle(data, len(data) - _FOOTER)
    return _handle(data, after)[:2]


def _handle(data: memoryview, at: int) -> tuple[int, int, int]:
    """Offset and size of a block, and the position after them."""
    offset, at = read_varint(data, at, len(data))
    size, at = read_varint(data, at, len(data))
    return offset, size, at


def _block(data: memoryview, offset: int, size: int) -> Iterator[tuple[bytes, memoryview]]:
    """The keys and values of a block. It ends in the offsets of keys that are stored whole, four bytes each, and their count."""
    if offset + size + _TRAILER > len(data):
        left = max(0, len(data) - offset)
        raise MalformedError(f"a block should have {size} bytes at byte {min(offset, len(data))}, {left} are there")
    if (kind := data[offset + size]) != _UNCOMPRESSED:
        raise MalformedError(f"a block is compressed (kind {kind}), which is not supported")
    guarded = np.frombuffer(data[offset : offset + size + 1], np.uint8)
    if masked_crc32c(guarded) != int.from_bytes(data[offset + size + 1 : offset + size + _TRAILER], "little"):
        raise MalformedError(f"the block at byte {offset} is corrupted: checksum mismatch")
    block = data[offset : offset + size]
    end, at, key = size - 4 - 4 * int.from_bytes(block[-4:], "little"), 0, b""
    if end < 0:
        raise MalformedError(f"the block at byte {offset} is too short")
    while at < end:
        shared, at = read_varint(block, at, end)
        unshared, at = read_varint(block, at, end)
        length, at = read_varint(block, at, end)
        if shared > len(key) or at + unshared + length > end:
            raise MalformedError(f"an entry of the block at byte {offset} is cut off")
        key = key[:shared] + bytes(block[at : at + unshared])
        at += unshared
        yield key, block[at : at + length]
        at += length
