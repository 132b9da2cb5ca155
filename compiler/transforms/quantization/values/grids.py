"""On whose grid a value is: behind its point, and behind passive operations, which make no elements of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.ir import Operation, OpResult, SSAValue, Use

from ....dialects.nn import DequantizeOp, NNOp, ObserveOp, QuantizeOp, ShiftAccumulatorOp
from ..profiles import Row
from ..sites import Site


def point_behind(value: SSAValue | None, rows: Mapping[type[NNOp], Row]) -> ObserveOp | DequantizeOp | None:
    """The point or dequantization whose parameters hold for a value, through the passive operations of a profile's rows."""
    while isinstance(value, OpResult):
        op = value.op
        if isinstance(op, ObserveOp | DequantizeOp):
            return op
        if not is_passive(op, rows):
            return None
        value = op.operands[0]
    return None


def is_passive(op: Operation, rows: Mapping[type[NNOp], Row]) -> bool:
    """Whether the results of an operation hold nothing but elements of its first operand, as its rules have it."""
    if not isinstance(op, NNOp) or (row := rows.get(type(op))) is None or row.active:
        return False
    return all(r.check(Site(op, op, half_precision=False)) is None for r in row.rules)


def point_on(value: SSAValue) -> ObserveOp | QuantizeOp | None:
    """The observer or quantization of a value, the first of several."""
    points = [op for use in uses_of(value) if isinstance(op := use.operation, ObserveOp | QuantizeOp)]
    return min(points, key=_position) if len(points) > 1 else next(iter(points), None)


def uses_of(value: SSAValue) -> Iterator[Use]:
    """Who reads a value, or what a layer's shift leaves of it: that is still the layer's result."""
    for use in value.uses:
        if isinstance(use.operation, ShiftAccumulatorOp):
            yield from use.operation.result.uses
        else:
            yield use


def _position(op: Operation) -> int:
    block = op.parent
    assert block is not None
    return block.get_operation_index(op)
