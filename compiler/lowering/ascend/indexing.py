"""Repetition, shapes, and indices of largest and smallest elements."""

from __future__ import annotations

from typing import Any, ClassVar

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.nn.shapes import axis_of, element_of, known, shape_of
from ...rewriting import Condition, Roots, requires
from .rules import Builder, Lowering, Values, lowers

INT64 = 9
"""Ascend's number of int64."""


def sizes_of(build: Builder, x: SSAValue, begin: int, count: int, what: str) -> SSAValue:
    """Sizes of x, from an axis on, as int64."""
    sizes = build.add(ascend.ShapeOp, x, dtype=INT64, name=f"{build.hint}_{what}_sizes").y
    if (begin, count) == (0, len(shape_of(x))):
        return sizes
    offsets, size = build.ints([begin], "offsets"), build.ints([count], "size")
    return build.add(ascend.SliceOp, sizes, offsets, size, name=f"{build.hint}_{what}").y


def as_int64(build: Builder, value: SSAValue) -> SSAValue:
    """Indices or sizes as int64, by a Cast if they have another type."""
    if element_of(value) == i64:
        return value
    return build.add(ascend.CastOp, value, dst_type=INT64, name=f"{build.hint}_int64").y


class Tile(Lowering[nn.ExpandOp]):
    """Tile, after new axes of size 1"""

    known_sizes: Condition[Any] = requires(
        lambda op: op.target() is not None or op.shape is None or known(shape_of(op.shape)[0]),
        "the shape, if it is computed at run time, has a known number of sizes",
        "its shape is computed at run time, and how many sizes it has is not known",
    )

    def rewrite(self, build: Builder, op: nn.ExpandOp) -> Values:
        x, shape, target = op.input, shape_of(op.input), op.target()
        if target is None:
            assert op.shape is not None
            return [_expand_at_run_time(build, x, as_int64(build, op.shape))]
        new = len(target) - len(shape)
        padded, wanted = (1,) * new + shape, (1,) * -new + target
        multiples = [_multiple(d, size) for d, size in zip(padded, wanted, strict=True)]
        if None in multiples:
            return [_expand_at_run_time(build, x, build.ints(target, "to"))]
        if new > 0:
            x = build.add(ascend.UnsqueezeOp, x, axes=range(new), name=f"{build.hint}_x").y
        return [build.add(ascend.TileOp, x, build.ints([m for m in multiples if m is not None], "multiples")).y]


def _multiple(size: int, wanted: int) -> int | None:
    """The number of repetitions of an axis to broadcast to a size; None if it depends on an unknown size."""
    if wanted in (1, size):
        return 1
    return wanted if known(size) else None


def _expand_at_run_time(build: Builder, x: SSAValue, wanted: SSAValue) -> SSAValue:
    """The repetitions: axes of size 1 by the shape, all others once."""
    rank, (count,) = len(shape_of(x)), shape_of(wanted)
    if count < rank:
        parts = [build.ints([1] * (rank - count), "ones"), wanted]
        wanted = build.add(
            ascend.ConcatV2Op, parts, build.index(0, "axis"), N=2, name=f"{build.hint}_shape"
        ).output_data
    elif count > rank:
        x = build.add(ascend.UnsqueezeOp, x, axes=range(count - rank), name=f"{build.hint}_x").y
    sizes, one = sizes_of(build, x, 0, len(shape_of(x)), "x"), build.index(1, "one")
    repeated = build.add(ascend.EqualOp, sizes, one, name=f"{build.hint}_repeated").y
    multiples = build.add(ascend.SelectOp, repeated, wanted, one, name=f"{build.hint}_multiples").y
    return build.add(ascend.TileOp, x, multiples).y


@lowers(nn.ShapeOp)
def shape(build: Builder, op: nn.ShapeOp) -> Values:
    """Shape; a slice if only some sizes are needed."""
    start, end = op.start.value.data, None if op.end is None else op.end.value.data
    if start == 0 and end is None:
        return [build.add(ascend.ShapeOp, op.input, dtype=INT64).y]
    rank = len(shape_of(op.input))
    begin, stop, _ = slice(start, end).indices(rank)
    sizes = build.add(ascend.ShapeOp, op.input, dtype=INT64, name=f"{build.hint}_sizes").y
    offsets, count = build.ints([begin], "offsets"), build.ints([max(stop - begin, 0)], "size")
    return [build.add(ascend.SliceOp, sizes, offsets, count).y]


_PLACES: dict[type[nn.ArgOp], type[ascend.ArgOp]] = {nn.ArgMaxOp: ascend.ArgMaxV2Op, nn.ArgMinOp: ascend.ArgMinOp}


class Arg(Lowering[nn.ArgOp]):
    """ArgMaxV2 or ArgMin"""

    roots: ClassVar[Roots] = tuple(_PLACES)

    first_of_equal: Condition[Any] = requires(
        lambda op: op.last is None,
        "the first one of equal elements is wanted",
        "Ascend IR finds the first one of equal elements",
    )

    def rewrite(self, build: Builder, op: nn.ArgOp) -> Values:
        axis = axis_of(op.axis.value.data, len(shape_of(op.input)))
        dimension = build.index(axis, "dimension")
        y = build.add(_PLACES[type(op)], op.input, dimension, dtype=INT64, name=f"{build.hint}_index").y
        return [y if op.keepdims is None else build.add(ascend.UnsqueezeOp, y, axes=[axis]).y]


PATTERNS = (Tile, Arg)
