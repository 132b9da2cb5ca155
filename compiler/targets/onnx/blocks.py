"""TensorFlow's SpaceToBatchND and BatchToSpaceND, which ONNX does not have: reshapes around a transpose."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ...dialects import nn
from ...dialects.nn.shapes import DYNAMIC, Shape, known, shape_of
from .layer import Layer, converter

Sizes = Sequence[int] | str
"""The sizes of a tensor: numbers (-1 for at most one unknown), or the name of a vector computed at run time."""


@converter(nn.SpaceToBatchOp)
def space_to_batch(op: nn.SpaceToBatchOp, layer: Layer) -> str:
    """`[N, C, s*b, rest]` is padded, seen as `[N, C, s, b, rest]`, and its blocks move in front of the batch."""
    block, pads = nn.ints(op.block), nn.ints(op.pads)
    rank, n, first = len(shape_of(op.input)), len(block), _first_axis(op)
    outer = (shape_of(op.input)[0], *shape_of(op.result)[1:])
    factors = [*[1] * first, *block, *[1] * (rank - first - n)]
    x = layer.value(op.input)
    if any(pads):
        x = layer.helper(
            "Pad", x, layer.ints([*_around(pads[:n], first, rank), *_around(pads[n:], first, rank)], "pads")
        )
    sizes = _sizes(layer, x, outer, factors)
    # N and C, then each axis followed by its block, then the axes without one
    order = [*range(first), *(i for a in range(n) for i in (first + a, rank + a)), *range(first + n, rank)]
    split = layer.helper("Reshape", x, _vector(layer, _joined(layer, sizes, block, order)))
    front = [first + 1 + 2 * a for a in range(n)]
    moved = layer.node("Transpose", split, perm=[*front, *(i for i in range(rank + n) if i not in front)])
    merged = _times(layer, sizes, [prod(block), *[1] * (rank - 1)])
    return layer.helper("Reshape", moved, _vector(layer, merged))


@converter(nn.BatchToSpaceOp)
def batch_to_space(op: nn.BatchToSpaceOp, layer: Layer) -> str:
    """`[b*N, C, s, rest]` is seen as `[b, N, C, s, rest]`, its blocks move behind their axes, and the edges are cut off."""
    block, crops = nn.ints(op.block), nn.ints(op.crops)
    rank, n, first = len(shape_of(op.input)), len(block), _first_axis(op)
    inner = (shape_of(op.result)[0], *shape_of(op.input)[1:])
    x = layer.value(op.input)
    sizes = _sizes(layer, x, inner, [prod(block), *[1] * (rank - 1)])
    order = [*range(rank, rank + n), *range(rank)]
    split = layer.helper("Reshape", x, _vector(layer, _joined(layer, sizes, block, order)))
    # behind the blocks: N and C, then each axis followed by its block, then the axes without one
    behind = (i for a in range(n) for i in (n + first + a, a))
    perm = [*range(n, n + first), *behind, *range(2 * n + first, n + rank)]
    moved = layer.node("Transpose", split, perm=perm)
    whole = _times(layer, sizes, [*[1] * first, *block, *[1] * (rank - first - n)])
    joined = layer.helper("Reshape", moved, _vector(layer, whole))
    return _cropped(layer, joined, crops[:n], crops[n:], first) if any(crops) else joined


def _first_axis(op: nn.SpaceToBatchOp | nn.BatchToSpaceOp) -> int:
    """That has blocks: behind the channels, or before them."""
    return 1 if op.channels_last else 2


def _cropped(layer: Layer, x: str, begins: Sequence[int], ends: Sequence[int], first: int) -> str:
    stops = [-c or np.iinfo(np.int64).max for c in ends]
    axes = layer.ints(range(first, first + len(begins)), "axes")
    return layer.helper("Slice", x, layer.ints(begins, "begins"), layer.ints(stops, "ends"), axes)


def _around(amounts: Sequence[int], first: int, rank: int) -> list[int]:
    """Amounts for the axes with blocks as one per axis."""
    return [*[0] * first, *amounts, *[0] * (rank - first - len(amounts))]


def _sizes(layer: Layer, x: str, sizes: Shape, factors: Sequence[int]) -> Sizes:
    """The `sizes` to which those of `x`, `factors` times as large, are divided."""
    if sizes.count(DYNAMIC) <= 1:
        return [s if known(s) else -1 for s in sizes]
    return layer.helper("Div", layer.helper("Shape", x), layer.ints(factors, "factors"))


def _times(layer: Layer, sizes: Sizes, factors: Sequence[int]) -> Sizes:
    if isinstance(sizes, str):
        return layer.helper("Mul", sizes, layer.ints(factors, "factors"))
    return [s if s == -1 else s * f for s, f in zip(sizes, factors, strict=True)]


def _joined(layer: Layer, sizes: Sizes, block: Sequence[int], order: Sequence[int]) -> Sizes:
    """Sizes and block in one list, in this order."""
    if isinstance(sizes, str):
        both = layer.helper("Concat", sizes, layer.ints(block, "block"), axis=0)
        return layer.helper("Gather", both, layer.ints(order, "order"))
    return [[*sizes, *block][i] for i in order]


def _vector(layer: Layer, sizes: Sizes) -> str:
    return sizes if isinstance(sizes, str) else layer.ints(sizes, "shape")
