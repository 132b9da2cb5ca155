"""The checksum of LevelDB and TensorFlow: CRC-32C (RFC 3720) in its masked form (tensorflow/core/lib/hash/crc32c.h).

The sum is linear: words are summed all at once. The first half of them is moved past the second half and added to it, until one
word is left.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

_POLYNOMIAL = 0x82F63B78
"""The polynomial of CRC-32C, lowest bit first."""
_PIECE = 1 << 20
"""Words that are summed at once."""
_MASK = 0xA282EAD8

Words = np.ndarray[Any, np.dtype[np.uint32]]


def masked_crc32c(data: np.ndarray[Any, np.dtype[np.uint8]]) -> int:
    """The masked checksum of contiguous bytes."""
    crc, head = 0xFFFFFFFF, data.size % 4
    for byte in data[:head].tolist():
        crc = int(_bytes()[(crc ^ byte) & 0xFF]) ^ crc >> 8
    words = data[head:].view("<u4")
    for start in range(0, words.size, _PIECE):
        crc = _after(crc, words[start : start + _PIECE])
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


def _after(crc: int, words: Words) -> int:
    """The checksum after words that follow bytes with this checksum."""
    rest = np.zeros(1 << (words.size - 1).bit_length(), np.uint32)  # zeros in front change nothing
    rest[-words.size :] = words
    rest[-words.size] ^= np.uint32(crc)
    while (half := rest.size // 2) > 0:
        rest = _moved(rest[:half], half) ^ rest[half:]
    return int(_moved(rest, 1)[0])


def _moved(words: Words, count: int) -> Words:
    """The checksum of each word with `count` zero words after it."""
    low, high = _tables(count)
    halves = words.view("<u2").reshape(-1, 2)
    return low[halves[:, 0]] ^ high[halves[:, 1]]


@cache
def _tables(count: int) -> tuple[Words, Words]:
    """The results of `_moved` for each low and each high half of a word; `count` is a power of two."""
    low = np.arange(1 << 16, dtype=np.uint32)
    high = low << np.uint32(16)
    if count > 1:
        return _moved(_moved(low, count // 2), count // 2), _moved(_moved(high, count // 2), count // 2)
    for _ in range(4):
        low, high = _moved_by_byte(low), _moved_by_byte(high)
    return low, high


def _moved_by_byte(words: Words) -> Words:
    """The checksum of each word with a zero byte after it, which the lowest byte decides."""
    return _bytes()[words & np.uint32(0xFF)] ^ words >> np.uint32(8)


@cache
def _bytes() -> Words:
    """The checksum of each byte with a zero byte after it."""
    one, sums = np.uint32(1), np.arange(256, dtype=np.uint32)
    for _ in range(8):
        sums = sums >> one ^ np.uint32(_POLYNOMIAL) * (sums & one)
    return sums
