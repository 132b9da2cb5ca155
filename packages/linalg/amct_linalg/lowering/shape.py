"""Data movement: operations that change shapes, pick elements or join tensors; and tensors of sizes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from amct_opt.dialects import ascend, nn
from amct_opt.dialects.nn import NNOp
from amct_opt.dialects.nn.attributes import PadMode
from amct_opt.dialects.nn.shapes import axis_of, element_of, known, shape_of, static
from amct_opt.lowering.refusal import require

from .build import INDEX, Body, Builder, Scalars, Size, identity, reshaped, shaped, signless
from .lookups import entry_of, padded_by_elements, picked
from .rules import lowers, lowers_to_many


def _declared(build: Builder, op: NNOp, x: SSAValue, shape: SSAValue | None, target: Sequence[int]) -> list[Size]:
    """The sizes of a result: known ones as declared; one unknown size follows from the others, several are looked up."""
    declared = shape_of(op.results[0])
    unknown = [i for i, s in enumerate(declared) if not known(s)]
    sizes: list[Size] = list(declared)
    if len(unknown) == 1:
        whole = _product(build, build.sizes(x))
        rest = prod(s for s in declared if known(s))
        require(rest > 0, "empty", "its unknown size is that of an empty tensor")
        sizes[unknown[0]] = build.quotient(whole, rest)
        return sizes
    if shape is not None:
        return _given(build, op, x, shape, sizes)
    copied = [i for i in unknown if i < len(target) and target[i] == 0 and i < len(shape_of(x))]
    rest = [i for i in unknown if i not in copied]
    require(len(rest) <= 1, "dynamic", "several of its sizes are unknown")
    for i in copied:
        sizes[i] = build.size(x, i)
    for i in rest:
        whole, others = (_product(build, each) for each in (build.sizes(x), [s for j, s in enumerate(sizes) if j != i]))
        sizes[i] = build.add(arith.DivUIOp(build.as_index(whole), build.as_index(others)))
    return sizes


def _product(build: Builder, sizes: Sequence[Size]) -> Size:
    whole: Size = 1
    for size in sizes:
        whole = build.times(whole, size)
    return whole


def _given(build: Builder, op: NNOp, x: SSAValue, shape: SSAValue, sizes: list[Size]) -> list[Size]:
    """The sizes of a shape that is computed at run time: 0 copies the size of x unless zeros are allowed, -1 follows
    from the others.
    """
    rest: Size = 1
    entries: list[Size] = []
    for i, size in enumerate(sizes):
        if known(cast(int, size)):
            entries.append(size)
        else:
            entry = entry_of(build, shape, [build.index(i)])
            if op.properties.get("allow_zero") is None and i < len(shape_of(x)):
                entry = build.choose("eq", entry, 0, build.size(x, i), entry)
            rest = build.times(rest, build.choose("slt", entry, 0, 1, entry))
            entries.append(entry)
            continue
        rest = build.times(rest, size)
    whole = _product(build, build.sizes(x))
    left = build.add(arith.DivUIOp(build.as_index(whole), build.as_index(rest)))
    return [e if isinstance(e, int) else build.choose("slt", e, 0, left, e) for e in entries]


@lowers(nn.ReshapeOp)
def reshape(build: Builder, op: nn.ReshapeOp, x: SSAValue, shape: SSAValue | None = None) -> SSAValue:
    return reshaped(build, x, _declared(build, op, x, shape, op.target() or ()))


@lowers(nn.FlattenOp, nn.SqueezeOp, nn.UnsqueezeOp)
def flatten(build: Builder, op: nn.ReshapingOp, x: SSAValue) -> SSAValue:
    return reshaped(build, x, _moved_sizes(build, op, x))


def _moved_sizes(build: Builder, op: nn.ReshapingOp, x: SSAValue) -> list[Size]:
    """The sizes of a flattened tensor, or of one with other axes of size 1."""
    declared = shape_of(op.result)
    if static(declared):
        return list(declared)
    sizes = build.sizes(x)
    if isinstance(op, nn.FlattenOp):
        axis = op.axis.value.data
        cut = axis + len(sizes) if axis < 0 else axis
        return [_product(build, half) for half in (sizes[:cut], sizes[cut:])]
    rest = iter([s for s in sizes if s != 1])
    return [d if d == 1 else next(rest) for d in declared]


@lowers(nn.TransposeOp)
def transpose(build: Builder, op: nn.TransposeOp, x: SSAValue) -> SSAValue:
    return build.transpose(x, nn.ints(op.perm))


@lowers(nn.ExpandOp)
def expand(build: Builder, op: nn.ExpandOp, x: SSAValue, shape: SSAValue | None = None) -> SSAValue:
    declared, own = shape_of(op.result), shape_of(x)
    sizes: list[Size] = list(declared)
    for axis, size in enumerate(declared):
        if not known(size):
            before = axis - len(declared) + len(own)
            require(shape is not None, "dynamic", "its sizes are unknown")
            one = before < 0 or own[before] == 1
            require(one, "broadcast", f"it is unknown whether axis {axis} broadcasts")
            entries = shape_of(cast(SSAValue, shape))[0]
            require(known(entries), "dynamic", "how many axes it asks for is unknown")
            sizes[axis] = entry_of(build, cast(SSAValue, shape), [build.index(axis - len(declared) + entries)])
    return build.elementwise([x], element_of(x), lambda s, x: x, sizes)


@lowers(nn.ConcatOp)
def concat(build: Builder, op: nn.ConcatOp, *parts: SSAValue) -> SSAValue:
    axis = axis_of(op.axis.value.data, len(shape_of(op.result)))
    sizes: list[Size] = []
    for i in range(len(shape_of(op.result))):
        size: Size = 0
        if i == axis:
            for part in parts:
                size = build.plus(size, build.size(part, i))
        else:
            known_ = [p for p in parts if known(shape_of(p)[i])]
            size = build.size((known_ or parts)[0], i)
        sizes.append(size)
    result = shaped(sizes, element_of(parts[0]))
    return build.add(tensor.ConcatOp(parts, axis, result))


@lowers(nn.SliceOp)
def slice_axes(build: Builder, op: nn.SliceOp, x: SSAValue) -> SSAValue:
    return sliced(build, x, op.slices(len(shape_of(x))))


@lowers(ascend.SliceOp)
def slice_of_ascend(build: Builder, op: ascend.SliceOp, x: SSAValue, *_: SSAValue) -> SSAValue:
    return sliced(build, x, op.slices())


def sliced(build: Builder, x: SSAValue, slices: Sequence[slice]) -> SSAValue:
    """Slices; with a negative step on one of its axes, looks elements up one by one."""
    starts: list[Size] = []
    sizes: list[Size] = []
    steps: list[int] = []
    for axis, (size, each) in enumerate(zip(shape_of(x), slices, strict=True)):
        start: Size = 0
        count = build.size(x, axis)
        if each != slice(None) and known(size):
            taken = range(*each.indices(size))
            start, count = taken.start if len(taken) else 0, len(taken)
        elif each != slice(None):
            start, count = _unknown_range(build, count, each)
        starts, sizes, steps = [*starts, start], [*sizes, count], [*steps, each.step or 1]
    if min(steps, default=1) > 0:
        return build.slice(x, starts, sizes, steps)
    firsts = [build.as_index(start) for start in starts]

    def where(s: Scalars, place: list[SSAValue]) -> Sequence[SSAValue]:
        rows = zip(place, firsts, steps, strict=True)
        return [s.plus(first, s.times(at, s.number(step, INDEX))) for at, first, step in rows]

    return picked(build, x, sizes, where)


def _unknown_range(build: Builder, size: Size, taken: slice) -> tuple[Size, Size]:
    """The first element and the number of elements that a slice with a positive step takes of an unknown size."""
    step = taken.step or 1
    require(step > 0, "dynamic", "it reads an axis of unknown size backwards")
    start, stop = (_bound(build, size, bound) for bound in (taken.start or 0, taken.stop))
    length = build.add(arith.MaxSIOp(build.add(arith.SubiOp(stop, start)), build.index(0)))
    return start, build.quotient(build.plus(length, step - 1), step)


def _bound(build: Builder, size: Size, bound: int | None) -> SSAValue:
    """The position of a slice's bound in an axis of this size."""
    end = build.as_index(size)
    if bound is None:
        return end
    if bound >= 0:
        return build.add(arith.MinSIOp(build.index(bound), end))
    return build.add(arith.MaxSIOp(build.as_index(build.plus(end, bound)), build.index(0)))


