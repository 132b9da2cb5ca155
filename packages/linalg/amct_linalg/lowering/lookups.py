"""Operations that pick elements by position: gathers, tiles, margins of its own elements, resizing, places of extremes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import AnyFloat, f32, i64
from xdsl.ir import Attribute, SSAValue

from amct_opt.dialects import ascend, nn
from amct_opt.dialects.nn.attributes import PadMode, ResizeMode
from amct_opt.dialects.nn.shapes import axis_of, element_of, known, shape_of
from amct_opt.ir.dtypes import numpy_dtype
from amct_opt.lowering.refusal import require
from amct_opt.runtime.kernels.shape import resampled_axes
from amct_opt.runtime.resample import Taps

from .build import INDEX, Array, Builder, Scalars, Size, identity, is_real, is_unsigned, reshaped, signless
from .elementwise import wide
from .requantization import clipped, rounded
from .rules import lowers
from .windows import extreme, kept, reduce


def picked(
    build: Builder,
    x: SSAValue,
    sizes: Sequence[Size],
    where: Callable[..., Sequence[SSAValue]],
    *read: tuple[SSAValue, Sequence[int]],
) -> SSAValue:
    """A tensor of elements of x. `where` takes the scalars, the place of the element, and an element of each tensor of `read`,
    which stand next to the axes of the result that they have.
    """
    d = identity(len(sizes))

    def body(s: Scalars, *elements: SSAValue) -> SSAValue:
        place = [s.position(i) for i in range(len(sizes))]
        return s.add(tensor.ExtractOp(x, list(where(s, place, *elements)), element_of(x)))

    operands = [(value, [d[i] for i in axes]) for value, axes in read]
    return build.generic(operands, build.empty(sizes, element_of(x)), d, len(sizes), body)


def taken(build: Builder, x: SSAValue, axis: int, indices: Array) -> SSAValue:
    """x with an axis replaced by its elements at these indices, as `np.take`."""
    sizes = build.sizes(x)
    sizes[axis] = len(indices)
    at = build.constant(np.asarray(indices, np.int64), "indices")

    def where(s: Scalars, place: list[SSAValue], index: SSAValue) -> Sequence[SSAValue]:
        return [*place[:axis], s.add(arith.IndexCastOp(index, INDEX)), *place[axis + 1 :]]

    return picked(build, x, sizes, where, (at, [axis]))


def padded_by_elements(
    build: Builder, x: SSAValue, mode: PadMode, begins: Sequence[int], ends: Sequence[int]
) -> SSAValue:
    """x between margins of its own elements; none of the counts is negative."""
    for axis, counts in enumerate(zip(begins, ends, strict=True)):
        if any(counts):
            size = shape_of(x)[axis]
            require(known(size), "dynamic", "it repeats elements of an axis of unknown size")
            x = taken(build, x, axis, np.pad(np.arange(size), counts, mode=cast(Any, mode.value)))
    return x


# -- gathers -----------------------------------------------------------------------------------------------------------


@lowers(nn.GatherOp)
def gather(build: Builder, op: nn.GatherOp, x: SSAValue, indices: SSAValue) -> SSAValue:
    return looked_up(build, x, indices, axis_of(op.axis.value.data, len(shape_of(x))), op.batch_count)


@lowers(ascend.GatherV2Op)
def gather_of_ascend(build: Builder, op: ascend.GatherV2Op, x: SSAValue, indices: SSAValue, _: SSAValue) -> SSAValue:
    return looked_up(build, x, indices, op.gather_axis, op.batch_dims.value.data)


@lowers(ascend.GatherOp)
def gather_rows(build: Builder, _: ascend.GatherOp, x: SSAValue, indices: SSAValue) -> SSAValue:
    return looked_up(build, x, indices, 0)


def looked_up(build: Builder, x: SSAValue, indices: SSAValue, axis: int, batch: int = 0) -> SSAValue:
    """Elements along an axis, in each of the first `batch` axes on its own; negative indices count from the end.

    An index out of range is undefined.
    """
    sizes, places = build.sizes(x), build.sizes(indices)
    one = nn.array_of(indices)
    if one is not None and one.size == 1 and not batch and (known(shape_of(x)[axis]) or one.item() >= 0):
        at = one.item() + (shape_of(x)[axis] if one.item() < 0 else 0)
        starts = [at if i == axis else 0 for i in range(len(sizes))]
        part = build.slice(x, starts, [*sizes[:axis], 1, *sizes[axis + 1 :]], [1] * len(sizes))
        return reshaped(build, part, [*sizes[:axis], *places, *sizes[axis + 1 :]])
    count = build.as_index(sizes[axis])
    end = axis + len(places) - batch

    def where(s: Scalars, place: list[SSAValue], index: SSAValue) -> Sequence[SSAValue]:
        at = s.add(arith.IndexCastOp(index, INDEX))
        at = s.choose(s.compare("lt", at, s.number(0, INDEX)), s.plus(at, count), at)
        return [*place[:axis], at, *place[end:]]

    axes = [*range(batch), *range(axis, end)]
    return picked(build, x, [*sizes[:axis], *places[batch:], *sizes[axis + 1 :]], where, (indices, axes))


@lowers(ascend.GatherNdOp)
def gather_by_several(build: Builder, _: ascend.GatherNdOp, x: SSAValue, indices: SSAValue) -> SSAValue:
    places, depth = build.sizes(indices)[:-1], shape_of(indices)[-1]
    rank = len(places)

    def where(s: Scalars, place: list[SSAValue]) -> Sequence[SSAValue]:
        found = [
            s.add(tensor.ExtractOp(indices, [*place[:rank], s.number(j, INDEX)], element_of(indices)))
            for j in range(depth)
        ]
        return [*(s.add(arith.IndexCastOp(each, INDEX)) for each in found), *place[rank:]]

    return picked(build, x, [*places, *build.sizes(x)[depth:]], where)


@lowers(ascend.TileOp)
def tile(build: Builder, op: ascend.TileOp, x: SSAValue, multiples: SSAValue) -> SSAValue:
    """Repeated axes are read at their place modulo the size."""
    sizes, counts = build.sizes(x), op.counts
    numbers: list[Size] = list(counts or [entry_of(build, multiples, [build.index(i)]) for i in range(len(sizes))])
    ends = [build.as_index(size) for size in sizes]

    def where(s: Scalars, place: list[SSAValue]) -> Sequence[SSAValue]:
        rows = zip(place, ends, numbers, strict=True)
        return [at if count == 1 else s.add(arith.RemUIOp(at, end)) for at, end, count in rows]

    return picked(build, x, [build.times(size, count) for size, count in zip(sizes, numbers, strict=True)], where)


def entry_of(build: Builder, numbers: SSAValue, place: Sequence[SSAValue]) -> SSAValue:
    """A number of a tensor of integers, as an index."""
    return build.add(arith.IndexCastOp(build.add(tensor.ExtractOp(numbers, place, element_of(numbers))), INDEX))


# -- resizing ----------------------------------------------------------------------------------------------------------


@lowers(nn.ResizeOp)
def resize(build: Builder, op: nn.ResizeOp, x: SSAValue) -> SSAValue:
    """Axis by axis, in float32 or wider. Products are rounded before they are added, so that integers are the interpreter's."""
    shape, out, source = shape_of(op.input), shape_of(op.result), element_of(op.input)
    scales = (1.0,) * len(shape) if op.scales is None else op.scales.data
    fixed = all(known(d) or (o == d and s == 1) for d, o, s in zip(shape, out, scales, strict=True))
    require(fixed, "dynamic", "it resamples an axis of unknown size")
    axes = resampled_axes(op, shape)
    if op.mode.data is ResizeMode.NEAREST:
        for axis, taps in axes:
            x = taken(build, x, axis, taps.indices[:, 0])
        return x
    sums = wide(source) if isinstance(source, AnyFloat) else f32
    y = build.elementwise([x], sums, lambda s, v: s.convert(v, source, sums), build.sizes(x))
    for axis, taps in axes:
        y = _weighted(build, y, axis, taps)
    if isinstance(source, AnyFloat):
        return build.elementwise([y], source, lambda s, v: s.convert(v, sums, source), build.sizes(y))
    return build.elementwise([y], signless(source), lambda s, v: clipped(s, rounded(s, v), source), build.sizes(y))


