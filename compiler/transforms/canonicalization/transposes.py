"""Merges and cancels transposes: adjacent ones, and across operations that commute with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ...dialects import nn
from ...dialects.nn.shapes import shape_of
from ...rewriting import Remarks, fused_location, layer_of
from ..transposition import (
    RULES,
    Moved,
    build_moved,
    commute,
    compose,
    identity,
    inverse,
    is_constant,
    is_single,
    leads,
    permute_constant,
)
from .rules import rule


@rule(nn.TransposeOp)
def merge_transposes(op: nn.TransposeOp, rewriter: PatternRewriter, remarks: Remarks) -> None:
    """Merges two transposes into one or none, also across operations that commute with them."""
    first, between = _chain_above(op)
    if first is None:
        return
    perm = nn.ints(first.perm)
    steps: list[Moved] = []
    for each in between:
        # each computes on the first transpose's input, whose axes are those of its operand permuted back
        if (moved := commute(each, inverse(perm))) is None:
            return
        steps.append(moved)
        perm = inverse(moved.results[0])
    final = compose(nn.ints(op.perm), perm)
    cancelled = final == identity(len(final))
    if not cancelled and not first.result.has_one_use():
        return  # one more transpose instead of one less
    if cancelled and not between and first.input.type != op.result.type:
        return
    value, old, made = first.input, first.result, list[Operation]()
    for each, moved in zip(between, steps, strict=True):
        made.extend(_on_permuted(each, moved, {old: value}))
        value, old = made[-1].results[0], each.results[0]
    if not cancelled:
        location = fused_location(first, op)
        merged = nn.TransposeOp.make(
            value, perm=final, result_types=[op.result.type], origin=op.origin, location=location
        )
        made.append(merged)
        value = merged.result
    elif made:
        nn.set_type(value, op.result.type)
    remarks.applied(op, "transposes", f"{'cancels' if cancelled else 'merged with'} {layer_of(first)}")
    rewriter.replace(op, made, [value])


@rule(*nn.kinds(nn.ElementwiseOp), nn.ConcatOp)
def join_transposes(op: Operation, rewriter: PatternRewriter, remarks: Remarks) -> None:
    """If all operands of `op` are transposed alike, transposes its result instead."""
    if not isinstance(op, nn.NNOp):
        return
    transposes = {v: v.owner for v in op.operands if not is_constant(v)}
    if len(transposes) < 2 or not all(_only_for(op, t) for t in transposes.values()):
        return
    inputs = {v: cast(nn.TransposeOp, t).input for v, t in transposes.items()}
    perms = {nn.ints(cast(nn.TransposeOp, t).perm) for t in transposes.values()}
    if len(perms) != 1 or (moved := commute(op, inverse(perm := perms.pop()))) is None:
        return
    if any(len(shape_of(v)) != len(perm) for v in inputs):
        return
    made = _on_permuted(op, moved, inputs)
    back = nn.TransposeOp.make(
        made[-1].results[0],
        perm=inverse(moved.results[0]),
        result_types=[op.results[0].type],
        location=fused_location(*[cast(Operation, t) for t in transposes.values()]),
    )
    remarks.applied(op, "transposes", f"{len(transposes)} transposes moved behind it, as one")
    rewriter.replace(op, [*made, back])


def _only_for(op: Operation, producer: object) -> bool:
    """Whether it is a transpose with `op` as its only user."""
    return isinstance(producer, nn.TransposeOp) and all(use.operation is op for use in producer.result.uses)


def _chain_above(op: nn.TransposeOp) -> tuple[nn.TransposeOp | None, list[nn.NNOp]]:
    """The nearest transpose above, and the operations between, each used once and with one computed operand.

    Not more than `_BETWEEN`: other transposes below may look through the same operations.
    """
    between: list[nn.NNOp] = []
    owner = op.input.owner
    while isinstance(owner, nn.NNOp) and not isinstance(owner, nn.TransposeOp) and len(between) < _BETWEEN:
        computed = {v for v in owner.operands if not is_constant(v)}
        if type(owner) not in RULES or len(owner.results) != 1 or len(computed) != 1:
            return None, []
        if not owner.results[0].has_one_use() or not leads(owner, value := computed.pop()):
            return None, []
        between.append(owner)
        owner = value.owner
    return (owner, between[::-1]) if isinstance(owner, nn.TransposeOp) else (None, [])


_BETWEEN = 32
"""Operations between two transposes that become one. Exporters leave a few: an activation, a pad, a sum with a constant."""


def _on_permuted(op: nn.NNOp, moved: Moved, new: Mapping[SSAValue, SSAValue]) -> list[Operation]:
    """Operations, the last of which is `op` on the new values; constants are transposed for it."""
    made: list[Operation] = []
    operands: list[SSAValue] = []
    for operand, perm in zip(op.operands, moved.operands, strict=True):
        if operand in new:
            operands.append(new[operand])
        elif perm is None or is_single(operand):
            operands.append(operand)
        else:
            made.extend(permute_constant(operand, perm))
            operands.append(made[-1].results[0])
    return [*made, build_moved(op, moved, operands)]
