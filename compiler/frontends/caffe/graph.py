"""The net of inference as a graph: the kept layers, and the blobs that each reads.

Blobs may be overwritten, so layers run in the order of the file, and a name means the value last written under it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, NameLoc, StringAttr

from ...formats.caffe.schema import Message
from ...formats.prototxt import Entry
from ...support.diagnostics import CompileError
from ..naming import NamedLayer, Namer
from ..ordering import CycleError, in_order
from .phases import included, is_measure
from .source import Source, SourceLayer

Ref = tuple[int, int]
"""A value: the index of the layer that computes it, and the index of the top."""


@dataclass(frozen=True)
class NetLayer:
    """A layer of the net of inference."""

    proto: Message
    text: Entry
    layer: NamedLayer
    reads: tuple[Ref, ...] = ()


@dataclass
class Graph:
    """The layers of a net in the order in which they run, and the writers of blobs."""

    where: str
    layers: list[NetLayer] = field(default_factory=list[NetLayer])
    first: dict[str, Ref] = field(default_factory=dict[str, Ref])
    """The first value of a blob's name."""
    last: dict[str, Ref] = field(default_factory=dict[str, Ref])
    """The last value of that name."""
    judged: set[Ref] = field(default_factory=set[Ref])
    """The blobs that losses and similar layers read."""
    left_out: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Excluded layers, with reasons."""

    def live(self, outputs: Iterable[Ref], inputs: Collection[Ref]) -> set[int]:
        """The indices of the layers that compute the outputs from the inputs."""
        live: set[int] = set()
        pending = list(outputs)
        while pending:
            ref = pending.pop()
            if ref not in inputs and ref[0] not in live:
                live.add(ref[0])
                pending.extend(self.layers[ref[0]].reads)
        return live


def graph_of(source: Source) -> Graph:
    """The graph of a net. Raises CompileError, located at the line, for blobs that no layer computes, or that two do."""
    graph = Graph(str(source.path))
    kept = list(_kept(source, graph))
    measured: dict[str, str] = {}
    for at, each in enumerate(kept):
        proto = each.proto
        if is_measure(proto.type):
            graph.left_out.append((each.layer.name, f"{proto.type} is for training and tests only"))
            graph.judged.update(graph.last[name] for name in proto.bottom if name in graph.last)
            measured.update(dict.fromkeys(proto.top, each.layer.name))
            continue
        for name in proto.bottom:
            if name in measured:
                message = f"reads blob '{name}' of layer '{measured[name]}', which is of training only"
                raise CompileError(message, where=each.layer.where)
            if name not in graph.last:
                raise _undefined(kept, at, name)
        reads = tuple(graph.last[name] for name in proto.bottom)
        graph.layers.append(NetLayer(proto, each.text, each.layer, reads))
        _define(graph, graph.layers[-1])
    return graph


def _kept(source: Source, graph: Graph) -> Iterator[NetLayer]:
    """The layers of the phase TEST, including losses and the like, with their names and places."""
    kept: list[SourceLayer] = []
    for each in source.layers:
        place = f"{graph.where}:{each.text.line}:{each.text.column}: node '{each.proto.name}'"
        if included(each.proto, source.state, place):
            kept.append(each)
        else:
            graph.left_out.append((each.proto.name, "its rules exclude it from the phase TEST"))
    namer = Namer(graph.where, (each.proto.name for each in kept))
    for i, each in enumerate(kept):
        name = namer.layer(each.proto.name, each.proto.type, i).name
        place = FileLineColLoc(StringAttr(graph.where), IntAttr(each.text.line), IntAttr(each.text.column))
        yield NetLayer(each.proto, each.text, NamedLayer(name, NameLoc(StringAttr(name), place)))


def _define(graph: Graph, made: NetLayer) -> None:
    """Writes the tops of the last layer under their names; only a layer that works in place may overwrite another blob."""
    for i, top in enumerate(made.proto.top):
        if top in graph.last and top not in made.proto.bottom:
            maker = graph.layers[graph.last[top][0]].layer.name
            message = f"writes blob '{top}', which layer '{maker}' makes and this one does not read"
            raise CompileError(message, where=made.layer.where)
        ref = len(graph.layers) - 1, i
        graph.first.setdefault(top, ref)
        graph.last[top] = ref


def _undefined(kept: Sequence[NetLayer], at: int, name: str) -> CompileError:
    """The error that layer `at` cannot read a blob: it is never computed, or only later, or depends on the layer itself."""
    where = kept[at].layer.where
    later = [each.layer.name for each in kept[at:] if name in each.proto.top]
    if not later:
        hint = "layers that make it may be excluded from the phase TEST"
        return CompileError(f"reads blob '{name}', which no layer makes", where=where, hint=hint)
    try:
        in_order([*_needs(kept)])
    except CycleError as e:
        return CompileError(e.text([each.layer.name for each in kept]), where=kept[e.cycle[-1]].layer.where)
    hint = "Caffe runs layers in the order of the file"
    return CompileError(f"reads blob '{name}' before layer '{later[0]}' makes it", where=where, hint=hint)


def _needs(kept: Sequence[NetLayer]) -> Iterator[set[int]]:
    """Yields for each layer the writers of the blobs that it reads: the last one before it, otherwise the first one from it
    on.
    """
    for at, each in enumerate(kept):
        needed: set[int] = set()
        for name in each.proto.bottom:
            makers = [i for i, other in enumerate(kept) if name in other.proto.top]
            needed.update([i for i in makers if i < at][-1:] or makers[:1])
        yield needed
