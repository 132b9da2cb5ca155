"""On whose grid a value is: behind its point, and behind passive operations, which make no elements of their own."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import OpResult, SSAValue

from ...dialects.nn import DequantizeOp, NNOp, ObserveOp, QuantizeOp
from .profiles import Row


def point_behind(value: SSAValue | None, rows: Mapping[type[NNOp], Row]) -> ObserveOp | DequantizeOp | None:
    """The point or dequantization whose parameters hold for a value, through the passive operations of a profile's rows."""
    while isinstance(value, OpResult):
        op = value.op
        if isinstance(op, ObserveOp | DequantizeOp):
            return op
        if not isinstance(op, NNOp) or (row := rows.get(type(op))) is None or row.active:
            return None
        value = op.operands[0]
    return None


def point_on(value: SSAValue) -> ObserveOp | QuantizeOp | None:
    """The observer or quantization that stands on a value."""
    users = (use.operation for use in value.uses)
    return next((op for op in users if isinstance(op, ObserveOp | QuantizeOp)), None)