@lowers_to_many(nn.SplitOp)
def split(build: Builder, op: nn.SplitOp, x: SSAValue) -> Sequence[SSAValue]:
    return _parts(build, x, axis_of(op.axis.value.data, len(shape_of(x))), nn.ints(op.sizes))


def _parts(build: Builder, x: SSAValue, axis: int, lengths: Sequence[int]) -> Sequence[SSAValue]:
    """x cut along an axis into parts of these lengths."""
    parts: list[SSAValue] = []
    start = 0
    for length in lengths:
        sizes = build.sizes(x)
        sizes[axis] = length
        starts: list[Size] = [start if i == axis else 0 for i in range(len(sizes))]
        parts.append(build.slice(x, starts, sizes, [1] * len(sizes)))
        start += length
    return parts


@lowers(nn.PadOp)
def pad(build: Builder, op: nn.PadOp, x: SSAValue) -> SSAValue:
    pads, rank = nn.ints(op.pads), len(shape_of(x))
    if op.mode.data is PadMode.CONSTANT:
        return margins(build, x, pads[:rank], pads[rank:], op.value.value.data)
    cut = [min(p, 0) for p in pads]
    x = margins(build, x, cut[:rank], cut[rank:], 0)
    begins, ends = ([max(p, 0) for p in side] for side in (pads[:rank], pads[rank:]))
    return padded_by_elements(build, x, op.mode.data, begins, ends)


