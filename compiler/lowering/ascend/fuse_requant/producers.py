"""The operation that produces a value."""

from __future__ import annotations

from xdsl.ir import OpResult, SSAValue

from ....dialects.ascend import AscendDequantOp


def dequant_of(value: SSAValue) -> AscendDequantOp | None:
    """The AscendDequant that gives a value."""
    return value.op if isinstance(value, OpResult) and isinstance(value.op, AscendDequantOp) else None
