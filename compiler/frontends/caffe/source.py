"""Reads files into a checked net: the layers of the prototxt with their places, and the weights by layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from ...formats.caffe.file import Blob, blob_of, read_weights
from ...formats.caffe.schema import LayerParameter, Message, NetParameter, upgraded
from ...formats.prototxt import Entry, entries, unknown
from ...support.diagnostics import CompileError, first_line
from ...support.files import read_text


@dataclass(frozen=True)
class SourceLayer:
    """A layer of a prototxt, in the format of `layer`."""

    proto: Message
    text: Entry


@dataclass(frozen=True)
class Source:
    """A net as in its files, with the weights of its layers."""

    path: Path
    name: str
    state: Message
    """The state that `include` and `exclude` rules are compared with."""
    layers: list[SourceLayer]
    """The layers in the order in which they run; inputs outside any layer have become layers, the first ones."""
    weights: Mapping[str, list[Blob]]
    """Weights by layer name."""
    weights_path: Path | None
    unknown: list[str]
    """Fields of the net itself that the schema does not have."""


def load(path: Path, weights: Path | None) -> Source:
    """The net in a prototxt, with the weights of a `.caffemodel`, or its own if the text contains some.

    Raises CompileError, located at the line, for other content.
    """
    where, text = str(path), read_text(path)
    net = NetParameter()
    try:
        text_format.Merge(text, net, allow_unknown_field=True)
        tree = entries(text)
    except text_format.ParseError as e:
        raise _parse_error(e, text, where) from None
    except (RecursionError, DecodeError):
        raise CompileError("is nested too deeply", where=where) from None
    layers = [*_inputs(net, tree, where), *_layers(net, tree, where)]
    own = {
        layer.proto.name: [
            blob_of(b, None, f"{where}:{layer.text.line}: blob {i} of '{layer.proto.name}'")
            for i, b in enumerate(layer.proto.blobs)
        ]
        for layer in layers
        if len(layer.proto.blobs)
    }
    model: Mapping[str, list[Blob]] = {} if weights is None else read_weights(weights)
    strange = [name for name, _ in unknown(tree, NetParameter.DESCRIPTOR) if "." not in name]
    return Source(path, net.name, net.state, layers, {**own, **model}, weights, strange)


def _parse_error(error: text_format.ParseError, text: str, where: str) -> CompileError:
    line, column = error.GetLine(), error.GetColumn()
    if not line or not column:
        return CompileError(f"is not a Caffe prototxt: {first_line(str(error))}", where=where)
    reason = str(error).partition(" : ")[2].removeprefix(f"'{text.split(chr(10))[line - 1]}': ")
    hint = "a .caffemodel goes to --weights" if "\0" in text else ""
    return CompileError(
        f"is not a Caffe prototxt: {first_line(reason).rstrip('.')}", where=f"{where}:{line}:{column}", hint=hint
    )


def _layers(net: Message, tree: tuple[Entry, ...], where: str) -> list[SourceLayer]:
    if len(net.layer) and len(net.layers):
        raise CompileError("has both `layer` and `layers`, which are of different formats", where=where)
    if not len(net.layer) and not len(net.layers):
        raise CompileError("holds no layers", where=where, hint="is this the prototxt of a solver?")
    kind = "layer" if len(net.layer) else "layers"
    found = zip(getattr(net, kind), [e for e in tree if e.name == kind], strict=True)
    for proto, entry in found if kind == "layers" else ():
        if proto.HasField("layer"):
            raise CompileError(
                "is in Caffe's oldest format",
                where=f"{where}:{entry.line}:{entry.column}",
                hint="Caffe's upgrade_net_proto_text brings it up to date",
            )
    found = zip(getattr(net, kind), [e for e in tree if e.name == kind], strict=True)
    layers = [SourceLayer(proto if kind == "layer" else upgraded(proto), entry) for proto, entry in found]
    for layer in layers:
        if not layer.proto.type or layer.proto.type == "None":
            raise CompileError(f"layer '{layer.proto.name}' has no type", where=f"{where}:{layer.text.line}")
    return layers


_LEGACY_RANK = 4
"""`input_dim` has this many numbers for each input."""


def _inputs(net: Message, tree: tuple[Entry, ...], where: str) -> list[SourceLayer]:
    """Inputs that the net itself declares, as Input layers, with the shape in `input_shape` or `input_dim`, if any."""
    texts = [e for e in tree if e.name == "input"]
    shapes = [list(s.dim) for s in net.input_shape]
    if not shapes:
        dims = list(net.input_dim)
        shapes = [dims[i : i + _LEGACY_RANK] for i in range(0, len(dims), _LEGACY_RANK)]
        if len(dims) % _LEGACY_RANK:
            raise CompileError(f"has {len(dims)} numbers in input_dim, an input takes {_LEGACY_RANK}", where=where)
    if shapes and len(shapes) != len(texts):
        raise CompileError(f"has {len(texts)} inputs and {len(shapes)} shapes for them", where=where)
    layers: list[SourceLayer] = []
    for i, (name, entry) in enumerate(zip(net.input, texts, strict=True)):
        proto = LayerParameter(name=name, type="Input", top=[name])
        if shapes:
            proto.input_param.shape.add(dim=shapes[i])
        layers.append(SourceLayer(proto, entry))
    return layers
