"""The names that users may give a layer: its name in the file, which remarks print, the path of its PyTorch module, or the index
of a node without name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ..dialects.nn import NNOp, OriginAttr, is_layer

Operations = Mapping[str, Sequence[NNOp]]
"""Operations by a name, in program order."""


def layer_name(op: Operation) -> str:
    """The name of an operation in remarks: its source layer, otherwise its own as a function, its result's, or its kind."""
    origin = op.properties.get("origin")
    if isinstance(origin, OriginAttr):
        return origin.layer.data
    if isinstance(op, FuncOp):
        return op.sym_name.data
    return next((r.name_hint for r in op.results if r.name_hint), op.name)


def module_path(layer: str) -> str:
    """The path of the module whose node an exporter called `layer`: `/layer1/layer1.0/conv1/Conv` is `layer1.0.conv1`.

    TorchScript's exporter writes the name of a container again before the names of its children; the last part is the
    operator. Empty for a plain name.
    """
    parts: list[str] = []
    for part in layer.strip("/").split("/")[:-1]:
        if parts and part.startswith(f"{parts[-1]}."):
            parts.pop()
        parts.append(part)
    return ".".join(parts)


def modules_of(op: Operation) -> tuple[str, ...]:
    """The paths of the modules that an operation computes: from the source layer, otherwise from its name.

    None if the operation belongs to no module except the model itself.
    """
    origin = op.properties.get("origin")
    if not isinstance(origin, OriginAttr):
        return ()
    paths = origin.module_paths or (module_path(origin.layer.data),)
    return tuple(filter(None, paths))


def has_lost_module(op: Operation) -> bool:
    """Whether the exporter has folded a module into the layer and dropped its name."""
    origin = op.properties.get("origin")
    return isinstance(origin, OriginAttr) and "" in origin.module_paths


def names_of(op: Operation) -> tuple[str, ...]:
    """The names that users may use for an operation: its layer, and its modules."""
    return (layer_name(op), *modules_of(op))


def named_among(ops: Iterable[Operation], names: Collection[str]) -> list[str]:
    """The names among these that are layers or modules of the operations, or enclosing modules."""
    if not names:
        return []
    called = (name for op in ops for own in names_of(op) for name in (own, *_prefixes(own)))
    return [name for name in dict.fromkeys(called) if name in names]


def _prefixes(path: str) -> list[str]:
    """A path and the paths of the enclosing modules, the nearest first."""
    parts = path.split(".")
    return [".".join(parts[:n]) for n in range(len(parts), 0, -1)]


def is_pattern(name: str) -> bool:
    """Whether a name has wildcards: `*`, `?`, or `[...]`, one of some characters."""
    return any(wildcard in name for wildcard in "*?[")


@dataclass(frozen=True)
class LayerNames:
    """The operations of a module, by all their names."""

    layers: Operations
    modules: Operations
    """Operations by the path of their own module; operations of functions belong to the module that calls the function."""
    inside: Operations
    """Operations by the path of their own module and of every module around it."""
    indices: Operations

    @staticmethod
    def of(module: ModuleOp) -> LayerNames:
        layers: dict[str, list[NNOp]] = {}
        modules: dict[str, list[NNOp]] = {}
        inside: dict[str, list[NNOp]] = {}
        indices: dict[str, list[NNOp]] = {}
        for op in module.walk():
            if not isinstance(op, NNOp):
                continue
            origin, layer, paths = op.origin, layer_name(op), modules_of(op)
            if not isinstance(origin, OriginAttr) and not is_layer(op):
                continue
            layers.setdefault(layer, []).append(op)
            for path in paths:
                modules.setdefault(path, []).append(op)
            for around in dict.fromkeys(prefix for path in paths for prefix in _prefixes(path)):
                inside.setdefault(around, []).append(op)
            kind, _, index = layer.rpartition("_")
            if isinstance(origin, OriginAttr) and kind == origin.op_type.data:
                indices.setdefault(index, []).append(op)
        return LayerNames(layers, modules, inside, indices)

    def find(self, name: str) -> Sequence[NNOp]:
        """The operations of the layer or the module with that name; empty if neither exists."""
        return self._first(name, self.layers, self.modules, self.indices)

    def find_inside(self, name: str) -> Sequence[NNOp]:
        """The operations of the layer with that name, otherwise of the module and all modules inside it; of all layers and
        modules that match, if there is none with that name and it is a pattern (`*/head/*`).
        """
        found = self._first(name, self.layers, self.inside, self.indices)
        return found or (self._matching(name) if is_pattern(name) else ())

    def _matching(self, pattern: str) -> Sequence[NNOp]:
        tables = (self.layers, self.inside)
        ops = (op for table in tables for name, ops in table.items() if fnmatchcase(name, pattern) for op in ops)
        return [*dict.fromkeys(ops)]

    def expanded(self, names: Iterable[str]) -> list[str]:
        """The names, with the layers of every pattern in its place. A pattern that is a name, or matches nothing, stays."""
        found: dict[str, None] = {}
        for name in names:
            ops = () if self._first(name, self.layers, self.inside, self.indices) else self.find_inside(name)
            found.update(dict.fromkeys(map(layer_name, ops)))
            if not ops:
                found[name] = None
        return [*found]

    def _first(self, name: str, *tables: Operations) -> Sequence[NNOp]:
        return next((table[name] for table in tables if name and name in table), ())

    def numbered(self, name: str) -> Sequence[NNOp]:
        """The operations of modules `name_1`, `name_2`, the names of TorchScript's exporter for further calls of a module."""
        paths = (path for path in self.modules if path.startswith(f"{name}_") and path[len(name) + 1 :].isdigit())
        return [op for path in paths for op in self.modules[path]]

    def close(self, name: str) -> Sequence[str]:
        """At most three names similar to an unknown one."""
        return get_close_matches(name, dict.fromkeys([*self.layers, *self.inside]), 3)

    def hint(self, name: str) -> str:
        """A hint for an unknown name, with similar names."""
        if close := self.close(name):
            return f"did you mean {', '.join(close)}?"
        known = [*(self.modules or self.layers)]
        kind = "modules" if self.modules else "layers"
        return f"{kind} are {', '.join([*known[:8], *(['...'] if len(known) > 8 else [])]) or 'none'}"

    def calls(self, name: str) -> Sequence[str]:
        """The layers of a module that is called several times, one for each call; none if it is called once.

        Such a module has several layers of each type and no module inside it.
        """
        ops = self.modules.get(name, ())
        if name in self.layers or len(self.inside.get(name, ())) != len(ops):
            return ()
        layers = {o.layer.data: o.op_type.data for op in ops if isinstance(o := op.origin, OriginAttr)}
        return () if min(Counter(layers.values()).values(), default=0) < 2 else [*layers]
