"""Slices and lookups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from ....dialects import nn
from ....transforms.partial_shapes import Dimension, Linear
from ..node import Converted, Node, Unmapped, converter

FIRST, LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
"""Bounds before and after all elements."""


@dataclass(frozen=True)
class _Range:
    """The range of one axis; `dropped` axes have size 1 and are removed."""

    start: int
    end: int
    step: int = 1
    dropped: bool = False

    @property
    def whole(self) -> bool:
        return (self.start, self.end, self.step) == (0, LAST, 1)


_WHOLE = _Range(0, LAST)
_Bound = int | Linear
"""The start or end of a slice."""


def _sliced(node: Node, x: SSAValue, ranges: list[_Range]) -> SSAValue:
    """Slices x by one range per axis."""
    taken = [(i, r) for i, r in enumerate(ranges) if not r.whole]
    if taken:
        steps = [r.step for _, r in taken]
        x = node.emit(
            nn.SliceOp,
            x,
            starts=[r.start for _, r in taken],
            ends=[r.end for _, r in taken],
            axes=[i for i, _ in taken],
            steps=None if set(steps) == {1} else steps,
        ).result
    dropped = [i for i, r in enumerate(ranges) if r.dropped]
    return node.emit(nn.SqueezeOp, x, axes=dropped).result if dropped else x


def _bounds(node: Node, index: int) -> list[_Bound]:
    """The elements of an input. Raises Unmapped if they are not tracked."""
    if node.array(index) is not None:
        return [*node.known_ints(index)]
    if (terms := node.sink.shapes.linear(node.value(index))) is None:
        raise Unmapped(f"input {index} is computed at run time")
    return terms


def _position(node: Node, axis: int, bound: _Bound) -> int:
    """The position of a bound; one that depends on the size of the axis counts from its end. Raises Unmapped for others."""
    if isinstance(bound, int):
        return bound
    if bound.factor != 1 or not isinstance(bound.base, Dimension) or not node.has_size(0, axis, bound.base):
        raise Unmapped("where it starts or ends is computed at run time")
    return bound.offset if bound.offset < 0 else LAST


def _after(start: int, count: int) -> int:
    """The end of `count` elements; it counts from the front if the start does."""
    return LAST if start < 0 <= start + count else min(start + count, LAST)


@converter("StridedSlice")
def strided_slice(node: Node) -> Converted:
    """`x[...]` as in Python: bit i of a mask is about entry i of begin, end and strides."""
    spec = _Spec(node)
    x, added = _sliced(node, node.value(0), list(spec.ranges())), spec.added()
    return node.emit(nn.UnsqueezeOp, x, axes=added).result if added else x


class _Spec:
    """The entries of a StridedSlice."""

    def __init__(self, node: Node):
        self.node = node
        self.begin, self.end = _bounds(node, 1), _bounds(node, 2)
        self.strides = node.known_ints(3)
        self.count = len(self.strides)
        if len(self.begin) != self.count or len(self.end) != self.count:
            raise node.error("has begin, end and strides of different lengths")
        self.rank = len(node.shape(0))
        self.ellipsis = next((i for i in range(self.count) if self._is(i, "ellipsis")), self.count)
        self.covered = self.rank - sum(i != self.ellipsis and not self._is_new(i) for i in range(self.count))
        if self.covered < 0:
            raise node.error(f"takes more axes than the {self.rank} that there are")

    def _is(self, i: int, mask: str) -> bool:
        return bool(self.node.int(f"{mask}_mask", 0) >> i & 1)

    def _is_new(self, i: int) -> bool:
        """The ellipsis wins over a new axis, and a new axis over anything else."""
        return i != self.ellipsis and self._is(i, "new_axis")

    def _is_dropped(self, i: int) -> bool:
        return i != self.ellipsis and not self._is_new(i) and self._is(i, "shrink_axis")

    def ranges(self) -> Iterator[_Range]:
        """A range for each axis of the input."""
        axis = 0
        for i in range(self.count):
            if i == self.ellipsis:
                yield from [_WHOLE] * self.covered
                axis += self.covered
            elif not self._is_new(i):
                yield self._range(i, axis)
                axis += 1
        yield from [_WHOLE] * (self.rank - axis)

    def _range(self, i: int, axis: int) -> _Range:
        step = self.strides[i]
        if self._is_dropped(i):
            at = _position(self.node, axis, self.begin[i])
            return _Range(at, _after(at, 1), dropped=True)
        first, last = (0, LAST) if step > 0 else (LAST, FIRST)
        start = first if self._is(i, "begin") else _position(self.node, axis, self.begin[i])
        end = last if self._is(i, "end") else _position(self.node, axis, self.end[i])
        return _Range(start, end, step)

    def added(self) -> list[int]:
        """The new axes, counted in the result."""
        axes: list[int] = []
        axis = 0
        for i in range(self.count):
            if self._is_new(i):
                axes.append(axis)
            axis += self.covered if i == self.ellipsis else not self._is_dropped(i)
        return axes


@converter("Slice")
def slice_(node: Node) -> Converted:
    """`size` elements from `begin` on; -1 for all following elements."""
    begins, sizes = _bounds(node, 1), _bounds(node, 2)
    if not len(begins) == len(sizes) == len(node.shape(0)):
        raise node.error(f"has {len(begins)} begins and {len(sizes)} sizes for rank {len(node.shape(0))}")
    ranges = [_taken(node, i, b, s) for i, (b, s) in enumerate(zip(begins, sizes, strict=True))]
    return _sliced(node, node.value(0), ranges)


def _taken(node: Node, axis: int, begin: _Bound, size: _Bound) -> _Range:
    start = _position(node, axis, begin)
    if size == -1:
        return _Range(start, LAST)
    if isinstance(size, int):
        if size < 0:
            raise node.error(f"takes {size} elements")
        return _Range(start, _after(start, size))
    return _Range(start, _position(node, axis, size._replace(offset=size.offset + start)))


@converter("Reverse")
def reverse(node: Node) -> Converted:
    """Reverses axes; input 1 has a boolean for each axis."""
    return _turned(node, np.flatnonzero(node.known(1)).tolist())


@converter("ReverseV2")
def reverse_v2(node: Node) -> Converted:
    """Reverses the axes that input 1 lists."""
    return _turned(node, node.known_ints(1))


def _turned(node: Node, axes: list[int]) -> Converted:
    if not axes:
        return node.binding(0)
    n = len(axes)
    return node.emit(nn.SliceOp, node.value(0), starts=[LAST] * n, ends=[FIRST] * n, axes=axes, steps=[-1] * n).result


@converter("Gather", "ResourceGather")
def gather(node: Node) -> Converted:
    return _gathered(node, 0)


@converter("GatherV2")
def gather_v2(node: Node) -> Converted:
    """A lookup along the axis in input 2."""
    return _gathered(node, int(node.number(2)))


def _gathered(node: Node, axis: int) -> Converted:
    """The number of batch axes; a negative one counts from the rank of the indices."""
    batches = node.int("batch_dims", 0)
    batches += len(node.shape(1)) if batches < 0 else 0
    return node.emit(nn.GatherOp, node.value(0), node.value(1), axis=axis, batch_dims=batches).result


@converter("GatherNd")
def gather_nd(node: Node) -> Converted:
    """Converts indices of a single axis to a lookup."""
    rank = len(node.shape(1))
    if rank == 0 or node.shape(1)[-1] != 1 or node.int("batch_dims", 0):
        raise Unmapped("its indices are of several axes")
    indices = node.emit(nn.SqueezeOp, node.value(1), axes=[rank - 1]).result
    return node.emit(nn.GatherOp, node.value(0), indices).result


@converter("OneHot")
def one_hot(node: Node) -> Converted:
    """Compares a new axis with 0 ... depth - 1; an index out of range equals none of them."""
    depth, rank = int(node.number(1)), len(node.shape(0))
    axis = node.int("axis", -1)
    axis = rank if axis == -1 else axis
    if not 0 <= depth <= _DEEPEST or not 0 <= axis <= rank:
        raise node.error(f"makes {depth} places of axis {axis}")
    positions = np.arange(depth, dtype=node.dtype(0)).reshape(-1, *(1,) * (rank - axis))
    indices = node.emit(nn.UnsqueezeOp, node.value(0), axes=[axis]).result
    hit = node.emit(nn.CompareOp, indices, node.constant(positions, ".positions"), predicate="eq").result
    return node.emit(nn.WhereOp, hit, node.value(2), node.value(3)).result


_DEEPEST = 1 << 24
