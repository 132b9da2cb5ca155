"""Scales in the form of Ascend's files: 64 bits per channel. The dialect has float32; this module packs and unpacks them.

As AMCT and AscendDequant have it: bits 31..0 the float32 scale, 39..32 the shift N, 47..40 the weight's offset. As newer
chips have it (TransQuantParamV2): the scale without its last 13 bits, bit 46 set, 45..37 an offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..ir.precision import shortened

Array = np.ndarray[Any, np.dtype[Any]]

_SHIFT, _WEIGHT_OFFSET, _OFFSET = 32, 40, 37
"""The lowest bits of the fields."""
_V2_SCALE, _V2_FLAG = np.uint32(0xFFFFE000), np.uint64(1 << 46)
_OFFSET_LOW, _OFFSET_HIGH = -256, 255


class DeqScale(NamedTuple):
    """The content of AscendDequant's 64 bits: float32 scales, and per channel the shift and the weight's offset."""

    scale: Array
    shift: Array
    weight_offset: Array


def pack(scale: Array, shift: int | Sequence[int] = 0, weight_offset: int = 0) -> Array:
    """uint64 of the shape of `scale`; one shift, or one for each scale of a vector.

    Raises ValueError for a shift that is not in [0, 16], an offset that is not int8.
    """
    shifts = np.asarray(shift)
    if outside := [int(n) for n in shifts.reshape(-1) if not 0 <= n <= 16]:
        raise ValueError(f"shift {outside[0]} is not in [0, 16]")
    if not -128 <= weight_offset <= 127:
        raise ValueError(f"weight offset {weight_offset} is not in [-128, 127]")
    offset = np.uint64((weight_offset & 0xFF) << _WEIGHT_OFFSET)
    return _bits(scale) | (shifts.astype(np.uint64) << np.uint64(_SHIFT)) | offset


def unpack(packed: Array) -> DeqScale:
    """The fields of uint64 scales; bits above them are ignored."""
    return DeqScale(
        _scales(packed),
        (packed >> np.uint64(_SHIFT)).astype(np.uint8),
        (packed >> np.uint64(_WEIGHT_OFFSET)).astype(np.uint8).view(np.int8),
    )


def pack_requant(scale: Array, offset: int) -> Array:
    """uint64 of AscendRequant: the whole float32 scale, and the offset as in TransQuantParamV2 (headers define no place)."""
    return _bits(scale) | np.uint64((offset & 0x1FF) << _OFFSET)


def unpack_requant(packed: Array) -> tuple[Array, Array]:
    """float32 scales and offsets of AscendRequant."""
    field = ((packed >> np.uint64(_OFFSET)) & np.uint64(0x1FF)).astype(np.int32)
    return _scales(packed), np.where(field > _OFFSET_HIGH, field - 512, field)


def trans_quant_param_v2(scale: Array, offset: Array | None = None, *, rounded: bool = False) -> Array:
    """The layout of newer chips. The scale's last 13 bits are cut off, or with `rounded` rounded to even first."""
    bits = np.ascontiguousarray(scale, np.float32).view(np.uint32)
    if rounded:
        bits = bits + np.uint32(0x0FFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    packed = (bits & _V2_SCALE).astype(np.uint64) | _V2_FLAG
    if offset is None:
        return packed
    integers = np.clip(np.rint(offset), _OFFSET_LOW, _OFFSET_HIGH).astype(np.int64)
    return packed | ((integers & 0x1FF).astype(np.uint64) << np.uint64(_OFFSET))


def fixpipe_requant(scale: Array, offset: int, bits: int, *, signed: bool = True) -> Array:
    """uint64 of chips that requantize sums on their way out of the matrix engine (310B, A2, A3), to 4, 8 or 16 bits.

    Bits 31..13 are the scale without its last 13 bits; from bit 37 on is the offset, which has one bit more than the integers;
    bit 46 is set for signed integers. Of the 17 bits of an int16's offset the upper 8 are in bits 7..0.

    Raises ValueError for integers without such a form, or an offset that does not fit.
    """
    if bits not in (4, 8, 16) or not (signed or bits == 8):
        raise ValueError(f"there is no form for {'int' if signed else 'uint'}{bits}")
    if not -(1 << bits) <= offset < 1 << bits:
        raise ValueError(f"offset {offset} does not fit into {bits + 1} bits")
    low = offset & ((1 << min(bits + 1, 9)) - 1)
    high = (offset >> 9) & 0xFF if bits == 16 else 0
    flag = _V2_FLAG if signed else np.uint64(0)
    return _bits(shortened(scale)) | np.uint64(low << _OFFSET | high) | flag


def averaged(scale: Array, count: int) -> Array:
    """The scales of the sums over `count` elements from those of their average."""
    return np.asarray(scale / np.float32(count), np.float32)


def before_averaging(scale: Array, count: int, reciprocal: np.float32 | None = None) -> Array | None:
    """Scales that `averaged` maps to `scale`, None if there are none; if there are several, those with this reciprocal."""
    near = np.asarray(scale * np.float32(count), np.float32)
    candidates = [
        c for steps in (0, 1, -1, 2, -2) if np.array_equal(averaged(c := _stepped(near, steps), count), scale)
    ]
    with np.errstate(divide="ignore", over="ignore"):
        exact = [c for c in candidates if reciprocal is not None and np.all(np.float32(1) / c == reciprocal)]
    return next(iter(exact + candidates), None)


def _stepped(values: Array, steps: int) -> Array:
    """The float32 numbers this many places further on."""
    towards = np.float32(np.inf if steps > 0 else 0)
    for _ in range(abs(steps)):
        values = np.nextafter(values, towards)
    return values


def _bits(scale: Array) -> Array:
    return np.ascontiguousarray(scale, np.float32).view(np.uint32).astype(np.uint64)


def _scales(packed: Array) -> Array:
    return np.ascontiguousarray(packed & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.float32)
