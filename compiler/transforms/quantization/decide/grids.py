"""Finds the grid of a value: that of its point, also after passive operations, which compute no new elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.ir import Operation, OpResult, SSAValue, Use

from ....dialects.nn import DequantizeOp, NNOp, ObserveOp, QParams, QuantizeOp, ShiftAccumulatorOp
from .conditions import first_of
from .rows import Row
from .sites import Site

Grid = ObserveOp | DequantizeOp
"""An operation that has the parameters of a value."""


class Grids:
    """The grids of values under a profile's rows. Each operation is looked at once, so points before it must be there already."""

    def __init__(self, rows: Mapping[type[NNOp], Row]):
        self._rows = rows
        self._behind: dict[SSAValue, Grid | None] = {}
        self._softmax_only: dict[SSAValue, bool] = {}

    def behind(self, value: SSAValue | None) -> Grid | None:
        """The point or dequantization whose parameters apply to a value, looking through passive operations."""
        path: list[SSAValue] = []
        found: Grid | None = None
        while isinstance(value, OpResult):
            if value in self._behind:
                found = self._behind[value]
                break
            path.append(value)
            if isinstance(value.op, Grid):
                found = value.op
                break
            if not self.is_passive(value.op):
                break
            value = value.op.operands[0]
        self._behind.update(dict.fromkeys(path, found))
        return found

    def params_at(self, site: Site) -> QParams | None:
        """The parameters of a layer's input on the grid of a calibrated point: the first that did not come quantized."""
        values = map(site.operand, site.inputs if self._rows[type(site.compute)].two_inputs else (0,))
        points = map(self.behind, values)
        calibrated = (p.qparams.data for p in points if isinstance(p, ObserveOp) and p.qparams is not None)
        return next(calibrated, None)

    def is_passive(self, op: Operation) -> bool:
        """Whether the results of an operation contain only elements of its first operand, according to its rules."""
        if not isinstance(op, NNOp) or (row := self._rows.get(type(op))) is None or row.active:
            return False
        site = Site(op, op, False, self._softmax_only)
        return first_of(site, row.rules) is None


def point_behind(value: SSAValue | None, rows: Mapping[type[NNOp], Row]) -> Grid | None:
    """The grid of one value, see `Grids.behind`."""
    return Grids(rows).behind(value)


def point_on(value: SSAValue) -> ObserveOp | QuantizeOp | None:
    """The observer or quantization of a value, the first of several."""
    points = {op for use in uses_of(value) if isinstance(op := use.operation, ObserveOp | QuantizeOp)}
    if len(points) < 2:
        return next(iter(points), None)
    return next(op for op in _after(value) if isinstance(op, ObserveOp | QuantizeOp) and op in points)


def _after(value: SSAValue) -> Iterator[Operation]:
    """The operations after the one that computes a value."""
    op = value.owner.next_op if isinstance(value.owner, Operation) else value.owner.first_op
    while op is not None:
        yield op
        op = op.next_op


def uses_of(value: SSAValue) -> Iterator[Use]:
    """The uses of a value, or of its shifted form, which is still the layer's result."""
    for use in value.uses:
        if isinstance(use.operation, ShiftAccumulatorOp):
            yield from use.operation.result.uses
        else:
            yield use
