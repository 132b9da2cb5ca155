"""Merges and cancels transposes: adjacent ones, and across operations that commute with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ...dialects import nn
from ...dialects.nn.permutations import Moved, compose, identity, inverse
from ...dialects.nn.shapes import shape_of
from ...rewriting import Remarks, fused_location, layer_of, rewrites
from ..transposition import (
    build_moved,
    commute,
    is_constant,
    is_single,
    leads,
    permute_constant,
)


@rewrites(nn.TransposeOp)
def merge_transposes(first: nn.TransposeOp, rewriter: PatternRewriter, remarks: Remarks) -> None:
    """Merges a transpose with the next ones below into one or none, also across operations that commute with them.

    It looks down, and what two become is below both: each operation is passed once, however many transposes a chain has.
    """
    for reader in {use.operation: None for use in first.result.uses}:
        if (chain := _chain_below(first, reader)) is not None:
            _merge(first, *chain, rewriter, remarks)


def _merge(
    first: nn.TransposeOp,
    between: Mapping[nn.NNOp, Moved],
    op: nn.TransposeOp,
    rewriter: PatternRewriter,
    remarks: Remarks,
) -> None:
    perm = inverse([*between.values()][-1].results[0]) if between else nn.ints(first.perm)
    final = compose(nn.ints(op.perm), perm)
    cancelled = final == identity(len(final))
    if not cancelled and not first.result.has_one_use():
        return  # one more transpose instead of one less
    if cancelled and not between and first.input.type != op.result.type:
        return
    value, old, made = first.input, first.result, list[Operation]()
    for each, moved in between.items():
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


@rewrites(*nn.kinds(nn.ElementwiseOp), nn.ConcatOp)
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
    remarks.applied(op, "transposes", f"{len(transposes)} transposes moved after it, as one")
    rewriter.replace(op, [*made, back])


def _only_for(op: Operation, producer: object) -> bool:
    """Whether it is a transpose with `op` as its only user."""
    return isinstance(producer, nn.TransposeOp) and all(use.operation is op for use in producer.result.uses)


def _chain_below(first: nn.TransposeOp, reader: Operation) -> tuple[Mapping[nn.NNOp, Moved], nn.TransposeOp] | None:
    """The operations from a reader of a transpose to the next one, each used once and with one computed operand, and that one.

    Each computes on the first transpose's input, whose axes are those of its operand permuted back. None if one cannot.
    """
    between, value, perm = dict[nn.NNOp, Moved](), first.result, nn.ints(first.perm)
    while not isinstance(reader, nn.TransposeOp):
        if not isinstance(reader, nn.NNOp) or len(reader.results) != 1 or not reader.results[0].has_one_use():
            return None
        if not leads(reader, value) or any(v is not value and not is_constant(v) for v in reader.operands):
            return None
        if (moved := commute(reader, inverse(perm))) is None:
            return None
        between[reader] = moved
        value, perm = reader.results[0], inverse(moved.results[0])
        reader = next(iter(value.uses)).operation
    return between, reader


def _on_permuted(op: nn.NNOp, moved: Moved, new: Mapping[SSAValue, SSAValue]) -> list[Operation]:
    """The operations, the last of which is `op`, on the new values; constants are transposed for it."""
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
