"""The layers of one operation, and the table of converters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NoReturn, cast

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from ...dialects import nn
from ...dialects.nn.shapes import element_of
from ...formats.caffe.file import NetLayer
from ...runtime.kernels.quantization import dequantize
from ..converters import Converters, Expand, Register
from ..graph import source
from ..layer import Layer
from .net import Array, Net, layer_proto

Bottom = SSAValue | str
"""A value of the module, or the name of a written blob."""

Written = str | Sequence[str] | None
"""The result of a converter: the blob of the result, one for each result, or None if the consumer's layer contains it."""


class CaffeLayer(Layer[Net]):
    """The layers of one operation. Blobs have provisional names until `finish`."""

    FORMAT: ClassVar[str] = "Caffe"

    def __init__(self, net: Net, op: Operation):
        super().__init__(net, op, net.label(op))
        self.net = net
        self._layers: list[NetLayer] = []
        self._tops: list[str] = []

    def layer(self, kind: str, *bottoms: Bottom, blobs: Sequence[Array] = (), **params: dict[str, object]) -> str:
        """A layer with the operation's name; returns its one top."""
        return self._add(self.label, kind, bottoms, blobs, 1, params)[0]

    def helper(self, kind: str, *bottoms: Bottom, blobs: Sequence[Array] = (), **params: dict[str, object]) -> str:
        """Adds another layer besides the one with the operation's name."""
        return self._add(f"{self.label}/{kind.lower()}", kind, bottoms, blobs, 1, params)[0]

    def several(self, kind: str, bottom: Bottom, tops: int, **params: dict[str, object]) -> list[str]:
        """A layer of the operation's name with several tops."""
        return self._add(self.label, kind, [bottom], (), tops, params)

    def named(
        self, name: str, kind: str, bottom: Bottom, blobs: Sequence[Array] = (), **params: dict[str, object]
    ) -> str:
        """A layer with a name of its own."""
        return self._add(name, kind, [bottom], blobs, 1, params)[0]

    def carried(
        self, kind: str, bottoms: Sequence[SSAValue], blobs: Sequence[Array], tops: int, text: str
    ) -> list[str]:
        """A layer whose parameters are given as text."""
        made = self._add(self.label, kind, bottoms, blobs, tops, {})
        last = self._layers.pop()
        self._layers.append(NetLayer(last.proto, last.blobs, text))
        return made

    def cut(self, blob: Bottom, axis: int, begin: int, end: int, size: int) -> str:
        """The part of a blob from `begin` to `end` along an axis of that size; the rest goes to Silence.

        Raises CompileError where nothing is left.
        """
        if begin >= end:
            self.fail("keeps no elements of an axis, Caffe's Slice keeps one at least")
        points = [p for p in (begin, end) if 0 < p < size]
        if not points:
            return self._name(blob)
        bounds = [0, *points, size]
        tops = self._add(f"{self.label}/slice", "Slice", [blob], (), len(bounds) - 1, _slice(axis, points))
        kept = tops[bounds.index(begin)]
        rest = [t for t in tops if t != kept]
        self._add(f"{self.label}/silence", "Silence", rest, (), 0, {})
        return kept

    def silence(self, blobs: Sequence[str]) -> None:
        """Adds a Silence layer, so that Caffe does not regard these as outputs."""
        if blobs:
            self._add(f"{self.label}/silence", "Silence", blobs, (), 0, {})

    def _add(
        self,
        name: str,
        kind: str,
        bottoms: Sequence[Bottom],
        blobs: Sequence[Array],
        tops: int,
        params: dict[str, dict[str, object]],
    ) -> list[str]:
        made = [f"\0{len(self._tops) + i}" for i in range(tops)]
        self._tops += made
        names = [self._name(b) for b in bottoms]
        self._layers.append(NetLayer(layer_proto(self.net.names.unique(name), kind, names, made, **params), blobs))
        return made

    def value(self, operand: SSAValue) -> str | None:
        return self.net.blob(operand)

    def _name(self, bottom: Bottom) -> str:
        if isinstance(bottom, str):
            return bottom
        if (blob := self.value(bottom)) is None:
            self.fail("reads a constant where Caffe's layer reads a blob", "--fold-constants computes what can be")
        return blob

    def array(self, value: SSAValue | None, what: str) -> Array:
        """The numbers of an operand for a blob, a quantized weight as reals. Raises CompileError if it is not constant."""
        if value is None or (array := constant_array(source(value))) is None:
            self.fail(f"computes its {what} at run time, Caffe's layer keeps it as a blob")
        return array

    def fail(self, message: str, hint: str = "") -> NoReturn:
        raise self.error(message, hint)

    def finish(self, results: Sequence[str]) -> None:
        """Names the results, then every blob between, and adds the layers to the net."""
        net, final = self.net, dict[str, str]()
        for value, made in zip(self.op.results, results, strict=True):
            if made.startswith("\0") and made not in final:
                final[made] = net.declared(value) or net.blobs.unique(self.label)
            net.bind(value, final.get(made, made))
        for layer in self._layers:
            proto = layer.proto
            for top in proto.top:
                if top not in final:
                    own = proto.name if proto.name != self.label else f"{self.label}/{proto.type.lower()}"
                    final[top] = net.blobs.unique(own)
            bottoms, tops = [final.get(b, b) for b in proto.bottom], [final[t] for t in proto.top]
            proto.bottom[:], proto.top[:] = bottoms, tops
            net.layers.append(layer)


def _slice(axis: int, points: Sequence[int]) -> dict[str, dict[str, object]]:
    return {"slice_param": {"axis": axis, "slice_point": list(points)}}


def constant_array(value: SSAValue) -> Array | None:
    """The numbers of a constant, possibly dequantized; otherwise None."""
    if isinstance(op := value.owner, nn.DequantizeOp):
        integers = constant_array(source(op.input))
        return None if integers is None else cast(Array, dequantize(op)(integers))
    return nn.array_of(value)


CONVERTERS: Converters[CaffeLayer, Written] = {}
"""The converters by operation; filled by the modules of the families."""

converter: Register[CaffeLayer, Written] = Register(CONVERTERS)


def write_operation(op: Operation, net: Net) -> None:
    """Writes the layers of one operation. Raises CompileError, located, if Caffe cannot express it."""
    layer = CaffeLayer(net, op)
    if not isinstance(op, nn.QuantizeOp | nn.CompareOp) and any(element_of(r) != f32 for r in op.results):
        raise layer.error(f"is of {element_of(op.results[0])}, Caffe computes in float32")
    layer.write(written)


def written(op: Operation, layer: CaffeLayer) -> Written:
    """An operation in layers: by its converter if that applies, otherwise by its expansion."""
    try:
        if (convert := CONVERTERS.get(type(op))) is not None:
            return convert(op, layer)
    except Expand:
        pass
    return layer.expanded(op, written)
