"""Finds the grid of a value: that of its point, also after passive operations, which compute no new elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.ir import Operation, OpResult, SSAValue, Use

from ....dialects.nn import DequantizeOp, NNOp, ObserveOp, QuantizeOp, ShiftAccumulatorOp
from ..profiles import Row
from ..sites import Site


def point_behind(value: SSAValue | None, rows: Mapping[type[NNOp], Row]) -> ObserveOp | DequantizeOp | None:
    """The point or dequantization whose parameters apply to a value, looking through the profile's passive operations."""
    while isinstance(value, OpResult):
        op = value.op
        if isinstance(op, ObserveOp | DequantizeOp):
            return op
        if not is_passive(op, rows):
            return None
        value = op.operands[0]
    return None


def is_passive(op: Operation, rows: Mapping[type[NNOp], Row]) -> bool:
    """Whether the results of an operation contain only elements of its first operand, according to its rules."""
    if not isinstance(op, NNOp) or (row := rows.get(type(op))) is None or row.active:
        return False
    return all(r.check(Site(op, op, half_precision=False)) is None for r in row.rules)


def point_on(value: SSAValue) -> ObserveOp | QuantizeOp | None:
    """The observer or quantization of a value, the first of several."""
    points = [op for use in uses_of(value) if isinstance(op := use.operation, ObserveOp | QuantizeOp)]
    return min(points, key=_position) if len(points) > 1 else next(iter(points), None)


def uses_of(value: SSAValue) -> Iterator[Use]:
    """The uses of a value, or of its shifted form, which is still the layer's result."""
    for use in value.uses:
        if isinstance(use.operation, ShiftAccumulatorOp):
            yield from use.operation.result.uses
        else:
            yield use


def _position(op: Operation) -> int:
    block = op.parent
    assert block is not None
    return block.get_operation_index(op)
