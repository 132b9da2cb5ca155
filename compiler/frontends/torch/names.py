"""Names layers by the paths of PyTorch modules, from the data that the exporter writes next to each node."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from onnx import GraphProto, NodeProto

from ..onnx.module_paths import MODULE, classes_of, scopes_of

_MAIN = frozenset(
    {"Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN", "BatchNormalization", "LayerNormalization"}
)
"""Nodes that have the name of their operator, wherever they are among the nodes that it becomes."""
_NUMBER = re.compile(r"_\d+$")
_TORCH = "torch.nn.modules."
_FUSED = "amct_opt.api.torch."
_OURS = ("torch.nn.", "torch.ao.", _FUSED)
"""Modules that are an operator each, however often they are called, or a fused chain of them."""


class _Unit(NamedTuple):
    """A node of the traced graph: an ATen operator, which may become several nodes of ONNX."""

    path: str
    operator: str

    @property
    def kind(self) -> str:
        return _NUMBER.sub("", self.operator)


def name_layers(graph: GraphProto) -> None:
    """Gives each node the path of its module as its name, in place.

    `layer1.0.conv2` is the operator of that module, `layer1.0.relu@0` and `@1` are those of two calls of one. `layer1.0.add` is
    an operator that a module of the model's own writes between others. A layer that uses the weight of a module that is not
    called has the path of that module (`attention.out_proj`). Further nodes of an operator have their type after its name
    (`fc/Add`). Nodes that alone are what a module of torch.nn computes have its class as metadata. An operator that would have
    the name of a module has a number: a call of `mean` next to a module `mean` is `mean_1`.
    """
    units: dict[_Unit, list[NodeProto]] = {}
    for node in graph.node:
        units.setdefault(_unit(node), []).append(node)
    modules: dict[str, list[_Unit]] = {}
    for unit in units:
        modules.setdefault(unit.path, []).append(unit)
    outer = {around for path in modules for around in _around(path)}
    taken: Counter[str] = Counter()
    others: list[tuple[Sequence[NodeProto], str]] = []
    for unit, nodes in units.items():
        calls = [each for each in modules[unit.path] if _is_call(units[each])] or modules[unit.path]
        if owner := _uncalled(unit.path, nodes):
            name = owner
        elif not unit.path or unit.path in outer or unit not in calls or not _are_calls(calls, nodes):
            others.append((nodes, ".".join(filter(None, (unit.path, unit.kind)))))
            continue
        else:
            name = unit.path if len(calls) == 1 else f"{unit.path}@{calls.index(unit)}"
            if len(calls) == len(modules[unit.path]) and (path := _class(nodes[0])).startswith(_TORCH):
                _main(nodes).metadata_props.add(key=MODULE, value=path.rpartition(".")[2])
        _name(nodes, name, taken)
    for nodes, name in others:
        _name(nodes, name, taken)


def fused_chains(graph: GraphProto) -> list[list[str]]:
    """The layers of each call of a module that `amct_opt.torch.fuse_modules` made, in order; the layers have their names."""
    units: dict[_Unit, list[NodeProto]] = {}
    for node in graph.node:
        if _class(node).startswith(_FUSED):
            units.setdefault(_unit(node), []).append(node)
    chains: dict[str, list[list[str]]] = {}
    for unit, nodes in units.items():
        main = next((node for node in nodes if node.op_type in _MAIN), None)
        if main is not None:
            chains.setdefault(unit.path, []).append([main.name])
        elif unit.path in chains:
            chains[unit.path][-1].append(nodes[-1].name)
    return [chain for calls in chains.values() for chain in calls if len(chain) > 1]


def _unit(node: NodeProto) -> _Unit:
    scopes = scopes_of(node)
    operator = scopes[-1] if scopes else ""
    return _Unit(scopes[-2] if len(scopes) > 1 else "", operator or node.op_type.lower())


def _is_call(nodes: Sequence[NodeProto]) -> bool:
    """Whether the nodes are what their module is for: an LSTM makes its first states, too."""
    return _is_ours(nodes[0]) and any(node.op_type in _MAIN for node in nodes)


def _are_calls(units: Sequence[_Unit], nodes: Sequence[NodeProto]) -> bool:
    """Whether each of these operators is a call of their module; a module of the model's own may have equal operators."""
    return len(units) == 1 or (len({unit.kind for unit in units}) == 1 and _is_ours(nodes[0]))


def _is_ours(node: NodeProto) -> bool:
    return _class(node).startswith(_OURS)


def _class(node: NodeProto) -> str:
    """The class of the module of a node; empty without metadata."""
    return "".join(classes_of(node)[-2:-1])


def _uncalled(path: str, nodes: Sequence[NodeProto]) -> str:
    """The inner module whose weight a layer uses, as `F.linear(x, self.proj.weight)` does; else empty."""
    weights = [name for node in nodes if node.op_type in _MAIN for name in node.input[1:2]]
    owners = [name.removesuffix(".weight") for name in weights if name.endswith(".weight")]
    return next((each for each in owners if path and each.startswith(f"{path}.")), "")


def _name(nodes: Sequence[NodeProto], name: str, taken: Counter[str]) -> None:
    """Names the nodes of one operator; nodes of the type of its main node get the operator's name, with numbers."""
    main = _main(nodes).op_type
    for node in nodes:
        wanted = name if node.op_type == main else f"{name}/{node.op_type}"
        taken[wanted] += 1
        node.name = wanted if taken[wanted] == 1 else f"{wanted}_{taken[wanted] - 1}"


def _main(nodes: Sequence[NodeProto]) -> NodeProto:
    """The node that an operator is named after."""
    return next((n for n in nodes if n.op_type in _MAIN), nodes[-1])


def _around(path: str) -> list[str]:
    """The paths around a path."""
    parts = path.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts))]
