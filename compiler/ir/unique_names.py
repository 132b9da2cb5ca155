"""Names that are given once."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """Assigns unique names; `taken` are not assigned. In most files an empty name would mean an absent value."""

    def __init__(self, taken: Iterable[str] = (), separator: str = "_", unnamed: str = "unnamed"):
        self._taken = dict.fromkeys(taken, 0)
        """The number that was last appended to each name."""
        self._separator = separator
        self._unnamed = unnamed

    def unique(self, wanted: str) -> str:
        """`wanted`, or `wanted_1`, `wanted_2`, ... if it is taken."""
        wanted = wanted or self._unnamed
        name, count = wanted, self._taken.get(wanted, 0)
        while name in self._taken:
            count += 1
            name = f"{wanted}{self._separator}{count}"
        self._taken[wanted] = count
        self._taken.setdefault(name, 0)
        return name
