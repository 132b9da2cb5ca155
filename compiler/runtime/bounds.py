"""Linear activations in front of a quantization.

Every step of a quantization is monotone, so bounding its integers instead of what it takes gives the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Operation

from ..dialects import nn
from .program import Program

Bounds = tuple[float, float]

UNBOUNDED: Bounds = (float("-inf"), float("inf"))

_BOUNDS: dict[type[Operation], Callable[[Any], Bounds]] = {
    nn.ReluOp: lambda _: (0.0, float("inf")),
    nn.Relu6Op: lambda _: (0.0, 6.0),
    nn.ClipOp: lambda op: op.bounds,
}


def bounds_of(op: Operation) -> Bounds | None:
    """Those of a linear activation of `nn`."""
    find = _BOUNDS.get(type(op))
    return None if find is None else find(op)


def bounded(
    program: Program, slot: int, bounds: Callable[[Operation], Bounds | None] = bounds_of
) -> tuple[int, Bounds]:
    """The slot behind the activations that lead to `slot` and nowhere else, and their bounds together."""
    found: list[Bounds] = []
    while (row := program.made_for_one(slot)) is not None and (bound := bounds(row.op)) is not None:
        found.append(bound)
        slot = row.operands[0]
    return slot, _together(found)


def _together(bounds: Sequence[Bounds]) -> Bounds:
    """One pair of bounds for several, the last of which acts first."""
    low, high = UNBOUNDED
    for least, most in reversed(bounds):
        low, high = min(max(low, least), most), min(max(high, least), most)
    return low, high