def _weighted(build: Builder, x: SSAValue, axis: int, taps: Taps) -> SSAValue:
    """x with an axis replaced by weighted sums of its elements."""
    element, count = element_of(x), taps.weights.shape[1]
    columns = [(taps.indices[:, k].astype(np.int64), taps.weights[:, k]) for k in range(count)]
    read = [build.constant(indices, "indices") for indices, _ in columns]
    read += [build.constant(weights.astype(numpy_dtype(element)), "weights") for _, weights in columns]
    sizes = build.sizes(x)
    sizes[axis] = len(taps.indices)
    d = identity(len(sizes))

    def body(s: Scalars, *elements: SSAValue) -> SSAValue:
        place, total = [s.position(i) for i in range(len(sizes))], None
        for index, weight in zip(elements[:count], elements[count:], strict=True):
            place[axis] = s.add(arith.IndexCastOp(index, INDEX))
            term = s.product(s.add(tensor.ExtractOp(x, list(place), element)), weight)
            total = term if total is None else s.plus(total, term)
        return cast(SSAValue, total)

    return build.generic([(value, [d[axis]]) for value in read], build.empty(sizes, element), d, len(sizes), body)


# -- the place of an extreme element -----------------------------------------------------------------------------------


@lowers(nn.ArgMaxOp, nn.ArgMinOp)
def arg(build: Builder, op: nn.ArgMaxOp | nn.ArgMinOp, x: SSAValue) -> SSAValue:
    axis = axis_of(op.axis.value.data, len(shape_of(x)))
    y = place_of_extreme(build, x, element_of(op.input), axis, isinstance(op, nn.ArgMaxOp), op.last is not None)
    return kept(build, y, shape_of(x), [axis]) if op.keepdims is not None else y


