"""The net of inference as a graph: which layers are kept, what each reads, what are inputs and outputs.

Blobs may be overwritten, so layers run in the order of the file, and a name stands for what was last written under it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, NameLoc, StringAttr

from ...diagnostics import CompileError
from ...session import ImportOptions
from ..naming import Layer, Namer
from ..ordering import CycleError, in_order
from .phases import DATA, included, is_measure
from .prototxt import Entry
from .schema import Message
from .source import Source, SourceLayer

Ref = tuple[int, int]
"""A value: the index of the layer that makes it, and which of its tops it is. Inputs are tops of layers, too."""


@dataclass(frozen=True)
class NetLayer:
    """A layer of the net of inference."""

    proto: Message
    text: Entry
    layer: Layer
    reads: tuple[Ref, ...]


@dataclass(frozen=True)
class Port:
    """An input or output by its blob."""

    name: str
    ref: Ref
    shape: tuple[int, ...] | None = None
    """Of an input, where it is known; -1 for a size of run time."""
    where: str = ""


@dataclass
class Net:
    layers: list[NetLayer] = field(default_factory=list[NetLayer])
    inputs: list[Port] = field(default_factory=list[Port])
    outputs: list[Port] = field(default_factory=list[Port])
    live: set[int] = field(default_factory=set[int])
    """The layers, by index, that outputs depend on, inputs aside."""
    left_out: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Layers that are not part of it, and why."""


def net_of(source: Source, options: ImportOptions) -> Net:
    """The graph of a net. Raises CompileError, located at the line, for blobs that nothing makes, or that two layers make."""
    return _Builder(source, options).net


