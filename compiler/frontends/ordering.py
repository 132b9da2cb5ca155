"""The order in which a graph's nodes can be imported."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import heapify, heappop, heappush


class CycleError(Exception):
    """A cycle of nodes, by index: each needs the one before it, the first needs the last."""

    def __init__(self, cycle: Sequence[int]):
        self.cycle: tuple[int, ...] = tuple(cycle)

    def text(self, names: Sequence[str]) -> str:
        """The cycle in words; only the first nodes of a long one."""
        loop = [names[i] for i in self.cycle]
        path = " -> ".join([*loop[:6], "..."] if len(loop) > 6 else [*loop, loop[0]])
        return f"is part of a cycle: {path}"


def in_order(needs: Sequence[Collection[int]]) -> list[int]:
    """Indices in an order in which each follows all that it needs; the given order if possible. Raises CycleError."""
    waiting = [len(n) for n in needs]
    users: list[list[int]] = [[] for _ in needs]
    for i, needed in enumerate(needs):
        for p in needed:
            users[p].append(i)
    ready = [i for i, n in enumerate(waiting) if n == 0]
    heapify(ready)
    order: list[int] = []
    while ready:
        i = heappop(ready)
        order.append(i)
        for user in users[i]:
            waiting[user] -= 1
            if waiting[user] == 0:
                heappush(ready, user)
    if len(order) < len(needs):
        raise CycleError(_cycle(needs, waiting))
    return order


def _cycle(needs: Sequence[Collection[int]], waiting: Sequence[int]) -> list[int]:
    """Walks back from a waiting node until a node repeats: the nodes between are the cycle."""
    at = next(i for i, n in enumerate(waiting) if n)
    path: list[int] = []
    while at not in path:
        path.append(at)
        at = next(p for p in needs[at] if waiting[p])
    return path[path.index(at) :][::-1]