@lowers(ascend.ArgMaxV2Op, ascend.ArgMinOp)
def arg_of_ascend(build: Builder, op: ascend.ArgOp, x: SSAValue, _: SSAValue) -> SSAValue:
    y = place_of_extreme(build, x, element_of(op.x), op.searched_axis, isinstance(op, ascend.ArgMaxV2Op))
    return build.elementwise([y], element_of(op.y), lambda s, i: s.convert(i, i64, element_of(op.y)), build.sizes(y))


def place_of_extreme(
    build: Builder, x: SSAValue, element: Attribute, axis: int, largest: bool, last: bool = False
) -> SSAValue:
    """The first (or last) index along an axis of the extreme element, i64; a NaN is the extreme, as in numpy."""
    unsigned, choose = is_unsigned(element), Scalars.most if largest else Scalars.least
    start = extreme(element, largest)
    most = reduce(build, x, [axis], start, element, lambda s, v, y: choose(s, v, y, unsigned))
    rank = len(shape_of(x))
    d = identity(rank)
    left = [d[i] for i in range(rank) if i != axis]
    nowhere = -1 if last else 2**63 - 1

    def body(s: Scalars, v: SSAValue, m: SSAValue, found: SSAValue) -> SSAValue:
        here = s.compare("eq", v, m)
        if is_real(v):
            here = s.add(arith.OrIOp(here, s.compare("ne", v, v)))
        place = s.add(arith.IndexCastOp(s.position(axis), i64))
        place = s.choose(here, place, s.number(nowhere, i64))
        return s.most(place, found) if last else s.least(place, found)

    target = build.filled([build.size(x, i) for i in range(rank) if i != axis], i64, nowhere)
    return build.generic([(x, d), (most, left)], target, left, rank, body)
