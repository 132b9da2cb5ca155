"""Alignment: points of operands and results that must have equal parameters become a group (PPQ's QuantAlignmentPass).

A group takes the union of its masters' ranges or, without masters, of all members' ranges. A master is a member that does not
follow another one; the range of a follower, such as an operand of Concat, lies within the one it follows. Parameters that a
member already has, set by hand or from a record, apply to the whole group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp, StringAttr, UnitAttr

from ....dialects.nn import ObserveOp
from ..profiles import Mode


def align(mode: Mode, name: str, operands: Sequence[ObserveOp], results: Sequence[ObserveOp]) -> list[ObserveOp]:
    """Group the points of an operation; `name` is that of the group, unless a member has one already. Returns the points that are
    left out because their bits or symmetry differ from those of the first.

    large: operands take the range that covers all of them. output: operands take the result's parameters. input: the reverse.
    joint: all are observed together.
    """
    members = {"large": operands, "none": ()}.get(mode, (*operands, *results))
    members, others = alike(members)
    if len(members) < 2:
        return others
    join(members, name)
    if mode == "joint":
        for point in members:
            point.joint = UnitAttr()
    return others


def alike(points: Iterable[ObserveOp]) -> tuple[list[ObserveOp], list[ObserveOp]]:
    """The points, each once, with the same bits and symmetry as the first, and the others."""
    distinct = list(dict.fromkeys(points))
    members = [p for p in distinct if (p.bits, p.symmetric) == (distinct[0].bits, distinct[0].symmetric)]
    return members, [p for p in distinct if p not in members]


def join(members: Sequence[ObserveOp], name: str) -> None:
    """Merge the members and their groups into one group."""
    block = members[0].parent
    assert block is not None
    old = {m.group.data for m in members if m.group is not None}
    group = StringAttr(min(old, default=name))
    for point in (*members, *(o for o in block.ops if isinstance(o, ObserveOp) and o.group and o.group.data in old)):
        point.group = group


def choose_masters(module: ModuleOp, followers: Collection[ObserveOp]) -> None:
    """Lets the members of a group with followers that are not followers determine its range."""
    for members in groups_of(module).values():
        leaders = [point for point in members if point not in followers]
        if len(leaders) < len(members):
            for point in leaders:
                point.master = UnitAttr()


def settle(module: ModuleOp) -> list[list[ObserveOp]]:
    """Give all members of a group the parameters that one of them already has. Groups with conflicting parameters are dissolved
    and returned.
    """
    given_up: list[list[ObserveOp]] = []
    for members in groups_of(module).values():
        known = {m.qparams: m for m in members if m.qparams is not None}
        if len(known) > 1:
            given_up.append(members)
            for point in members:
                point.group = point.master = point.joint = None
        elif known:
            (owner,) = known.values()
            for point in members:
                point.qparams, point.source, point.range = owner.qparams, owner.source, owner.range
    return given_up


def groups_of(module: ModuleOp) -> Mapping[str, list[ObserveOp]]:
    """The observed members of each group."""
    groups: dict[str, list[ObserveOp]] = {}
    for op in module.walk():
        if isinstance(op, ObserveOp) and op.group is not None:
            groups.setdefault(op.group.data, []).append(op)
    return groups


Range = tuple[float, float]


def group_ranges(points: Sequence[ObserveOp], ranges: Iterable[Range]) -> list[Range]:
    """The range of each point; in a group, the union over its masters or, without masters, over all members."""
    own = list(ranges)
    groups: dict[str, list[int]] = {}
    for i, point in enumerate(points):
        if point.group is not None:
            groups.setdefault(point.group.data, []).append(i)
    for members in groups.values():
        masters = [i for i in members if points[i].master is not None and own[i][0] <= own[i][1]] or members
        low, high = min(own[i][0] for i in masters), max(own[i][1] for i in masters)
        for i in members:
            own[i] = (low, high)
    return own
