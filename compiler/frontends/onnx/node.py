"""What a converter sees of a node, and the table of converters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from onnx import AttributeProto
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ...diagnostics import CompileError
from ...dialects import nn
from ...dialects.nn.shapes import Shape, element_of, shape_of
from ...dtypes import numpy_dtype
from ...transforms.partial_shapes import Dimension, PartialShapes
from .attributes import checked, provenance, value_of
from .graph import Layer
from .schema import schema_defaults
from .source import STANDARD
from .symbols import Symbols
from .tensors import Array, TensorReader


@dataclass(eq=False)
class Constant:
    """A value known at import: an initializer or something computed from such. Becomes `nn.constant` when first used."""

    key: str
    array: Array


Binding = SSAValue | Constant
"""What a name of the source graph stands for."""

Size = int | Dimension | None
"""An element of a shape: a number, the size of an axis of some value at run time, or anything else."""

Converted = Binding | Sequence[Binding]
Converter = Callable[["Node"], Converted]
"""From a node to what its outputs stand for, in order. Raises Unmapped where `nn` has no equivalent."""

CONVERTERS: dict[tuple[str, str], Converter] = {}
"""By domain and operator type."""
_Op = TypeVar("_Op", bound=nn.NNOp)


class Unmapped(Exception):
    """This form of an operator has no equivalent in `nn`; the message says why. The node is then carried."""


def converter(*op_types: str, domains: Sequence[str] = (STANDARD,)) -> Callable[[Converter], Converter]:
    """Registers the function that converts nodes of these types."""

    def register(convert: Converter) -> Converter:
        CONVERTERS.update({(domain, op_type): convert for domain in domains for op_type in op_types})
        return convert

    return register


class Sink:
    """Where operations go: constants first, in the order of their first use, then everything else."""

    def __init__(self) -> None:
        self.constants: list[Operation] = []
        self.body: list[Operation] = []
        self._made: dict[Constant, SSAValue] = {}

    def value(self, binding: Binding) -> SSAValue:
        if not isinstance(binding, Constant):
            return binding
        if binding not in self._made:
            op = nn.ConstantOp.of(binding.array, binding.key)
            self.constants.append(op)
            self._made[binding] = op.result
        return self._made[binding]


@dataclass(frozen=True)
class Shared:
    """What all nodes of one import share."""

    opsets: Mapping[str, int]
    tensors: TensorReader
    symbols: Symbols
    used: Container[str]
    """The names that some node reads, or that are outputs of the graph."""
    sink: Sink = field(default_factory=Sink)
    shapes: PartialShapes = field(default_factory=PartialShapes)


class Node:
    """A node with its inputs bound: converters read attributes and inputs from it and emit operations through it."""

    def __init__(self, layer: Layer, inputs: Sequence[Binding | None], shared: Shared):
        self.layer = layer
        self.op_type = layer.proto.op_type
        self.version = shared.opsets[layer.domain]
        self.inputs = list(inputs)
        self.outputs = list(layer.proto.output)
        self.attributes = checked(layer.proto.attribute, layer.where)
        self.shared = shared
        self._origin: nn.OriginAttr | None = None

    # Attributes

    def int(self, name: str, default: int) -> int:
        return self._attribute(name, int, default)

    def float(self, name: str, default: float) -> float:
        return self._attribute(name, float, default)

    def required_int(self, name: str) -> int:
        if name not in self.attributes:
            raise self.error(f"has no attribute '{name}'")
        return self.int(name, 0)

    def text(self, name: str, default: str) -> str:
        return self._attribute(name, str, default)

    def choice(self, name: str, default: str, choices: Collection[str]) -> str:
        """A text that must be one of a few. Raises CompileError for any other."""
        text = self.text(name, default)
        if text not in choices:
            raise self.error(f"has the unknown {name} '{text}'", hint=f"known are {', '.join(sorted(choices))}")
        return text

    def ints(self, name: str) -> list[int] | None:
        """A list of integers, None when absent."""
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

    def binding(self, index: int) -> Binding:
        """What input `index` stands for. Raises CompileError when the node has none."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            raise self.error(f"has no input {index}, which {self.op_type} needs")
        return found

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None

    def value(self, index: int) -> SSAValue:
        return self.shared.sink.value(self.binding(index))

    def optional(self, index: int) -> SSAValue | None:
        return self.value(index) if self.has(index) else None

    def array(self, index: int) -> Array | None:
        """The numbers of input `index` when they are known, None when it is absent or computed at run time."""
        found = self.inputs[index] if index < len(self.inputs) else None
        return found.array if isinstance(found, Constant) else None

    def known(self, index: int) -> Array:
        """The numbers of an input that `nn` takes as a property. Raises Unmapped when they are computed at run time."""
        if (array := self.array(index)) is None:
            self.binding(index)
            raise Unmapped(f"input {index} is computed at run time")
        return array

    def number(self, index: int) -> Array:
        """A known input of one element, of rank 0."""
        array = self.known(index)
        if array.size != 1:
            raise self.error(f"input {index} must be one number, not of shape {list(array.shape)}")
        return array.reshape(())

    def known_ints(self, index: int) -> list[int]:
        array = self.known(index)
        if array.dtype.kind not in "iu" or array.ndim > 1:
            raise self.error(f"input {index} must be a list of integers, not {array.dtype}{list(array.shape)}")
        return [int(v) for v in array.reshape(-1)]

    def axes(self, index: int, since: int) -> list[int] | None:
        """The axes that a node names: in the attribute `axes` before opset `since`, then in an input. None for no such."""
        if self.version < since:
            return self.ints("axes")
        return self.known_ints(index) if self.has(index) else None

    def sizes(self, index: int) -> list[Size] | None:
        """The elements of an integer input as sizes, None where they are not followed."""
        if self.array(index) is not None:
            return [*self.known_ints(index)]
        return self.shared.shapes.elements(self.value(index))

    def has_size(self, index: int, axis: int, size: Size) -> bool:
        """Whether an unknown size is that of input `index` along `axis`."""
        own = Dimension(self.value(index), axis)
        return isinstance(size, Dimension) and self.shared.symbols.same(size, own)

    def shape(self, index: int) -> Shape:
        found = self.binding(index)
        return found.array.shape if isinstance(found, Constant) else shape_of(found)

    def dtype(self, index: int) -> np.dtype[Any]:
        found = self.binding(index)
        return found.array.dtype if isinstance(found, Constant) else numpy_dtype(element_of(found))

    # Results

    def uses_output(self, index: int) -> bool:
        """Whether anything reads output `index`."""
        return index < len(self.outputs) and self.outputs[index] in self.shared.used

    @property
    def origin(self) -> nn.OriginAttr:
        if self._origin is None:
            kept = provenance(self.attributes, schema_defaults(self.layer.domain, self.op_type, self.version))
            self._origin = nn.OriginAttr.of("onnx", self.op_type, self.layer.name, kept)
        return self._origin

    def emit(self, op: type[_Op], *operands: SSAValue | Sequence[SSAValue] | None, **properties: Any) -> _Op:
        """Build an operation with this node's origin and location. Raises CompileError when the operands do not fit."""
        properties.setdefault("origin", self.origin)
        try:
            made = op.make(*operands, location=self.layer.location, name=self.hint, **properties)
        except VerifyException as e:
            raise self.misfit(e) from None
        self.shared.sink.body.append(made)
        return made

    @property
    def hint(self) -> str:
        """What results are called in the text."""
        if self.layer.proto.name == self.layer.name:
            return self.layer.name
        return next(filter(None, self.outputs), self.layer.name)

    def constant(self, array: Array, suffix: str = "") -> SSAValue:
        """A constant that the conversion itself needs."""
        return self.shared.sink.value(Constant(f"{self.layer.name}{suffix}", array))

    def materialized(self, binding: Binding) -> SSAValue:
        return self.shared.sink.value(binding)

    def misfit(self, error: VerifyException) -> CompileError:
        """The error of operands or attributes that contradict each other."""
        return self.error(f"does not fit together: {str(error).splitlines()[0]}")

    def error(self, message: str, hint: str = "") -> CompileError:
        return CompileError(f"{self.op_type} {message}", where=self.layer.where, hint=hint)


_KIND_NAMES: Mapping[type[Any], str] = {int: "an integer", float: "a number", str: "a text"}
_LIST_NAMES: Mapping[int, str] = {AttributeProto.INTS: "integers", AttributeProto.FLOATS: "numbers"}
