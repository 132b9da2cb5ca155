"""Removes operations that return their operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ...dialects import nn
from ...dialects.nn.shapes import known, shape_of, static
from ...rewriting import Remarks, rewrites


def give_back(
    op: Operation, value: SSAValue, rewriter: PatternRewriter, remarks: Remarks, rule: str, reason: str
) -> None:
    """Replaces the one result of `op` by an existing value, unless their types know different sizes."""
    if op.results[0].type != value.type:
        return
    remarks.applied(op, rule, reason)
    rewriter.replace(op, [], [value])


def _slices_everything(op: nn.SliceOp) -> bool:
    shape = shape_of(op.input)
    return all(
        s.step in (None, 1) and (s.indices(d)[:2] == (0, d) if known(d) else _is_open(s))
        for s, d in zip(op.slices(len(shape)), shape, strict=True)
    )


def _is_open(each: slice) -> bool:
    """Ends that exceed any size (ONNX writes the largest int32 or int64)."""
    return not each.start and (each.stop is None or each.stop >= 2**31 - 1)


def _expands_to_itself(op: nn.ExpandOp) -> bool:
    target = op.target()
    return static(shape_of(op.input)) or (target is not None and all(d == 1 for d in target))


def _stays(op: nn.MovingOp) -> bool:
    """Whether every axis stays, entry by entry."""
    axes = range(len(shape_of(op.operands[0])))
    return op.only_moves and all(op.axis_behind(axis) == axis for axis in axes)


_IS_IDENTITY: dict[type[Operation], Callable[[Any], bool]] = {
    **dict.fromkeys(nn.kinds(nn.MovingOp), _stays),
    nn.CastOp: lambda op: True,
    nn.ConcatOp: lambda op: len(op.inputs) == 1,
    nn.SplitOp: lambda op: len(op.parts) == 1,
    nn.SliceOp: _slices_everything,
    nn.ExpandOp: _expands_to_itself,
}
"""Conditions by which an operation with equal types of first operand and only result is an identity."""


@rewrites(*_IS_IDENTITY)
def remove_identity(op: Operation, rewriter: PatternRewriter, remarks: Remarks) -> None:
    """Casts to the same type, joins of one, ranges of everything, pads of nothing, expansions to the same shape."""
    if len(op.results) == 1 and op.results[0].type == op.operands[0].type and _IS_IDENTITY[type(op)](op):
        give_back(op, op.operands[0], rewriter, remarks, "identity", f"the result of {op.name} is its operand")
