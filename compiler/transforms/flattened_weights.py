"""Folds a transpose before flatten and matmul with constant weights into the order of the weights' rows.

A network of the other layout flattens its last feature map in the old order; the matrix after it is the only place where that
order can be changed for good.
"""

from __future__ import annotations

from math import prod
from typing import cast

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ..dialects import nn
from ..dialects.nn.base import rebuilt
from ..dialects.nn.permutations import Perm, identity, inverse
from ..dialects.nn.shapes import Shape, shape_of, static
from ..rewriting import Remarks, fused_location, layer_of, rewrites
from .transposition import is_constant


@rewrites(nn.MatMulOp)
def permute_rows(op: nn.MatMulOp, rewriter: PatternRewriter, remarks: Remarks) -> None:
    """`matmul(reshape(transpose(x)), W)` to `matmul(reshape(x), W')`, where the reshape joins all permuted axes to one."""
    flat = op.lhs.owner
    if not isinstance(flat, nn.ReshapeOp | nn.FlattenOp) or len(flat.operands) != 1:
        return
    transpose = flat.input.owner
    if not isinstance(transpose, nn.TransposeOp) or op.transpose_a is not None:
        return
    shape, perm = shape_of(transpose.result), nn.ints(transpose.perm)
    first = len(shape_of(flat.result)) - 1
    if not flat.result.has_one_use() or perm[:first] != identity(first) or not _joins(flat, first):
        return
    if not is_constant(op.rhs) or len(shape_of(op.rhs)) != 2:
        return
    rows = 1 if op.transpose_b is not None else 0
    made = _permuted_rows(op.rhs, rows, shape[first:], tuple(p - first for p in perm[first:]))
    if made is None:
        return
    reshape = nn.ReshapeOp.make(
        transpose.input,
        to=(*(0,) * first, shape_of(flat.result)[-1]),
        result_types=[flat.result.type],
        origin=flat.origin,
        location=flat.location,
    )
    new = rebuilt(op, [reshape.result, made[-1].results[0], *op.operands[2:]], op.result_types)
    new.location = fused_location(transpose, op)
    remarks.applied(op, "rows", f"the transpose of {layer_of(transpose)} is in the order of the rows now")
    weight = op.rhs.owner
    rewriter.replace(op, [*made, reshape, new], [new.result])
    _erase_unused(flat, rewriter)
    _erase_unused(weight, rewriter)


def _joins(flat: nn.ReshapeOp | nn.FlattenOp, first: int) -> bool:
    """Whether it keeps the axes before `first` and merges those from it on, all of known size."""
    before, after = shape_of(flat.input), shape_of(flat.result)
    if 0 in before or not static(before[first:]) or not static(after[first:]):
        return False
    if isinstance(flat, nn.FlattenOp):
        return flat.axis.value.data in (first, first - len(before)) and first == 1
    kept = [a == b for a, b in zip(before[:first], after[:first], strict=True)]
    # one unknown size among known ones follows from the rest: [?, 8, 32] to [?, 256] keeps it, to [?, 32] does not
    return all(kept) and sum(d < 0 for d in after[:first]) <= 1 and after[first] == prod(before[first:])


def _permuted_rows(weight: SSAValue, axis: int, shape: Shape, perm: Perm) -> list[Operation] | None:
    """Operations whose last one gives the weights with rows in the order before the transpose; None for scales per row."""
    owner = weight.owner
    if isinstance(owner, nn.DequantizeOp):
        made = _permuted_rows(owner.input, axis, shape, perm)
        if made is None or owner.qparams.data.axis == axis or owner.qparams.data.block is not None:
            return None
        return [*made, rebuilt(owner, made[-1].results, owner.result_types)]
    constant = cast(nn.ConstantOp, owner)
    array = constant.array
    back = inverse(perm)
    order = (*back, len(back)) if axis == 0 else (0, *(b + 1 for b in back))
    split = (*shape, array.shape[1]) if axis == 0 else (array.shape[0], *shape)
    return [
        nn.ConstantOp.of(array.reshape(split).transpose(order).reshape(array.shape), constant.key, constant.location)
    ]


def _erase_unused(op: object, rewriter: PatternRewriter) -> None:
    """Erases an unused operation, and operations that only it used."""
    if not isinstance(op, Operation) or any(r.first_use is not None for r in op.results):
        return
    owners = [operand.owner for operand in op.operands]
    rewriter.erase(op)
    for owner in owners:
        if isinstance(owner, nn.TransposeOp | nn.ConstantOp):
            _erase_unused(owner, rewriter)
