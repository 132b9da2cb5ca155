"""The graph of a model, checked: every name is defined once and before its use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from onnx import GraphProto, NodeProto, ValueInfoProto

from ...formats.onnx.graphs import domain_of, free_names, subgraphs
from ...support.diagnostics import CompileError, describe
from .. import naming
from ..ordering import CycleError, in_order


@dataclass(frozen=True)
class NodeLayer(naming.NamedLayer):
    """A node and its name."""

    proto: NodeProto

    @property
    def domain(self) -> str:
        return domain_of(self.proto.domain)


def named(node: NodeProto, index: int, namer: naming.Namer) -> NodeLayer:
    """A node with its index and layer."""
    layer = namer.layer(node.name, node.op_type, index)
    return NodeLayer(layer.name, layer.location, node)


def sorted_layers(graph: GraphProto, namer: naming.Namer, outside: Container[str] = ()) -> list[NodeLayer]:
    """The nodes in an order in which every value is defined before its use; the file's own order if possible.

    `outside` contains the names that an enclosing graph defines. Raises CompileError, located at the node, for a name that is
    defined twice or never, and for a cycle.
    """
    layers = [named(n, i, namer) for i, n in enumerate(graph.node)]
    producer = _producers(graph, layers, describe(namer.file))
    needs = [_needed(layer, producer, outside) for layer in layers]
    try:
        return [layers[i] for i in in_order(needs)]
    except CycleError as e:
        raise CompileError(e.text([layer.name for layer in layers]), where=layers[e.cycle[-1]].where) from None


_GIVEN = -1
"""Index for values that an input or initializer defines, among the indices of producing nodes."""


def _producers(graph: GraphProto, layers: Sequence[NodeLayer], where: str) -> dict[str, int]:
    given = [i.name for i in graph.input]
    if twice := next((n for n, k in Counter(given).items() if k > 1), None):
        raise CompileError(f"input '{twice}' is declared twice", where=where)
    initializers = [i.name for i in graph.initializer]
    if twice := next((n for n, k in Counter(initializers).items() if k > 1), None):
        raise CompileError(f"initializer '{twice}' is given twice", where=where)
    producer = dict.fromkeys([*given, *initializers], _GIVEN)
    for i, layer in enumerate(layers):
        for name in filter(None, layer.proto.output):
            if name in producer:
                raise CompileError(f"defines '{name}', which is defined already", where=layer.where)
            producer[name] = i
    return producer


def _needed(layer: NodeLayer, producer: dict[str, int], outside: Container[str]) -> set[int]:
    needed: set[int] = set()
    for name in filter(None, layer.proto.input):
        if name not in producer and name not in outside:
            message = f"reads '{name}', which nothing defines"
            raise CompileError(message, where=layer.where, hint="the file may be truncated")
    for name in free_names(layer.proto):
        if (source := producer.get(name, _GIVEN)) != _GIVEN:
            needed.add(source)
    return needed


def reads(node: NodeProto) -> Iterator[str]:
    """The names that a node and the nodes of its subgraphs read, including values defined in the subgraphs."""
    yield from filter(None, node.input)
    for graph in subgraphs(node):
        yield from (o.name for o in graph.output)
        for inner in graph.node:
            yield from reads(inner)


def used_names(graph: GraphProto) -> frozenset[str]:
    """The names that a node reads, or that are outputs."""
    read = (name for node in graph.node for name in reads(node))
    return frozenset([*read, *(o.name for o in graph.output)])


def live_layers(layers: Sequence[NodeLayer], outputs: Iterable[str]) -> list[NodeLayer]:
    """The layers that the outputs depend on, in order."""
    needed = set(outputs)
    live: list[NodeLayer] = []
    for layer in reversed(layers):
        if needed.intersection(layer.proto.output):
            live.append(layer)
            needed.update(free_names(layer.proto))
    return live[::-1]


def outputs_of(graph: GraphProto, where: str) -> list[ValueInfoProto]:
    """The outputs. Raises CompileError if there are none, or for a duplicate name."""
    if not graph.output:
        raise CompileError("has no outputs", where=where, hint="the file may be truncated")
    names = Counter(o.name for o in graph.output)
    if twice := next((n for n, k in names.items() if k > 1), None):
        raise CompileError(f"output '{twice}' is declared twice", where=where)
    return list(graph.output)
