"""Linear activations before a quantization.

Every step of a quantization is monotone, so bounding its integers instead of its input gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation

from ..dialects import nn
from .program import Program

Bounds = tuple[float, float]

UNBOUNDED: Bounds = (float("-inf"), float("inf"))


def bounds_of(op: Operation) -> Bounds | None:
    """The bounds of a linear activation of `nn`."""
    return op.bounds if isinstance(op, nn.BoundOp) else None


def bounded(
    program: Program, slot: int, bounds: Callable[[Operation], Bounds | None] = bounds_of
) -> tuple[int, Bounds]:
    """The slot before the activations that lead only to `slot`, and their combined bounds."""
    found: list[Bounds] = []
    while (row := program.made_for_one(slot)) is not None and (bound := bounds(row.op)) is not None:
        found.append(bound)
        slot = row.operands[0]
    return slot, _together(found)


def _together(bounds: Sequence[Bounds]) -> Bounds:
    """Combines several pairs of bounds; the last one acts first."""
    low, high = UNBOUNDED
    for least, most in reversed(bounds):
        low, high = min(max(low, least), most), min(max(high, least), most)
    return low, high
