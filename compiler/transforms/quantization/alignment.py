"""Alignment: points of operands and results that must carry equal parameters become a group (PPQ's QuantAlignmentPass).

A group takes the range of its masters, else the union of its members'. All points on a value follow: producers are aligned too,
as PPQ does with force_overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from xdsl.dialects.builtin import StringAttr, UnitAttr

from ...dialects.nn import ObserveOp

Mode = Literal["large", "output", "input", "none"]


def align(mode: Mode, name: str, operands: Sequence[ObserveOp], results: Sequence[ObserveOp]) -> None:
    """Group the points of an operation; `name` is that of the group, unless a member has one already.

    large: the operands take what holds all of them. output: operands take the result's parameters. input: the reverse.
    """
    members = {"large": operands, "none": ()}.get(mode, (*operands, *results))
    members = list(dict.fromkeys(members))
    if len(members) < 2:
        return
    for point in {"output": results, "input": operands}.get(mode, ()):
        point.master = UnitAttr()
    _join(members, name)


def _join(members: Sequence[ObserveOp], name: str) -> None:
    """One group of the members and of all that are in a group with one of them."""
    block = members[0].parent
    assert block is not None
    old = {m.group.data for m in members if m.group is not None}
    group = StringAttr(min(old, default=name))
    for point in (*members, *(o for o in block.ops if isinstance(o, ObserveOp) and o.group and o.group.data in old)):
        point.group = group


Range = tuple[float, float]


def group_ranges(points: Sequence[ObserveOp], ranges: Iterable[Range]) -> list[Range]:
    """The range of each point, those of one group made equal: the union over its masters, else over all of it."""
    own = list(ranges)
    groups: dict[str, list[int]] = {}
    for i, point in enumerate(points):
        if point.group is not None:
            groups.setdefault(point.group.data, []).append(i)
    for members in groups.values():
        masters = [i for i in members if points[i].master is not None] or members
        low, high = min(own[i][0] for i in masters), max(own[i][1] for i in masters)
        for i in members:
            own[i] = (low, high)
    return own
