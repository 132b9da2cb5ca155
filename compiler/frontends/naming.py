"""Layer names: the source's if it is not empty and unique, otherwise `OpType_index`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, LocationAttr, NameLoc, StringAttr

from ..ir.unique_names import Names
from ..support.diagnostics import describe


@dataclass(frozen=True)
class NamedLayer:
    """The name of a source node, unique in the model, and its location."""

    name: str
    location: LocationAttr

    @property
    def where(self) -> str:
        return describe(self.location)


class Namer:
    """Assigns layer names to nodes; `given` are the names of all source nodes, including empty ones."""

    def __init__(self, file: str, given: Iterable[str]):
        self.file: FileLineColLoc = FileLineColLoc(StringAttr(file), IntAttr(0), IntAttr(0))
        self._given = Counter(iter(given))  # Counter would read the values of a mapping as counts
        self._names = Names(self._given)

    def layer(self, name: str, op_type: str, index: int) -> NamedLayer:
        if name and self._given[name] == 1:
            return self._named(name)
        return self.fresh(f"{op_type}_{index}")

    def fresh(self, wanted: str) -> NamedLayer:
        """A layer with this name, followed by a number if the name is taken."""
        return self._named(self._names.unique(wanted))

    def _named(self, name: str) -> NamedLayer:
        return NamedLayer(name, NameLoc(StringAttr(name), self.file))
