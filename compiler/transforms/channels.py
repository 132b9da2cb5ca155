"""Positions of a value's channels, also after operations that keep them apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from xdsl.ir import SSAValue, Use

from ..dialects.nn import NNOp, ReshapingOp, SliceOp
from ..dialects.nn.fused import uses_of
from ..dialects.nn.shapes import DYNAMIC, shape_of
from ..ir.array import Array


class Channels(NamedTuple):
    """An axis of a value, and the channel that each of its entries belongs to: int64 [entries]."""

    axis: int
    of: Array


def followed(
    value: SSAValue, channels: Channels, behind: Callable[[Use, Channels], Channels | None]
) -> Iterator[tuple[Use, Channels]]:
    """Yields the uses of a value's channels, each once, after all operations that keep them apart, as `behind` finds."""
    waiting = [(use, channels) for use in uses_of(value)]
    seen: set[Use] = set()
    while waiting:
        use, channels = waiting.pop()
        if use in seen:
            continue
        seen.add(use)
        if (after := behind(use, channels)) is None:
            yield use, channels
        else:
            waiting += [(each, after) for each in uses_of(use.operation.results[0])]


def carried(op: NNOp, channels: Channels) -> Channels | None:
    """The channels of operand 0 in the result of an operation that scales with it; None if the operation mixes them, or
    if sizes that are not known hide that it does not.
    """
    axis, of = channels
    if isinstance(op, SliceOp):
        return Channels(axis, of[op.slices(len(shape_of(op.input)))[axis]])
    if isinstance(op, ReshapingOp):
        return _reshaped(op.operands[0], op.results[0], channels)
    behind = op.axis_behind(axis)
    return None if behind is None else Channels(behind, of)


def _reshaped(value: SSAValue, result: SSAValue, channels: Channels) -> Channels | None:
    """Follows channels entry by entry, in the part after the last unknown size: if it is as long in both, it contains
    the same elements. A value without elements has none to follow.
    """
    before, after = shape_of(value), shape_of(result)
    first, second = _known_from(before), _known_from(after)
    axis = channels.axis - first
    sizes = before[first:]
    if axis < 0 or (first == 0) != (second == 0) or np.prod(sizes) != np.prod(after[second:]) or 0 in sizes:
        return None
    entries = channels.of.reshape([-1 if i == axis else 1 for i in range(len(sizes))])
    moved = np.broadcast_to(entries, sizes).reshape(after[second:])
    for i in range(moved.ndim):
        of = moved[tuple(slice(None) if j == i else slice(1) for j in range(moved.ndim))].reshape(-1)
        if np.array_equal(
            moved, np.broadcast_to(of.reshape([-1 if j == i else 1 for j in range(moved.ndim)]), moved.shape)
        ):
            return Channels(second + i, of)
    return None


def _known_from(shape: tuple[int, ...]) -> int:
    """The first axis after the last one whose size is not known."""
    return max((i + 1 for i, size in enumerate(shape) if size == DYNAMIC), default=0)
