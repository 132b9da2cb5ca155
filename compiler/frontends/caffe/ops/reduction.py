"""Reduction and ArgMax."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from ....dialects import nn
from ....dialects.nn.shapes import shape_of
from ..node import Converted, Node, Unmapped, converter, enum_name


@converter("Reduction")
def reduction(node: Node) -> Converted:
    """Reduces all axes from `axis` on, times `coeff`."""
    p = node.proto.reduction_param
    x, kind = node.value(0), enum_name(p, "operation")
    if kind == "ASUM":
        x = node.emit(nn.AbsOp, x).result
    elif kind == "SUMSQ":
        x = node.emit(nn.MulOp, x, x).result
    op = nn.ReduceMeanOp if kind == "MEAN" else nn.ReduceSumOp
    axes = list(range(node.axis(p.axis), len(node.shape(0))))
    return node.scaled(node.emit(op, x, axes=axes).result, p.coeff)


_MOST = 64
"""The limit of `top_k`: each of the largest elements needs several operations."""
_LONGEST = 1 << 24
"""Floats represent indices exactly up to here."""


@converter("ArgMax")
def argmax(node: Node) -> Converted:
    """The indices of the `top_k` largest elements as floats, the largest first; of equal elements the last comes first.

    Along `axis`: `[..., top_k, ...]`, with `out_max_val` the elements instead. Without: of each sample `[N, 1, top_k, ...]`,
    with `out_max_val` `[N, 2, top_k, ...]`, indices and elements.
    """
    p = node.proto.argmax_param
    along = p.HasField("axis")
    x, rank = node.value(0), len(node.shape(0))
    axis = node.axis(p.axis) if along else 1
    if not along:
        x = node.emit(nn.FlattenOp, x, axis=1).result
    size = shape_of(x)[axis]
    if not 0 < size <= _LONGEST:
        raise Unmapped("it searches an axis of unknown size, or of more than 2^24 elements")
    if p.top_k > _MOST:
        raise Unmapped(f"it takes the {p.top_k} largest elements")
    if not 1 <= p.top_k <= size:
        raise node.error(f"has top_k {p.top_k}, but there are {size} elements")
    indices, elements = _largest(node, x, axis, p.top_k)
    if along:
        return _joined(node, elements if p.out_max_val else indices, axis)
    rows = [_joined(node, indices, 1), *([_joined(node, elements, 1)] if p.out_max_val else [])]
    stacked = _joined(node, [node.emit(nn.UnsqueezeOp, row, axes=[1]).result for row in rows], 1)
    behind = list(range(3, max(rank, 3)))
    return node.emit(nn.UnsqueezeOp, stacked, axes=behind).result if behind else stacked


def _largest(node: Node, x: SSAValue, axis: int, count: int) -> tuple[list[SSAValue], list[SSAValue]]:
    """The largest elements along an axis and their indices, both with size 1 along that axis."""
    shape = shape_of(x)
    numbers = np.arange(shape[axis], dtype=np.float32).reshape(-1, *(1,) * (len(shape) - axis - 1))
    places, none = node.constant(numbers, ".places"), node.scalar(-1.0, ".none")
    lowest = node.scalar(-np.inf, ".lowest") if count > 1 else none
    indices: list[SSAValue] = []
    elements: list[SSAValue] = []
    for i in range(count):
        largest = node.emit(nn.ReduceMaxOp, x, axes=[axis], keepdims=True).result
        equal = node.emit(nn.CompareOp, x, largest, predicate="eq").result
        candidates = node.emit(nn.WhereOp, equal, places, none).result
        index = node.emit(nn.ReduceMaxOp, candidates, axes=[axis], keepdims=True).result
        indices.append(index)
        elements.append(largest)
        if i + 1 < count:
            taken = node.emit(nn.CompareOp, places, index, predicate="eq").result
            x = node.emit(nn.WhereOp, taken, lowest, x).result
    return indices, elements


def _joined(node: Node, parts: list[SSAValue], axis: int) -> SSAValue:
    return parts[0] if len(parts) == 1 else node.emit(nn.ConcatOp, parts, axis=axis).result
