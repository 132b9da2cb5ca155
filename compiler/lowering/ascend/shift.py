"""Sums shifted right (AMCT's shift N), which is part of the dequantization."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import OpResult, SSAValue

from ...dialects import ascend, nn
from ...dialects.nn.shapes import shape_of
from ..refusal import NotLowered, require
from .quantized import stored
from .rules import Builder, array_of, lowers


@lowers(nn.ShiftAccumulatorOp)
def shift_accumulator(build: Builder, op: nn.ShiftAccumulatorOp) -> Sequence[SSAValue]:
    """A second AscendDequant of the same accumulators, with `shift_n`; the first one stays for readers of the unshifted sums."""
    squeeze, dequant = _dequantization(op.input)
    if dequant is None:
        raise NotLowered("integer-sums", "it does not shift sums of integers that are only dequantized")
    scales, given = stored(build, op.qparams.data.scales()), array_of(dequant.deq_scale, "scale").reshape(-1)
    equal = bool(np.all(scales.reshape(-1) == given))
    require(equal, "equal-scales", "its scale differs from the scale of the sums")
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


def _dequantization(value: SSAValue) -> tuple[ascend.SqueezeOp | None, ascend.AscendDequantOp | None]:
    """The AscendDequant of the sums behind a value, and the Squeeze of the axis that was added to a convolution over
    one axis.
    """
    made = value.op if isinstance(value, OpResult) else None
    if isinstance(made, ascend.SqueezeOp) and isinstance(made.x.owner, ascend.AscendDequantOp):
        return made, made.x.owner
    return None, made if isinstance(made, ascend.AscendDequantOp) else None


def _channel_axis(op: nn.ShiftAccumulatorOp, squeeze: ascend.SqueezeOp | None) -> int:
    """The axis of the scales among those of the accumulators."""
    axis = op.qparams.data.axis or 0
    if squeeze is None:
        return axis
    (added,) = nn.ints(squeeze.axis)
    return axis + (added <= axis)
