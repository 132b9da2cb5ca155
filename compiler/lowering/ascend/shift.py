"""Sums shifted right (AMCT's shift N), which is part of the dequantization."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from xdsl.ir import OpResult

from ...dialects import ascend, nn
from ...dialects.nn.shapes import shape_of
from ...rewriting import Condition, condition, requires
from .quantized import stored
from .rules import Builder, Lowering, Values


class _Sums(NamedTuple):
    """The AscendDequant of sums, and the Squeeze of the axis that was added to a convolution over one axis."""

    dequant: ascend.AscendDequantOp
    squeeze: ascend.SqueezeOp | None


class ShiftedDequant(Lowering[nn.ShiftAccumulatorOp]):
    """A second AscendDequant of the same accumulators, with `shift_n`; the first one stays for readers of the unshifted sums"""

    integer_sums: Condition[Any] = requires(
        lambda op: _sums(op) is not None,
        "AscendDequant gives what is shifted",
        "it does not shift sums of integers that are only dequantized",
    )

    @condition
    def equal_scales(self, op: nn.ShiftAccumulatorOp) -> str | None:
        """the scales are those of the sums"""
        sums, scales = _sums(op), stored(op, op.qparams.data.scales())
        given = None if sums is None else nn.array_of(sums.dequant.deq_scale)
        equal = given is not None and bool(np.all(scales.reshape(-1) == given.reshape(-1)))
        return None if equal else "its scale differs from the scale of the sums"

    def rewrite(self, build: Builder, op: nn.ShiftAccumulatorOp) -> Values:
        sums = _sums(op)
        assert sums is not None, "integer_sums asks for them"
        (dequant, squeeze), scales = sums, stored(op, op.qparams.data.scales())
        rank, axis = len(shape_of(dequant.x)), _channel_axis(op, squeeze)
        shape = (-1,) if scales.ndim == 0 or axis == 1 else (*(1,) * axis, -1, *(1,) * (rank - axis - 1))
        constant = build.constant(np.asarray(scales, np.float32).reshape(shape), f"{build.hint}_deq_scale")
        y = build.add(
            ascend.AscendDequantOp,
            dequant.x,
            constant,
            dtype=dequant.dtype,
            shift_n=op.shift_list,
            fakequant_precision_mode=dequant.fakequant_precision_mode,
            name=f"{build.hint}_deq",
        ).y
        return [y if squeeze is None else build.add(ascend.SqueezeOp, y, axis=squeeze.axis).y]


def _sums(op: nn.ShiftAccumulatorOp) -> _Sums | None:
    made = op.input.op if isinstance(op.input, OpResult) else None
    if isinstance(made, ascend.SqueezeOp) and isinstance(made.x.owner, ascend.AscendDequantOp):
        return _Sums(made.x.owner, made)
    return _Sums(made, None) if isinstance(made, ascend.AscendDequantOp) else None


def _channel_axis(op: nn.ShiftAccumulatorOp, squeeze: ascend.SqueezeOp | None) -> int:
    """The axis of the scales among those of the accumulators."""
    axis = op.qparams.data.axis or 0
    if squeeze is None:
        return axis
    (added,) = nn.ints(squeeze.axis)
    return axis + (added <= axis)


PATTERNS = (ShiftedDequant,)
