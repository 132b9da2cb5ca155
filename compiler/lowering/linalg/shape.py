"""Movements: what changes shapes, picks elements or joins tensors; and tensors of sizes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import DenseArrayBase, IntegerType, i64
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.nn import NNOp
from ...dialects.nn.attributes import DepthMode, PadMode
from ...dialects.nn.shapes import DYNAMIC, axis_of, element_of, known, shape_of, static
from ..refusal import require
from .build import INDEX, Builder, Scalars, Size, identity, shaped, signless
from .rules import lowers, lowers_to_many
from .windows import reshaped


def _declared(build: Builder, op: NNOp, x: SSAValue, shape: SSAValue | None, target: Sequence[int]) -> list[Size]:
    """The sizes of a result: known ones as declared; one unknown size is what is left, several are looked up."""
    declared = shape_of(op.results[0])
    unknown = [i for i, s in enumerate(declared) if not known(s)]
    sizes: list[Size] = list(declared)
    if len(unknown) == 1:
        whole: Size = 1
        for size in build.sizes(x):
            whole = build.times(whole, size)
        rest = prod(s for s in declared if known(s))
        require(rest > 0, "empty", "its unknown size is that of an empty tensor")
        sizes[unknown[0]] = build.quotient(whole, rest)
        return sizes
    if shape is None:
        for i in unknown:
            require(
                i < len(target) and target[i] == 0 and i < len(shape_of(x)),
                "dynamic",
                "several of its sizes are unknown",
            )
            sizes[i] = build.size(x, i)
        return sizes
    return _given(build, op, x, shape, sizes)


def _given(build: Builder, op: NNOp, x: SSAValue, shape: SSAValue, sizes: list[Size]) -> list[Size]:
    """Sizes from a shape that is computed at run time: 0 copies the size of x unless zeros are allowed, -1 is what is left."""
    rest: Size = 1
    entries: list[Size] = []
    for i, size in enumerate(sizes):
        if known(cast(int, size)):
            entries.append(size)
        else:
            entry = build.add(tensor.ExtractOp(shape, [build.index(i)], element_of(shape)))
            entry = build.add(arith.IndexCastOp(entry, INDEX))
            if op.properties.get("allow_zero") is None and i < len(shape_of(x)):
                entry = build.choose("eq", entry, 0, build.size(x, i), entry)
            rest = build.times(rest, build.choose("slt", entry, 0, 1, entry))
            entries.append(entry)
            continue
        rest = build.times(rest, size)
    whole: Size = 1
    for size in build.sizes(x):
        whole = build.times(whole, size)
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
        halves: list[Size] = []
        for half in (sizes[:cut], sizes[cut:]):
            size: Size = 1
            for each in half:
                size = build.times(size, each)
            halves.append(size)
        return halves
    rest = iter([s for s in sizes if s != 1])
    return [d if d == 1 else next(rest) for d in declared]


@lowers(nn.TransposeOp)
def transpose(build: Builder, op: nn.TransposeOp, x: SSAValue) -> SSAValue:
    return build.transpose(x, nn.ints(op.perm))


@lowers(nn.ExpandOp)
def expand(build: Builder, op: nn.ExpandOp, x: SSAValue, _: SSAValue | None = None) -> SSAValue:
    shape = shape_of(op.result)
    require(static(shape), "dynamic", "its sizes are unknown")
    return build.elementwise([x], element_of(x), lambda s, x: x, list(shape))


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


def _slice(
    build: Builder, x: SSAValue, starts: Sequence[Size], sizes: Sequence[Size], steps: Sequence[int]
) -> SSAValue:
    result = shaped(sizes, element_of(x))
    dynamic = [[s for s in values if not isinstance(s, int)] for values in (starts, sizes)]
    static_ = [
        DenseArrayBase.from_list(i64, [s if isinstance(s, int) else DYNAMIC for s in v]) for v in (starts, sizes, steps)
    ]
    return build.add(
        tensor.ExtractSliceOp.build(
            operands=[x, *dynamic, []],
            result_types=[result],
            properties=dict(zip(("static_offsets", "static_sizes", "static_strides"), static_, strict=True)),
        )
    )


@lowers(nn.SliceOp)
def slice_axes(build: Builder, op: nn.SliceOp, x: SSAValue) -> SSAValue:
    return _sliced(build, x, op.slices(len(shape_of(x))))


@lowers(ascend.SliceOp)
def slice_of_ascend(build: Builder, op: ascend.SliceOp, x: SSAValue, *_: SSAValue) -> SSAValue:
    return _sliced(build, x, op.slices())


def _sliced(build: Builder, x: SSAValue, slices: Sequence[slice]) -> SSAValue:
    """A negative step is a slice, whose axis is then read backwards."""
    starts: list[Size] = []
    sizes: list[Size] = []
    steps: list[int] = []
    turned: list[int] = []
    for axis, (size, each) in enumerate(zip(shape_of(x), slices, strict=True)):
        if each == slice(None):
            starts, sizes, steps = [*starts, 0], [*sizes, build.size(x, axis)], [*steps, 1]
            continue
        require(known(size), "dynamic", "it takes a range of an unknown size")
        taken = range(*each.indices(size))
        if taken.step < 0:
            turned.append(axis)
            taken = taken[::-1]
        starts, sizes, steps = [*starts, taken.start if len(taken) else 0], [*sizes, len(taken)], [*steps, taken.step]
    y = _slice(build, x, starts, sizes, steps)
    return _turned(build, y, turned) if turned else y


def _turned(build: Builder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """A tensor read backwards along some axes of known sizes."""
    shape = shape_of(x)
    sizes = build.sizes(x)
    out = build.empty(sizes, element_of(x))
    d = identity(len(sizes))

    def body(s: Scalars, _: SSAValue) -> SSAValue:
        where = [s.position(i) for i in range(len(sizes))]
        for i in axes:
            where[i] = s.minus(s.number(shape[i] - 1, INDEX), where[i])
        return s.add(tensor.ExtractOp(x, where, element_of(x)))

    return build.generic([(x, d)], out, d, len(sizes), body)


@lowers_to_many(nn.SplitOp)
def split(build: Builder, op: nn.SplitOp, x: SSAValue) -> Sequence[SSAValue]:
    axis = axis_of(op.axis.value.data, len(shape_of(x)))
    parts: list[SSAValue] = []
    start = 0
    for size in nn.ints(op.sizes):
        sizes = build.sizes(x)
        sizes[axis] = size
        starts: list[Size] = [start if i == axis else 0 for i in range(len(sizes))]
        parts.append(_slice(build, x, starts, sizes, [1] * len(sizes)))
        start += size
    return parts


@lowers(nn.PadOp)
def pad(build: Builder, op: nn.PadOp, x: SSAValue) -> SSAValue:
    require(op.mode.data is PadMode.CONSTANT, "pad-mode", f"padding by {op.mode.data.value} has no form in tensor")
    pads, rank = nn.ints(op.pads), len(shape_of(x))
    begins, ends = pads[:rank], pads[rank:]
    if min(pads, default=0) < 0:
        cut = [slice(max(-b, 0), min(e, 0) or None) for b, e in zip(begins, ends, strict=True)]
        x = _sliced(build, x, cut)
    return build.pad(x, [max(b, 0) for b in begins], [max(e, 0) for e in ends], op.value.value.data)


@lowers(nn.GatherOp)
def gather(build: Builder, op: nn.GatherOp, x: SSAValue, indices: SSAValue) -> SSAValue:
    """Elements looked up; negative indices count from the end. An index out of range is undefined."""
    require(op.batch_count == 0, "batch-dims", "it looks up in each batch on its own")
    axis = axis_of(op.axis.value.data, len(shape_of(x)))
    sizes = build.sizes(x)
    count = build.as_index(sizes[axis])
    picked = build.sizes(indices)
    out: list[Size] = [*sizes[:axis], *picked, *sizes[axis + 1 :]]
    d = identity(len(out))

    def body(s: Scalars, index: SSAValue) -> SSAValue:
        at = s.add(arith.IndexCastOp(index, INDEX))
        at = s.choose(s.compare("lt", at, s.number(0, INDEX)), s.plus(at, count), at)
        names = [s.position(i) for i in range(len(out))]
        where = [*names[:axis], at, *names[axis + len(picked) :]]
        return s.add(tensor.ExtractOp(x, where, element_of(x)))

    target = build.empty(out, element_of(x))
    return build.generic([(indices, d[axis : axis + len(picked)])], target, d, len(out), body)


@lowers(ascend.GatherV2Op)
def gather_of_ascend(build: Builder, op: ascend.GatherV2Op, x: SSAValue, indices: SSAValue, _: SSAValue) -> SSAValue:
    return gather(build, op.meaning().op, x, indices)


@lowers(nn.DepthToSpaceOp, nn.SpaceToDepthOp)
def blocks(build: Builder, op: nn.DepthToSpaceOp | nn.SpaceToDepthOp, x: SSAValue) -> SSAValue:
    shape = shape_of(x)
    require(static(shape), "dynamic", "its sizes are unknown")
    require(not op.channels_last, "layout", "its channels are last")
    n, c, h, w = shape
    b = op.block.value.data
    if isinstance(op, nn.SpaceToDepthOp):
        y = reshaped(build, x, [n, c, h // b, b, w // b, b])
        return reshaped(build, build.transpose(y, (0, 3, 5, 1, 2, 4)), list(shape_of(op.result)))
    if op.mode.data is DepthMode.DCR:
        y = build.transpose(reshaped(build, x, [n, b, b, c // (b * b), h, w]), (0, 3, 4, 1, 5, 2))
    else:
        y = build.transpose(reshaped(build, x, [n, c // (b * b), b, b, h, w]), (0, 1, 4, 2, 5, 3))
    return reshaped(build, y, list(shape_of(op.result)))


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
