"""Permutations of axes: `transpose(x, p)` has axis `p[i]` of x as its axis i, as in numpy and ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xdsl.ir import Operation

from .shapes import Shape

Perm = tuple[int, ...]


class Moved(NamedTuple):
    """An operation on permuted operands: it gives the permuted results, if its properties are mapped."""

    operands: tuple[Perm | None, ...]
    """The permutation of each operand, None if unchanged; longer than the operand's rank if it broadcasts."""
    properties: dict[str, Any]
    """Changed properties, as Python values or attributes."""
    results: tuple[Perm, ...]
    kind: type[Operation] | None = None
    """The class of `nn` that computes it, if it differs."""


def identity(rank: int) -> Perm:
    """The identity permutation of this many axes."""
    return tuple(range(rank))


def inverse(perm: Perm) -> Perm:
    """The inverse of `perm`."""
    return tuple(perm.index(i) for i in range(len(perm)))


def compose(outer: Perm, inner: Perm) -> Perm:
    """The composed permutation: `transpose(transpose(x, inner), outer)`."""
    return tuple(inner[i] for i in outer)


def permuted(shape: Sequence[int], perm: Perm) -> Shape:
    """The transposed sizes."""
    return tuple(shape[i] for i in perm)


def without(perm: Perm, dropped: Sequence[int]) -> Perm:
    """The permutation of the remaining axes after these (old) axes are removed."""
    left = sorted(a for a in perm if a not in dropped)
    return tuple(left.index(a) for a in perm if a not in dropped)


def keeps_order(shape: Shape, perm: Perm) -> bool:
    """Whether the elements stay in order: only axes of size 1 move."""
    moving = [axis for axis in perm if shape[axis] != 1]
    return moving == sorted(moving)


def along_axis(op: Operation, axis: int, perm: Perm) -> Moved:
    """An operation along one axis of all its operands, moved to permuted operands."""
    return Moved((perm,) * len(op.operands), {"axis": perm.index(axis)}, (perm,) * len(op.results))
