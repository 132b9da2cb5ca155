"""Protobuf's encoding, as far as messages are written piece by piece instead of as one."""

from __future__ import annotations

LIMIT = 2**31 - 1
"""The largest file that protobuf can read, in bytes."""


def varint(value: int) -> bytes:
    """Seven bits per byte, lowest first, the high bit set on all but the last."""
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value])
