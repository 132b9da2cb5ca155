"""Builds the module: the layers that outputs depend on are converted, removed or carried, in order."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr, TensorType, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from ...dialects import nn
from ...dialects.nn.shapes import DYNAMIC, shape_of, size
from ...formats.caffe.schema import NetParameter
from ...formats.prototxt import unknown
from ...ir.dtypes import Tensor
from ...ir.functions import value_attributes
from ...pipelines.options import shapes_of
from ...session import Session
from ...support.diagnostics import CompileError
from ..building import Binding, Unmapped
from ..import_report import ImportReport
from ..naming import Namer
from ..options import take_only
from .graph import NetLayer, Ref, graph_of
from .interface import Port, brings_data, interface_of
from .node import Conversion, Node, Shared
from .opaque import carry
from .ops import CONVERTERS, converter_on_integers
from .source import Source, load


def read(path: Path, session: Session) -> ModuleOp:
    """The net in a prototxt as a module in `nn`, with the weights that `session.imports.weights` names.

    The phase is TEST; layers of training are left out, each with a remark. Raises CompileError, located at the line,
    for a file that is not such a net and for anything that cannot be represented.
    """
    if path.suffix.lower() == ".caffemodel":
        raise CompileError(
            "holds weights; the net that it holds is that of training",
            where=str(path),
            hint=f"name the prototxt, and this file as --weights {path.name}",
        )
    take_only(session.imports, ("inputs", "outputs", "shapes", "weights"), str(path))
    importer = _Importer(load(path, session.imports.weights), session)
    module = ModuleOp([importer.function()])
    entries = {"framework": "caffe", "source": path.name, "name": importer.source.name}
    module.attributes["nn.metadata"] = DictionaryAttr({key: StringAttr(text) for key, text in entries.items() if text})
    importer.report.finish()
    return module


_MOST_ELEMENTS = (1 << 31) - 1
"""The largest blob of Caffe."""


class _Importer:
    def __init__(self, source: Source, session: Session):
        self.source = source
        self.where = str(source.path)
        self.graph = graph_of(source)
        self.interface = interface_of(self.graph, session.imports)
        self.shapes = self._shapes(session.imports.shapes)
        file = "" if source.weights_path is None else str(source.weights_path)
        self.shared = Shared(source.weights, file, _deployed(source))
        self.report = ImportReport(session, self.where)
        self.values: dict[Ref, Binding] = {}

    def function(self) -> FuncOp:
        """The net between its inputs and its outputs as `@main`."""
        self._tell()
        inputs, outputs = self.interface.inputs, self.interface.outputs
        block = Block(arg_types=[self._type(port) for port in inputs])
        for port, argument in zip(inputs, block.args, strict=True):
            argument.name_hint = nn.name_hint(port.name)
            self.values[port.ref] = argument
        for index in sorted(self.interface.live):
            self._layer(index, self.graph.layers[index])
        results = [self.shared.sink.value(self.values[o.ref]) for o in outputs]
        described = [value_attributes(p.name) for p in inputs], [value_attributes(p.name) for p in outputs]
        return self.shared.sink.function(block, results, described, Namer(self.where, ()).file)

    def _type(self, port: Port) -> Tensor:
        shape = self.shapes.get(port.name, port.shape)
        hint = f"--input-shape '{port.name}:1,3,224,224' gives one"
        if shape is None:
            raise CompileError(f"the shape of input '{port.name}' is not known", where=port.where, hint=hint)
        if (port.name not in self.shapes and min((1, *shape)) < 1) or prod(shape) > _MOST_ELEMENTS:
            raise CompileError(f"input '{port.name}' is of shape {list(shape)}", where=port.where, hint=hint)
        return TensorType(f32, [d if d >= 0 else DYNAMIC for d in shape])

    def _shapes(self, given: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """The shapes that the user gives: of inputs, and of results of carried layers."""
        made = {top for i in self.interface.live for top in self.graph.layers[i].proto.top}
        carried = {name: shape for name, shape in given.items() if name in made}
        rest = {name: shape for name, shape in given.items() if name not in made}
        return {**carried, **shapes_of([port.name for port in self.interface.inputs], rest, self.where)}

    def _tell(self) -> None:
        """Reports the parts of the files that have no place in the module."""
        for name, reason in self.graph.left_out:
            self.report.removed()
            self.report.note("training-only", name, f"left out: {reason}")
        names = {each.proto.name for each in self.source.layers}
        for name in self.source.weights:
            if name not in names:
                self.report.note(
                    "unused-weights", name, "the prototxt has no layer of this name: its weights are unused"
                )
        for name in self.source.unknown:
            self.report.note("unknown-field", name, f"the net's field '{name}' is not known, and is ignored")
        used = self.interface.live | {port.ref[0] for port in self.interface.inputs}
        self.report.unused(len(self.graph.layers) - len(used))

    def _layer(self, index: int, layer: NetLayer) -> None:
        proto = layer.proto
        node = Node(proto, layer.layer, [self.values[ref] for ref in layer.reads], self.shared)
        if brings_data(layer):
            raise node.error("brings data that an output depends on, and is not among the inputs")
        if (conversion := CONVERTERS.get(proto.type)) is None:
            results = self._carry(node, layer, f"nn has no equivalent of {proto.type}")
        else:
            _check_arity(node, conversion)
            results = self._convert(node, layer, conversion)
        for i, result in enumerate(results):
            if isinstance(result, SSAValue) and size(shape_of(result)) > _MOST_ELEMENTS:
                raise node.error(f"makes a blob of shape {list(shape_of(result))}, which is larger than Caffe's can be")
            self.values[index, i] = result

    def _convert(self, node: Node, layer: NetLayer, conversion: Conversion) -> list[Binding]:
        for path, entry in unknown((layer.text,), NetParameter.DESCRIPTOR):
            self.report.note("unknown-field", node.layer.name, f"field '{path}' in line {entry.line} is ignored")
        try:
            convert = converter_on_integers(node) or conversion.convert
            results, emitted = self.shared.sink.attempt(lambda: convert(node))
            self._check_ungiven(node)
        except VerifyException as e:
            raise node.misfit(e) from None
        except Unmapped as e:
            return self._carry(node, layer, str(e))
        self.report.converted(node.inputs, results, emitted)
        return results

    def _check_ungiven(self, node: Node) -> None:
        """Raises CompileError if the user gives a shape for a result whose shape is known."""
        inputs = {port.name for port in self.interface.inputs}
        if given := next((top for top in node.proto.top if top in self.shapes and top not in inputs), None):
            message = f"makes '{given}', whose shape follows: --input-shape is for inputs and for what is carried"
            raise node.error(message, hint=f"--inputs={given} makes it an input")

    def _carry(self, node: Node, layer: NetLayer, reason: str) -> list[Binding]:
        op = carry(node, layer.text, self.shapes)
        self.report.carried(op, f"{reason}; it cannot be run")
        return list(op.outputs)


def _check_arity(node: Node, conversion: Conversion) -> None:
    for what, count, (low, high) in (
        ("bottoms", len(node.inputs), conversion.bottoms),
        ("tops", node.tops, conversion.tops),
    ):
        if not low <= count <= high:
            wanted = f"{low}" if low == high else f"{low} or more" if high > low + 1 else f"{low} or {high}"
            raise node.error(f"has {count} {what}, but it takes {wanted}")


def _deployed(source: Source) -> bool:
    contains_integers = any(b.numbers.dtype.kind in "iu" for blobs in source.weights.values() for b in blobs)
    return contains_integers or any(layer.proto.type == "AntiQuant" for layer in source.layers)
