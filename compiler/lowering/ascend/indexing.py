"""Repetition, shapes, and places of largest and smallest elements."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.nn.shapes import axis_of, known, shape_of
from .rules import Builder, NotLowered, lowers, require

INT64 = 9
"""The number of int64 among Ascend's types."""


@lowers(nn.ExpandOp)
def expand(build: Builder, op: nn.ExpandOp) -> Sequence[SSAValue]:
    """Tile, behind axes of size 1 for those that are new."""
    target = op.target()
    if target is None:
        raise NotLowered("constant-shape", "its shape is computed at run time")
    x, shape = op.input, shape_of(op.input)
    new = len(target) - len(shape)
    target, shape = (1,) * -new + target, (1,) * new + shape
    multiples = [_multiple(d, wanted) for d, wanted in zip(shape, target, strict=True)]
    if new > 0:
        x = build.add(ascend.UnsqueezeOp, x, axes=range(new), name=f"{build.hint}_x").y
    return [build.add(ascend.TileOp, x, build.ints(multiples, "multiples")).y]


def _multiple(size: int, wanted: int) -> int:
    """How often an axis is repeated to broadcast to a size."""
    if wanted in (1, size):
        return 1
    require(known(size), "known-sizes", "a size that may be repeated is not known")
    return wanted


@lowers(nn.ShapeOp)
def shape(build: Builder, op: nn.ShapeOp) -> Sequence[SSAValue]:
    """All sizes, of which a part may be taken."""
    start, end = op.start.value.data, None if op.end is None else op.end.value.data
    if start == 0 and end is None:
        return [build.add(ascend.ShapeOp, op.input, dtype=INT64).y]
    rank = len(shape_of(op.input))
    begin, stop, _ = slice(start, end).indices(rank)
    sizes = build.add(ascend.ShapeOp, op.input, dtype=INT64, name=f"{build.hint}_sizes").y
    offsets, count = build.ints([begin], "offsets"), build.ints([max(stop - begin, 0)], "size")
    return [build.add(ascend.SliceOp, sizes, offsets, count).y]


_PLACES: dict[type[nn.ArgOp], type[ascend.ArgOp]] = {nn.ArgMaxOp: ascend.ArgMaxV2Op, nn.ArgMinOp: ascend.ArgMinOp}


@lowers(*_PLACES)
def arg(build: Builder, op: nn.ArgOp) -> Sequence[SSAValue]:
    require(op.last is None, "first-of-equal", "Ascend IR finds the first one of equal elements")
    axis = axis_of(op.axis.value.data, len(shape_of(op.input)))
    dimension = build.index(axis, "dimension")
    y = build.add(_PLACES[type(op)], op.input, dimension, dtype=INT64, name=f"{build.hint}_index").y
    return [y if op.keepdims is None else build.add(ascend.UnsqueezeOp, y, axes=[axis]).y]
