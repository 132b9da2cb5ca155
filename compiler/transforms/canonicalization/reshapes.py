"""Merges chains of operations that only rename axes into one reshape, or removes them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple, cast

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ...dialects import nn
from ...dialects.nn.permutations import keeps_order
from ...dialects.nn.shapes import axes_of, known, shape_of
from ...rewriting import Remarks, fused_location, layer_of, rewrites
from .identities import give_back


class Axis(NamedTuple):
    """The size of one axis of the value that a chain starts from, known only at run time."""

    number: int


Size = int | Axis | None
"""A size, an axis whose size it is, or None for any other unknown size."""

Renaming = nn.ReshapingOp | nn.TransposeOp
"""Operations that only rename axes; a transpose if it moves axes of size 1 only."""


@rewrites(*nn.kinds(nn.ReshapingOp))
def remove_reshape(op: nn.ReshapingOp, rewriter: PatternRewriter, remarks: Remarks) -> None:
    """Removes a reshape to the same shape."""
    if op.result.type == op.input.type and _is_unchanged(_follow(op, _sizes(op.input)), op.input):
        give_back(op, op.input, rewriter, remarks, "identity", f"the result of {op.name} is its operand")


@rewrites(*nn.kinds(nn.ReshapingOp), nn.TransposeOp)
def merge_reshapes(op: Renaming, rewriter: PatternRewriter, remarks: Remarks) -> None:
    """Merges two in a row if the sizes of the result can be expressed; also a transpose that only moves axes of size 1."""
    inner = op.input.owner
    if not isinstance(inner, Renaming) or (isinstance(inner, nn.TransposeOp) and isinstance(op, nn.TransposeOp)):
        return
    source = inner.input
    between = _follow(inner, _sizes(source))
    sizes = None if between is None else _follow(op, between)
    if op.result.type == source.type and _is_unchanged(sizes, source):
        give_back(op, source, rewriter, remarks, "reshapes", f"cancels {layer_of(inner)}")
        return
    if sizes is None or (target := _target(sizes)) is None or not inner.result.has_one_use():
        return
    merged = nn.ReshapeOp.make(
        source, result_types=[op.result.type], to=target, origin=op.origin, location=fused_location(inner, op)
    )
    remarks.applied(op, "reshapes", f"merged with {layer_of(inner)}")
    rewriter.replace(op, merged)


def _sizes(value: SSAValue) -> list[Size]:
    return [d if known(d) else Axis(i) for i, d in enumerate(shape_of(value))]


def _is_unchanged(sizes: Sequence[Size] | None, source: SSAValue) -> bool:
    """Whether the sizes are the source's; a single unknown size among known ones is unambiguous."""
    shape = shape_of(source)
    if sizes is None or len(sizes) != len(shape):
        return False
    return sizes == _sizes(source) or (sum(not known(d) for d in shape) == 1 and 0 not in shape)


def _target(sizes: Sequence[Size]) -> tuple[int, ...] | None:
    """`to` for these sizes: 0 copies the axis at the same place, one other unknown size is -1."""
    if 0 in sizes:
        return None  # a 0 would copy
    target = tuple(s if isinstance(s, int) else 0 if s == Axis(i) else -1 for i, s in enumerate(sizes))
    return target if target.count(-1) <= 1 else None


def _follow(op: Renaming, sizes: list[Size]) -> list[Size] | None:
    """The sizes after `op`; None if it does more than rename axes. Sizes that the declared type knows replace the others."""
    after = _after(op, sizes)
    if after is None:
        return None
    declared = shape_of(op.result)
    return [d if known(d) else s for s, d in zip(after, declared, strict=True)]


def _after(op: Renaming, sizes: list[Size]) -> list[Size] | None:
    match op:
        case nn.TransposeOp():
            perm = nn.ints(op.perm)
            ordered = keeps_order(shape_of(op.input), perm)
            return [sizes[i] for i in perm] if ordered else None
        case nn.SqueezeOp():
            axes = axes_of(nn.ints(op.axes, [i for i, s in enumerate(sizes) if s == 1]), len(sizes))
            return [s for i, s in enumerate(sizes) if i not in axes]
        case nn.UnsqueezeOp():
            axes = axes_of(nn.ints(op.axes), len(sizes) + len(nn.ints(op.axes)))
            rest = iter(sizes)
            return [1 if i in axes else next(rest) for i in range(len(sizes) + len(axes))]
        case nn.FlattenOp():
            axis = op.axis.value.data
            axis = axis + len(sizes) if axis < 0 else axis
            return [_product(sizes[:axis]), _product(sizes[axis:])]
        case nn.ReshapeOp():
            return _reshaped(op, sizes)
        case _:
            return None


def _product(sizes: Sequence[Size]) -> Size:
    if 0 in sizes:
        return 0
    factors = [s for s in sizes if s != 1]
    if len(factors) == 1:
        return factors[0]
    return prod(cast("list[int]", factors)) if all(isinstance(f, int) for f in factors) else None


def _reshaped(op: nn.ReshapeOp, sizes: list[Size]) -> list[Size] | None:
    if op.shape is not None or (target := op.target()) is None:
        return None
    copied = [i for i, d in enumerate(target) if d == 0 and op.allow_zero is None]
    result: list[Size] = [sizes[i] if i in copied else d for i, d in enumerate(target)]
    if -1 in target:
        hole = target.index(-1)
        rest = prod(d for i, d in enumerate(target) if i not in (*copied, hole))
        result[hole] = _left([s for i, s in enumerate(sizes) if i not in copied], rest)
    return result


def _left(sizes: Sequence[Size], rest: int) -> Size:
    """The quotient of a product of sizes and a number, if it is a number or one of the sizes."""
    numbers = prod(s for s in sizes if isinstance(s, int))
    others = [s for s in sizes if not isinstance(s, int)]
    if not others and rest:
        return numbers // rest
    return others[0] if len(others) == 1 and numbers == rest else None
