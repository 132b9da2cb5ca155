"""Numbers of less than a byte packed into bytes, the first in the lowest bits: for tensors of ONNX, by rows for MatMulNBits, and
by rows of int32 for Ascend's WeightQuantBatchMatmulV2.

Sources: onnx.proto; onnxruntime, docs/ContribOperators.md; ops-nn, prototype and shapes of WeightQuantBatchMatmulV2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

WIDTHS = 2, 4, 8
"""The bits of numbers in MatMulNBits and GatherBlockQuantized."""
_PIECE = 1 << 16
"""The number of bytes that are packed at a time: the numbers in them fit into the cache."""


def packed(values: Array, bits: int) -> Array:
    """Packs the lowest 2, 4 or 8 bits of each number, uint8 [n], into uint8 [bytes]; unused bits of the last byte are 0."""
    count, mask = 8 // bits, (1 << bits) - 1
    if count == 1:
        return values
    whole = values.size // count * count
    words, result = values[:whole].view(f"<u{count}"), np.zeros(-(-values.size // count), np.uint8)
    for i in range(0, words.size, _PIECE):
        some = words[i : i + _PIECE]
        result[i : i + some.size] = sum(some >> k * (8 - bits) & mask << k * bits for k in range(count))
    for k, value in enumerate(values[whole:]):
        result[-1] |= (value & mask) << k * bits
    return result


def unpacked(data: Array, bits: int) -> Array:
    """Unpacks uint8 [..., bytes] into one number a byte, uint8 [..., 8 / bits * bytes]."""
    if bits == 8:
        return data
    parts = np.stack([data >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)], axis=-1)
    return parts.reshape(*data.shape[:-1], -1)


def packed_rows(values: Array, bits: int) -> Array:
    """Packs uint8 [..., n] of 2, 4 or 8 bits to uint8 [..., bytes]: each row begins with a byte."""
    rest = -values.shape[-1] % (8 // bits)
    filled = np.pad(values, [*[(0, 0)] * (values.ndim - 1), (0, rest)]) if rest else np.ascontiguousarray(values)
    return packed(filled.reshape(-1), bits).reshape(*values.shape[:-1], -1)


def unpacked_rows(data: Array, count: int, bits: int) -> Array:
    """Unpacks uint8 [..., count] from the bytes of each row."""
    return unpacked(data, bits)[..., :count]


IN_INT32 = 8
"""The numbers of int4 in an int32."""


def packed_words(values: Array) -> Array:
    """Packs signed integers of 4 bits [rows, n], n a multiple of 8, into int32 [rows, n / 8]."""
    return packed_rows(values.astype(np.int8).view(np.uint8) & 15, 4).view("<i4")


def unpacked_words(words: Array) -> Array:
    """Unpacks int32 [rows, n / 8] into the numbers of 4 bits that `packed_words` packs, int8 [rows, n]."""
    bits = unpacked(np.ascontiguousarray(words.astype("<i4")).view(np.uint8), 4)
    return (bits ^ 8).astype(np.int8) - np.int8(8)
