"""Names in ONNX graphs, and in the graphs inside their nodes (If, Loop, Scan)."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence

from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

STANDARD = ""
"""The domain of ONNX's own operators."""


def domain_of(name: str) -> str:
    """The canonical name of a domain: the standard one is also written `ai.onnx`."""
    return STANDARD if name == "ai.onnx" else name


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs in a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def all_nodes(nodes: Sequence[NodeProto]) -> Iterator[NodeProto]:
    """The nodes, and those of the graphs inside them."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from all_nodes(graph.node)


def all_tensors(nodes: Sequence[NodeProto]) -> Iterator[TensorProto]:
    """The tensors in attributes of nodes, and those and the initializers of the graphs inside them."""
    for node in all_nodes(nodes):
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors) if attribute.HasField("t") else attribute.tensors
        for graph in subgraphs(node):
            yield from graph.initializer


def definitions(graph: GraphProto) -> Iterator[str]:
    """The names that a graph itself defines: inputs, initializers, results of nodes."""
    yield from (i.name for i in graph.input)
    yield from (t.name for t in graph.initializer)
    yield from (name for node in graph.node for name in node.output if name)


def free_names(node: NodeProto) -> Iterator[str]:
    """The names that a node reads from the enclosing graph, including those that its own graphs capture."""
    yield from filter(None, node.input)
    for graph in subgraphs(node):
        own = set(definitions(graph))
        captured = [name for inner in graph.node for name in free_names(inner)]
        yield from (name for name in (*captured, *(o.name for o in graph.output)) if name not in own)


def renamed(
    nodes: Sequence[NodeProto], scope: MutableMapping[str, str], fresh: Callable[[str], str]
) -> list[NodeProto]:
    """Copies of nodes with fresh names for everything that graphs inside them define; `scope` maps other names.

    Declarations of values in the graphs are left out, except inputs and outputs.
    """
    copies: list[NodeProto] = []
    for node in nodes:
        copy = NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [scope.get(name, name) for name in node.input]
        copy.output[:] = [scope.get(name, name) for name in node.output]
        for graph in subgraphs(copy):
            _rename_graph(graph, scope, fresh)
        copies.append(copy)
    return copies


def _rename_graph(graph: GraphProto, scope: MutableMapping[str, str], fresh: Callable[[str], str]) -> None:
    given = [*graph.input, *graph.initializer]
    inside = ChainMap({name: fresh(name) for name in dict.fromkeys(definitions(graph))}, scope)
    nodes = renamed(graph.node, inside, fresh)
    for value in (*given, *graph.output):
        value.name = inside.get(value.name, value.name)
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.value_info[:]


def replace_names(node: NodeProto, names: Mapping[str, str]) -> None:
    """Renames values in a node and its graphs, in place; no graph may define one of these names itself."""
    node.input[:] = [names.get(n, n) for n in node.input]
    node.output[:] = [names.get(n, n) for n in node.output]
    for graph in subgraphs(node):
        for output in graph.output:
            output.name = names.get(output.name, output.name)
        for inner in graph.node:
            replace_names(inner, names)


def take_weights(nodes: Sequence[NodeProto], larger_than: int) -> Iterator[TensorProto]:
    """Takes larger tensors out of the graphs inside nodes, under their names, so that they are captured."""
    for node in nodes:
        for graph in subgraphs(node):
            outputs = {o.name for o in graph.output}
            yield from _taken_weights(graph, outputs, larger_than)
            yield from take_weights(graph.node, larger_than)


def _taken_weights(graph: GraphProto, outputs: set[str], larger_than: int) -> Iterator[TensorProto]:
    for i in reversed(range(len(graph.initializer))):
        tensor = graph.initializer[i]
        if tensor.name not in outputs and _size(tensor) > larger_than:
            yield tensor
            del graph.initializer[i]
    for i in reversed(range(len(graph.node))):
        node = graph.node[i]
        if node.op_type != "Constant" or domain_of(node.domain) != STANDARD or node.output[0] in outputs:
            continue
        tensor = next((a.t for a in node.attribute if a.name == "value"), None)
        if tensor is not None and _size(tensor) > larger_than:
            named = TensorProto()
            named.CopyFrom(tensor)
            named.name = node.output[0]
            yield named
            del graph.node[i]


def _size(tensor: TensorProto) -> int:
    count = 1
    for d in tensor.dims:
        count *= d
    return count