class _Builder:
    def __init__(self, source: Source, options: ImportOptions):
        self.where = str(source.path)
        self.options = options
        self.net = Net()
        self.blobs: dict[str, Ref] = {}
        self.candidates: dict[Ref, Port] = {}
        self.read_by_training: set[Ref] = set()
        self.made_by_training: dict[str, str] = {}
        kept = list(self._kept(source))
        self._link(kept)
        self.net.outputs = [*self._outputs()]
        self.net.live = self._live()
        self.net.inputs = self._inputs()

    # Layers

    def _kept(self, source: Source) -> Iterator[tuple[SourceLayer, Layer]]:
        """The layers of the phase, those that measure included: what these read is no output."""
        namer = Namer(self.where, (each.proto.name for each in source.layers if self._included(each, source)))
        for i, each in enumerate(source.layers):
            if not self._included(each, source):
                self.net.left_out.append((each.proto.name, "its rules exclude it from the phase TEST"))
                continue
            named = namer.layer(each.proto.name, each.proto.type, i)
            line, column = IntAttr(each.text.line), IntAttr(each.text.column)
            place = FileLineColLoc(StringAttr(self.where), line, column)
            yield each, Layer(named.name, NameLoc(StringAttr(named.name), place))

    def _included(self, each: SourceLayer, source: Source) -> bool:
        place = f"{self.where}:{each.text.line}:{each.text.column}: node '{each.proto.name}'"
        return included(each.proto, source.state, place)

    def _link(self, kept: Sequence[tuple[SourceLayer, Layer]]) -> None:
        for at, (each, layer) in enumerate(kept):
            proto = each.proto
            if is_measure(proto.type):
                self.net.left_out.append((layer.name, f"{proto.type} is for training and tests only"))
                self.read_by_training.update(self.blobs[b] for b in proto.bottom if b in self.blobs)
                self.made_by_training.update(dict.fromkeys(proto.top, layer.name))
                continue
            reads = tuple(self._read(name, kept, at) for name in proto.bottom)
            index = len(self.net.layers)
            self.net.layers.append(NetLayer(proto, each.text, layer, reads))
            self._define(index)

    def _define(self, index: int) -> None:
        made = self.net.layers[index]
        proto, chosen = made.proto, self.options.inputs
        for i, top in enumerate(proto.top):
            if top in self.blobs and top not in proto.bottom:
                maker = self.net.layers[self.blobs[top][0]].layer.name
                message = f"writes blob '{top}', which layer '{maker}' makes and this one does not read"
                raise CompileError(message, where=made.layer.where)
            shapes = [tuple(s.dim) for s in proto.input_param.shape] if proto.type == "Input" else []
            if (proto.type in DATA and not len(proto.bottom)) or (top in chosen and top not in self.blobs):
                if len(shapes) not in (0, 1, len(proto.top)):
                    message = f"has {len(shapes)} shapes for {len(proto.top)} blobs"
                    raise CompileError(message, where=made.layer.where)
                shape = None if not shapes else shapes[i % len(shapes)]
                self.candidates[index, i] = Port(top, (index, i), shape, made.layer.where)
            self.blobs[top] = index, i

    def _read(self, name: str, kept: Sequence[tuple[SourceLayer, Layer]], at: int) -> Ref:
        if name in self.blobs:
            return self.blobs[name]
        layer = kept[at][1]
        if name in self.made_by_training:
            message = f"reads blob '{name}' of layer '{self.made_by_training[name]}', which is of training only"
            raise CompileError(message, where=layer.where)
        later = [i for i, (each, _) in enumerate(kept) if i >= at and name in each.proto.top]
        if not later:
            hint = "layers that make it may be excluded from the phase TEST"
            raise CompileError(f"reads blob '{name}', which no layer makes", where=layer.where, hint=hint)
        try:
            in_order([*_needs(kept)])
        except CycleError as e:
            raise CompileError(e.text([named.name for _, named in kept]), where=kept[e.cycle[-1]][1].where) from None
        message = f"reads blob '{name}' before layer '{kept[later[0]][1].name}' makes it"
        raise CompileError(message, where=layer.where, hint="Caffe runs layers in the order of the file")

    # Inputs and outputs

    def _outputs(self) -> Iterator[Port]:
        """Those that the options name, else every blob that nothing reads, losses and the like aside."""
        if self.options.outputs:
            yield from map(self._named_output, self.options.outputs)
            return
        read = {ref for layer in self.net.layers for ref in layer.reads}
        free = [(ref, name) for name, ref in self.blobs.items() if ref not in read and ref not in self.candidates]
        if not free:
            raise CompileError("has no outputs: every blob is read by some layer", where=self.where)
        for ref, name in sorted(free):
            yield Port(name, ref)

    def _named_output(self, name: str) -> Port:
        """A blob as it is in the end, or else the first top of a layer."""
        if name in self.blobs:
            return Port(name, self.blobs[name])
        for i, each in enumerate(self.net.layers):
            if each.layer.name == name and len(each.proto.top):
                return Port(name, (i, 0))
        hint = f"blobs are {_some(self.blobs)}"
        raise CompileError(
            f"no blob or layer is called '{name}', which is to be an output", where=self.where, hint=hint
        )

    def _live(self) -> set[int]:
        live: set[int] = set()
        pending = [o.ref for o in self.net.outputs]
        while pending:
            ref = pending.pop()
            if self._is_input(ref) or ref[0] in live:
                continue
            live.add(ref[0])
            pending.extend(self.net.layers[ref[0]].reads)
        return live

    def _is_input(self, ref: Ref) -> bool:
        if ref not in self.candidates:
            return False
        return not self.options.inputs or self.candidates[ref].name in self.options.inputs

    def _inputs(self) -> list[Port]:
        """Those that the options name, else the declared ones and those that the net needs from data layers."""
        needed = set(self._needed())
        used = [p for p in self.candidates.values() if self._is_input(p.ref) and self._wanted(p, needed)]
        if not self.options.inputs:
            return used
        by_name = {p.name: p for p in self.candidates.values()}
        if unknown := [n for n in self.options.inputs if n not in by_name]:
            hint = f"blobs are {_some(self.blobs)}"
            message = f"no blob is called '{unknown[0]}', which is to be an input"
            raise CompileError(message, where=self.where, hint=hint)
        return [by_name[n] for n in self.options.inputs]

    def _needed(self) -> Iterator[Ref]:
        yield from (o.ref for o in self.net.outputs)
        for i in self.net.live:
            yield from self.net.layers[i].reads

    def _wanted(self, port: Port, needed: set[Ref]) -> bool:
        """Whether a candidate is an input: one that is needed, or declared and not only there for a loss (labels)."""
        if port.ref in needed or port.name in self.options.inputs:
            return True
        declared = self.net.layers[port.ref[0]].proto.type == "Input"
        read = any(port.ref in layer.reads for layer in self.net.layers)
        return declared and (read or port.ref not in self.read_by_training)


def _needs(kept: Sequence[tuple[SourceLayer, Layer]]) -> Iterator[set[int]]:
    """For each layer the makers of what it reads: the last one before it, else the first one from it on."""
    for at, (each, _) in enumerate(kept):
        needed: set[int] = set()
        for name in each.proto.bottom:
            makers = [i for i, (other, _) in enumerate(kept) if name in other.proto.top]
            before = [i for i in makers if i < at]
            needed.update(before[-1:] or makers[:1])
        yield needed


def _some(names: Mapping[str, Ref]) -> str:
    return ", ".join([*names][:8]) + (", ..." if len(names) > 8 else "")
