"""The input and output blobs of a net."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...session import ImportOptions
from ...support.diagnostics import CompileError
from .graph import Graph, NetLayer, Ref
from .phases import DATA


@dataclass(frozen=True)
class Port:
    """An input or output by its blob."""

    name: str
    ref: Ref
    where: str
    shape: tuple[int, ...] | None = None
    """The shape of an input, if the net declares it."""


@dataclass(frozen=True)
class Interface:
    """Inputs and outputs of a net, in order."""

    inputs: list[Port]
    outputs: list[Port]
    live: set[int]
    """The indices of the layers that compute the outputs from the inputs."""


def interface_of(graph: Graph, options: ImportOptions) -> Interface:
    """Inputs and outputs of the options, otherwise those of the net. Raises CompileError for names that it does not have. Without
    options, the inputs of a net are what its Input layers declare, unless only losses read it (labels), and what its other data
    layers bring and outputs need; its outputs are all blobs that no layer reads, losses aside.
    """
    outputs = [_named_output(graph, n) for n in options.outputs] or _free(graph)
    if options.inputs:
        inputs = [_named_input(graph, n) for n in options.inputs]
        live = graph.live([o.ref for o in outputs], {i.ref for i in inputs})
    else:
        brought = list(_brought(graph))
        live = graph.live([o.ref for o in outputs], {i.ref for i in brought})
        needed = {ref for index in live for ref in graph.layers[index].reads} | {o.ref for o in outputs}
        inputs = [port for port in brought if port.ref in needed or _is_declared(graph, port)]
    _check_unique(inputs, "input", graph.where)
    _check_unique(outputs, "output", graph.where)
    return Interface(inputs, outputs, live)


def brings_data(layer: NetLayer) -> bool:
    """Whether a layer brings data into the net, and reads none."""
    return layer.proto.type in DATA and not layer.reads


def _brought(graph: Graph) -> Iterator[Port]:
    for index, layer in enumerate(graph.layers):
        if brings_data(layer):
            yield from (_port(graph, name, (index, i)) for i, name in enumerate(layer.proto.top))


def _port(graph: Graph, name: str, ref: Ref) -> Port:
    """A blob as an input, with the shape that an Input layer declares: one for all its tops, or one for each."""
    layer, top = graph.layers[ref[0]], ref[1]
    shapes = [tuple(s.dim) for s in layer.proto.input_param.shape] if layer.proto.type == "Input" else []
    if len(shapes) not in (0, 1, len(layer.proto.top)):
        message = f"has {len(shapes)} shapes for {len(layer.proto.top)} blobs"
        raise CompileError(message, where=layer.layer.where)
    return Port(name, ref, layer.layer.where, shapes[top % len(shapes)] if shapes else None)


def _is_declared(graph: Graph, port: Port) -> bool:
    """Whether a port is an input even if no output needs it: it is of an Input layer, and not only for a loss."""
    if graph.layers[port.ref[0]].proto.type != "Input":
        return False
    return port.ref not in graph.judged or any(port.ref in layer.reads for layer in graph.layers)


def _named_input(graph: Graph, name: str) -> Port:
    """The first value of a blob: layers that overwrite it work on the input."""
    if name not in graph.first:
        raise _unknown(graph, f"no blob is called '{name}', which is to be an input")
    return _port(graph, name, graph.first[name])


def _named_output(graph: Graph, name: str) -> Port:
    """The last value of a blob, otherwise the first top of a layer."""
    if name in graph.last:
        return Port(name, graph.last[name], graph.where)
    for index, each in enumerate(graph.layers):
        if each.layer.name == name and len(each.proto.top):
            return Port(name, (index, 0), graph.where)
    raise _unknown(graph, f"no blob or layer is called '{name}', which is to be an output")


def _unknown(graph: Graph, message: str) -> CompileError:
    names = [*graph.last]
    hint = f"blobs are {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}"
    return CompileError(message, where=graph.where, hint=hint)


def _free(graph: Graph) -> list[Port]:
    """The blobs that no layer reads, in the order of their writers."""
    read = {ref for layer in graph.layers for ref in layer.reads}
    made = ((ref, name) for name, ref in graph.last.items() if not brings_data(graph.layers[ref[0]]))
    free = [Port(name, ref, graph.where) for ref, name in sorted(made) if ref not in read]
    if not free:
        raise CompileError("has no outputs: every blob is read by some layer", where=graph.where)
    return free


def _check_unique(ports: Sequence[Port], what: str, where: str) -> None:
    counts = Counter(port.name for port in ports)
    if twice := next((name for name, count in counts.items() if count > 1), None):
        raise CompileError(f"{what} '{twice}' is named twice", where=where)