def margins(build: Builder, x: SSAValue, begins: Sequence[int], ends: Sequence[int], fill: float) -> SSAValue:
    """x between margins of one number; negative ones are cut off."""
    if min(*begins, *ends, 0) < 0:
        cut = [min(b, 0) + min(e, 0) for b, e in zip(begins, ends, strict=True)]
        sizes = [build.plus(size, change) for size, change in zip(build.sizes(x), cut, strict=True)]
        x = build.slice(x, [max(-b, 0) for b in begins], sizes, [1] * len(cut))
    return build.pad(x, [max(b, 0) for b in begins], [max(e, 0) for e in ends], fill)


# -- parts and tensors of numbers --------------------------------------------------------------------------------------


@lowers(ascend.PackOp)
def pack(build: Builder, op: ascend.PackOp, *parts: SSAValue) -> SSAValue:
    axis = op.new_axis
    sizes = build.sizes(next((p for p in parts if static(shape_of(p))), parts[0]))
    slices = [reshaped(build, part, [*sizes[:axis], 1, *sizes[axis:]]) for part in parts]
    return build.add(
        tensor.ConcatOp(slices, axis, shaped([*sizes[:axis], len(parts), *sizes[axis:]], element_of(parts[0])))
    )


@lowers_to_many(ascend.UnpackOp)
def unpack(build: Builder, op: ascend.UnpackOp, x: SSAValue) -> Sequence[SSAValue]:
    axis = axis_of(op.axis.value.data, len(shape_of(x)))
    parts = _parts(build, x, axis, [1] * op.num.value.data)
    sizes = build.sizes(x)
    return [reshaped(build, part, [*sizes[:axis], *sizes[axis + 1 :]]) for part in parts]


@lowers_to_many(ascend.SplitOp)
def split_equally(build: Builder, op: ascend.SplitOp, _: SSAValue, x: SSAValue) -> Sequence[SSAValue]:
    axis, count = op.split_axis, op.num_split.value.data
    require(known(shape_of(x)[axis]), "dynamic", "it cuts an axis of unknown size")
    return _parts(build, x, axis, [shape_of(x)[axis] // count] * count)


@lowers(ascend.FillOp)
def fill(build: Builder, op: ascend.FillOp, dims: SSAValue, value: SSAValue) -> SSAValue:
    sizes = [size if known(size) else entry_of(build, dims, [build.index(i)]) for i, size in enumerate(shape_of(op.y))]
    return build.elementwise([reshaped(build, value, [])], element_of(value), lambda s, v: v, sizes)


@lowers(ascend.RangeOp)
def range_of_integers(
    build: Builder, op: ascend.RangeOp, start: SSAValue, limit: SSAValue, delta: SSAValue
) -> SSAValue:
    first, end, step = (entry_of(build, v, []) for v in (start, limit, delta))
    count = build.add(arith.CeilDivSIOp(build.add(arith.SubiOp(end, first)), step))
    count = build.add(arith.MaxSIOp(count, build.index(0)))
    (size,) = shape_of(op.y)
    element = cast(IntegerType, element_of(op.y))
    d = identity(1)

    def body(s: Scalars) -> SSAValue:
        place = s.plus(first, s.times(s.position(0), step))
        return s.add(arith.IndexCastOp(place, element))

    return build.generic([], build.empty([size if known(size) else count], element), d, 1, cast(Body, body))


@lowers(nn.ShapeOp, ascend.ShapeOp)
def sizes_of(build: Builder, op: Any, x: SSAValue) -> SSAValue:
    """The sizes of a tensor, as a tensor."""
    element = signless(element_of(op.results[0]))
    start = op.start.value.data if isinstance(op, nn.ShapeOp) else 0
    rank = len(shape_of(x))
    first = max(start + rank, 0) if start < 0 else start
    (count,) = shape_of(op.results[0])
    values = [
        build.add(arith.IndexCastOp(build.as_index(build.size(x, axis)), cast(IntegerType, element)))
        for axis in range(first, first + count)
    ]
    return build.add(tensor.FromElementsOp(*values)) if values else build.constant(np.zeros(0, np.int64))
