"""FORCE_FP16_QUANT, AMCT's precision mode for chips that store scales in fewer bits than float32."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from .array import Array
from .metadata import add_metadata, metadata

FORCE_FP16 = "FORCE_FP16_QUANT"
PRECISION_MODES = ("DEFAULT", FORCE_FP16)
ENTRY = "fakequant_precision_mode"
"""The key of the metadata."""
_LEAST, _NORMAL, _LARGEST = np.float32(2.0**-24), np.float32(2.0**-14), np.float32(65504)
"""The smallest, the smallest normal, and the largest number of float16."""
_ZERO = np.float32(2.0**-25)
"""AMCT's operators make smaller magnitudes 0."""
_KEPT = np.uint32(0xFFFFE000)
"""Mask of the sign, the exponent, and the first 10 bits of the mantissa."""


def force_fp16(module: ModuleOp) -> None:
    """Marks a module as quantized by FORCE_FP16_QUANT."""
    add_metadata(module, **{ENTRY: FORCE_FP16})


def forces_fp16(op: Operation) -> bool:
    """Whether the module of an operation, or the operation as a module, is quantized by FORCE_FP16_QUANT."""
    while (parent := op.parent_op()) is not None:
        op = parent
    return isinstance(op, ModuleOp) and metadata(op).get(ENTRY) == FORCE_FP16


def precision_mode(op: Operation) -> str:
    """The `fakequant_precision_mode` of the module of an operation."""
    return FORCE_FP16 if forces_fp16(op) else PRECISION_MODES[0]


def float16_scales(scales: Array) -> Array:
    """Rounds scales to float16 values or, beyond its normal numbers, to squares of float16 values: the least one, or
    infinite if there is none.
    """
    scales = np.asarray(scales, np.float32)
    with np.errstate(over="ignore"):
        nearest = scales.astype(np.float16).astype(np.float32)
        root = np.sqrt(scales.astype(np.float64)).astype(np.float16).astype(np.float32)
    square = np.square(np.maximum(root, _LEAST))
    return np.where((scales >= _NORMAL) & (scales <= _LARGEST), nearest, square).astype(np.float32)


def in_float16_precision(x: Array) -> Array:
    """float32 numbers with float16's 11 significant bits, as AMCT's operators round: half to even, to at most 65504 in magnitude.

    Below float16's normal numbers they keep 11 bits, unlike float16; magnitudes below 2^-25 become 0, and NaN stays NaN.
    """
    y = np.clip(np.asarray(x, np.float32), -_LARGEST, _LARGEST)
    bits = y.view(np.uint32)
    odd = (bits >> np.uint32(13)) & np.uint32(1)
    rounded = ((bits + np.uint32(0x0FFF) + odd) & _KEPT).view(np.float32)
    return np.where(np.abs(y) < _ZERO, np.float32(0), np.where(np.isnan(y), y, rounded))


def shortened(scales: Array) -> Array:
    """float32 scales with the last 13 bits cleared."""
    return (np.ascontiguousarray(scales, np.float32).view(np.uint32) & _KEPT).view(np.float32).reshape(np.shape(scales))
