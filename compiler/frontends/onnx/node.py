"""The view of a node for converters, and the table of converters."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from onnx import AttributeProto, NodeProto
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute

from ...dialects import nn
from ...formats.onnx.attributes import Value, mlir_of, value_of
from ...formats.onnx.graphs import STANDARD
from ...formats.onnx.schema import schema_defaults
from ...formats.onnx.tensors import TensorReader
from ...formats.rows import Ints
from ...support.diagnostics import CompileError
from ...transforms.partial_shapes import Dimension
from ..building import Array, Binding, Constant as Constant, Converted, Sink, Size as Size, Unmapped as Unmapped
from ..node import SourceNode
from .graph import NodeLayer
from .module_paths import module_class, module_paths
from .symbols import Symbols

Converter = Callable[["Node"], Converted]
"""Maps a node to the values of its outputs, in order. Raises Unmapped if `nn` has no equivalent."""

CONVERTERS: dict[tuple[str, str], Converter] = {}
"""Converters by domain and operator type."""


def converter(*op_types: str, domains: Sequence[str] = (STANDARD,)) -> Callable[[Converter], Converter]:
    """Registers the function that converts nodes of these types."""

    def register(convert: Converter) -> Converter:
        CONVERTERS.update({(domain, op_type): convert for domain in domains for op_type in op_types})
        return convert

    return register


@dataclass(frozen=True)
class Shared:
    """The common data of all nodes of one import."""

    opsets: Mapping[str, int]
    tensors: TensorReader
    symbols: Symbols
    used: Container[str]
    """The names that a node reads, or that are outputs of the graph."""
    sink: Sink = field(default_factory=Sink)


class Node(SourceNode):
    """A node with its inputs bound: converters read attributes and inputs from it and emit operations through it."""

    def __init__(self, layer: NodeLayer, inputs: Sequence[Binding | None], shared: Shared):
        super().__init__(layer.proto.op_type, layer, inputs, shared.sink)
        self.proto: NodeProto = layer.proto
        self.domain: str = layer.domain
        self.version: int = shared.opsets[layer.domain]
        self.outputs: list[str] = list(layer.proto.output)
        self.attributes: dict[str, AttributeProto] = _by_name(layer.proto.attribute, layer.where)
        self.shared = shared

    # Attributes

    def int(self, name: str, default: int) -> int:
        return self._attribute(name, int, default)

    def flag(self, name: str, default: bool) -> bool:
        return bool(self.int(name, default))

    def float(self, name: str, default: float) -> float:
        return self._attribute(name, float, default)

    def required_int(self, name: str) -> int:
        if name not in self.attributes:
            raise self.error(f"has no attribute '{name}'")
        return self.int(name, 0)

    def text(self, name: str, default: str) -> str:
        return self._attribute(name, str, default)

    def ints(self, name: str) -> list[int] | None:
        """A list of integers; None if absent."""
        return self._list(name, AttributeProto.INTS)

    def required_ints(self, name: str) -> list[int]:
        if (values := self.ints(name)) is None:
            raise self.error(f"has no attribute '{name}'")
        return values

    def floats(self, name: str) -> list[float] | None:
        return self._list(name, AttributeProto.FLOATS)

    def tensor(self, name: str) -> Array | None:
        attribute = self.attributes.get(name)
        if attribute is None:
            return None
        if attribute.type != AttributeProto.TENSOR:
            raise self.error(f"attribute '{name}' must be a tensor")
        return self.shared.tensors.read(attribute.t, self.layer.where)

    def _attribute(self, name: str, kind: type[Any], default: Any) -> Any:
        attribute = self.attributes.get(name)
        if attribute is None:
            return default
        if not isinstance(value := value_of(attribute), kind):
            raise self.error(f"attribute '{name}' must be {_KIND_NAMES[kind]}")
        return value

    def _list(self, name: str, kind: int) -> Any:
        attribute = self.attributes.get(name)
        if attribute is None:
            return None
        if attribute.type != kind:
            raise self.error(f"attribute '{name}' must be a list of {_LIST_NAMES[kind]}")
        return value_of(attribute)

    # Inputs

    def ints_of(self, field: Ints, index: int) -> list[int] | None:
        """A list of integers, in an attribute or in input `index`, depending on the opset; None if absent."""
        if field.input_since is None or self.version < field.input_since:
            return self.required_ints(field.name) if field.required else self.ints(field.name)
        return self.known_ints(index) if field.required or self.has(index) else None

    def same(self, a: Dimension, b: Dimension) -> bool:
        return self.shared.symbols.same(a, b)

    # Results

    def uses_output(self, index: int) -> bool:
        """Whether anything reads output `index`."""
        return index < len(self.outputs) and self.outputs[index] in self.shared.used

    @cached_property
    def origin(self) -> nn.OriginAttr:
        kept = _provenance(self.attributes, schema_defaults(self.op_type, self.version, self.domain))
        if module := module_class(self.proto):
            kept[nn.OriginAttr.MODULE] = StringAttr(module)
        return nn.OriginAttr.of("onnx", self.op_type, self.layer.name, kept, module_paths(self.proto))

    @property
    def hint(self) -> str:
        if self.proto.name == self.layer.name:
            return self.layer.name
        return next(filter(None, self.outputs), self.layer.name)


_KIND_NAMES: Mapping[type[Any], str] = {int: "an integer", float: "a number", str: "a text"}
_LIST_NAMES: Mapping[int, str] = {AttributeProto.INTS: "integers", AttributeProto.FLOATS: "numbers"}


def _by_name(attributes: Iterable[AttributeProto], where: str) -> dict[str, AttributeProto]:
    """The attributes of a node by name. Raises CompileError for duplicates, and for references allowed only in functions."""
    named: dict[str, AttributeProto] = {}
    for attribute in attributes:
        if attribute.name in named:
            raise CompileError(f"attribute '{attribute.name}' is given twice", where=where)
        if attribute.ref_attr_name:
            raise CompileError(
                f"attribute '{attribute.name}' refers to a function's, outside any function", where=where
            )
        named[attribute.name] = attribute
    return named


_LEFT_OUT = frozenset({"kernel_shape", "strides", "pads", "epsilon", "momentum"})
"""Attributes that are properties of the operation, or that have no meaning at inference."""


def _provenance(attributes: Mapping[str, AttributeProto], defaults: Mapping[str, Value]) -> dict[str, Attribute]:
    """The source attributes that `origin` keeps, by name: everything that is not the default.

    Dilations of one are the default too. Geometry and epsilon are left to the operation, tensors to its operands.
    """
    kept: dict[str, Attribute] = {}
    for name in sorted(attributes):
        value, attribute = value_of(attributes[name]), mlir_of(attributes[name])
        if value is None or attribute is None or name in _LEFT_OUT or value == defaults.get(name):
            continue
        if name == "dilations" and set(value if isinstance(value, list) else ()) == {1}:
            continue
        kept[name] = attribute
    return kept
