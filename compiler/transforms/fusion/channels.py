"""Positions of a computing operation's output channels, after operations that only move elements.

Every axis is a list of digits, the most significant first, as in a number of mixed radix. A digit counts output channels in
steps of its stride, or something else (stride 0). Reshapes split and join digits, transposes move them; therefore the position
of each channel along an axis is exact, and an axis that counts anything else is recognized.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from math import prod
from typing import NamedTuple

import numpy as np

from ...dialects.nn import (
    BatchToSpaceOp,
    DepthToSpaceOp,
    FlattenOp,
    NNOp,
    ReshapeOp,
    ReshapingOp,
    SliceOp,
    SpaceToBatchOp,
    SqueezeOp,
    TransposeOp,
    UnsqueezeOp,
    ints,
)
from ...dialects.nn.attributes import DepthMode
from ...dialects.nn.shapes import DYNAMIC, Shape, axes_of, known, shape_of
from ...rewriting import Array

MOVES = (ReshapingOp, TransposeOp, BatchToSpaceOp, SpaceToBatchOp, DepthToSpaceOp, SliceOp)
"""Operations on one value that move elements, and that `Channels` follows."""


class Digit(NamedTuple):
    """A factor of the size of an axis."""

    size: int
    """DYNAMIC if unknown."""
    stride: int
    """The distance in output channels between neighbours; 0 if the digit does not count channels."""


Axis = tuple[Digit, ...]


class Channels(NamedTuple):
    """The digits of each axis of a value, and the number of output channels. Sizes of 1 have no digit."""

    axes: tuple[Axis, ...]
    total: int

    @staticmethod
    def of(shape: Shape, axis: int, total: int) -> Channels:
        """The channels of a result of this shape, which has them on one axis."""
        others = [_others(d) for d in shape]
        others[axis] = (Digit(total, 1),) if total != 1 else ()
        return Channels(tuple(others), total)

    def behind(self, op: NNOp) -> Channels | None:
        """The channels in the result of one of `MOVES`; None if they cannot be followed."""
        axes = _moved(op, self.axes)
        return None if axes is None else Channels(tuple(axes), self.total)

    def along(self, axis: int) -> Array | None:
        """The position along an axis of each output channel, `[total]`; None if the axis counts anything else."""
        digits = self.axes[axis]
        if any(d.stride == 0 for d in digits):
            return None
        numbers, position = np.arange(self.total), np.zeros(self.total, np.int64)
        for digit in digits:
            position = position * digit.size + numbers // digit.stride % digit.size
        return position

    def size(self, axis: int) -> int:
        """The size of an axis that counts output channels only."""
        return prod(d.size for d in self.axes[axis])

    def counted(self, axis: int) -> bool:
        """Whether an axis counts output channels, alone or with something else."""
        return _counts_channels(self.axes[axis])

    def place(self) -> str:
        """The position of the channels, in words: `axis 1`."""
        found = [str(i) for i in range(len(self.axes)) if self.counted(i)]
        return f"ax{'is' if len(found) == 1 else 'es'} {', '.join(found)}" if found else "no axis"


def _others(length: int) -> Axis:
    return () if length == 1 else (Digit(length, 0),)


def _counts_channels(axis: Iterable[Digit]) -> bool:
    return any(d.stride for d in axis)


def _flat(axes: Iterable[Axis]) -> Axis:
    return tuple(chain.from_iterable(axes))


def _moved(op: NNOp, axes: Sequence[Axis]) -> Sequence[Axis] | None:
    match op:
        case TransposeOp():
            return [axes[p] for p in ints(op.perm)]
        case SqueezeOp():
            dropped = axes_of(ints(op.axes, [i for i, d in enumerate(shape_of(op.input)) if d == 1]), len(axes))
            return [axis for i, axis in enumerate(axes) if i not in dropped]
        case UnsqueezeOp():
            added, rest = axes_of(ints(op.axes), len(axes) + len(ints(op.axes))), iter(axes)
            return [() if i in added else next(rest) for i in range(len(shape_of(op.result)))]
        case FlattenOp():
            axis = op.axis.value.data
            first = axis + len(axes) if axis < 0 else axis
            return [_flat(axes[:first]), _flat(axes[first:])]
        case ReshapeOp():
            return _reshaped(op, axes)
        case BatchToSpaceOp() | SpaceToBatchOp():
            first = 1 if op.channels_last else 2
            moved = [0, *(first + i for i, b in enumerate(ints(op.block)) if b != 1)]
            return _resized(op, axes, [*moved, *_cropped(op, first)]) if op.only_moves else None
        case DepthToSpaceOp():
            return _depth_to_space(op, axes)
        case SliceOp():
            slices = op.slices(len(axes))
            return _resized(op, axes, [i for i, each in enumerate(slices) if each != slice(None)])
        case _:
            return None


def _cropped(op: BatchToSpaceOp | SpaceToBatchOp, first: int) -> list[int]:
    """The axes that lose elements to crops."""
    if isinstance(op, SpaceToBatchOp):
        return []
    crops, count = ints(op.crops), len(ints(op.block))
    return [first + i for i in range(count) if crops[i] or crops[i + count]]


def _resized(op: NNOp, axes: Sequence[Axis], changed: Sequence[int]) -> Sequence[Axis] | None:
    """The axes after an operation that mixes or cuts some of them, none of which counts channels."""
    if any(_counts_channels(axes[i]) for i in changed):
        return None
    shape = shape_of(op.results[0])
    return [_others(shape[i]) if i in changed else axis for i, axis in enumerate(axes)]


def _depth_to_space(op: DepthToSpaceOp, axes: Sequence[Axis]) -> Sequence[Axis] | None:
    """Channels are `[b, b, C]` in mode dcr, `[C, b, b]` in mode crd; height and width get one `b` each."""
    channel, b = op.channel_axis(4), op.block.value.data
    row = 1 if op.channels_last else 2
    depth = shape_of(op.input)[channel]
    if not known(depth) or 0 in shape_of(op.input):
        return None
    left = depth // (b * b)
    parts = _split(axes[channel], (b, b, left) if op.mode.data is DepthMode.DCR else (left, b, b))
    if parts is None:
        return None
    down, across, channels = parts if op.mode.data is DepthMode.DCR else (*parts[1:], parts[0])
    result = list(axes)
    result[channel], result[row], result[row + 1] = channels, (*axes[row], *down), (*axes[row + 1], *across)
    return result


def _reshaped(op: ReshapeOp, axes: Sequence[Axis]) -> Sequence[Axis] | None:
    """The digits in their order, cut anew.

    Leading axes that keep their sizes keep their digits; the others are cut from the last one on, as far as sizes are known.
    """
    before, after = shape_of(op.input), shape_of(op.result)
    if 0 in before or 0 in after:
        return None
    target = op.target() if op.allow_zero is None else None
    kept = 0
    while kept < min(len(before), len(after)) and (
        (known(after[kept]) and before[kept] == after[kept]) or (target is not None and target[kept] == 0)
    ):
        kept += 1
    unknown = [i for i in range(kept, len(after)) if not known(after[i])]
    last = unknown[-1] if unknown else kept - 1
    if (cut := _cut(_flat(axes[kept:]), after[last + 1 :])) is None:
        return None
    rest, behind = cut
    if not _counts_channels(rest):
        between = [_others(d) for d in after[kept : last + 1]]
    elif unknown and all(d == 1 for d in after[kept:last]):
        between = [*((),) * (last - kept), rest]  # one unknown size takes what is left
    else:
        return None
    return [*axes[:kept], *between, *behind]


def _split(axis: Axis, sizes: Sequence[int]) -> Sequence[Axis] | None:
    """An axis as several of known sizes; None if a digit cannot be divided."""
    cut = _cut(axis, sizes)
    return cut[1] if cut is not None and not cut[0] else None


def _cut(digits: Axis, sizes: Sequence[int]) -> tuple[Axis, list[Axis]] | None:
    """Axes of these known sizes from the end of the digits, and the digits that are left; None if one cannot be divided."""
    left = _joined(digits)
    axes: list[Axis] = []
    for length in reversed(sizes):
        axis: list[Digit] = []
        while (missing := length // prod(d.size for d in axis)) != 1:
            if not left:
                return None
            digit = left.pop()
            if not known(digit.size):
                if _counts_channels(left) or digit.stride:
                    return None
                left, digit = [digit], Digit(missing, 0)  # what is left does not count channels at all
            elif missing % digit.size:
                if digit.size % missing:
                    return None
                left.append(Digit(digit.size // missing, digit.stride * missing))
                digit = digit._replace(size=missing)
            axis.insert(0, digit)
        axes.insert(0, tuple(axis))
    return tuple(left), axes


def _joined(digits: Sequence[Digit]) -> list[Digit]:
    """The digits with neighbours joined that continue each other, so that they can be divided elsewhere."""
    joined: list[Digit] = []
    for digit in digits:
        above = joined[-1] if joined else None
        if above is None or DYNAMIC in (above.size, digit.size) or above.stride != digit.stride * digit.size:
            joined.append(digit)
        else:
            joined[-1] = Digit(above.size * digit.size, digit.stride)
    return joined
