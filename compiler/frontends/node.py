"""The view of a node of any framework for converters: its inputs, and functions to emit operations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from ..dialects import nn
from ..dialects.nn.shapes import Shape, element_of, shape_of
from ..ir.dtypes import numpy_dtype
from ..support.diagnostics import CompileError
from ..transforms.partial_shapes import Dimension, root
from .building import Array, Binding, Constant, Sink, Size, Unmapped
from .naming import NamedLayer

_Op = TypeVar("_Op", bound=nn.NNOp)


class SourceNode:
    """A node with its inputs bound. Each frontend adds how to read attributes, and which of them `origin` keeps."""

    def __init__(self, op_type: str, layer: NamedLayer, inputs: Sequence[Binding | None], sink: Sink):
        self.op_type = op_type
        self.layer = layer
        self.inputs: list[Binding | None] = list(inputs)
        self.sink = sink
        self.make_layer: Callable[..., Any] | None = None
        """Makes the layer of a node on quantized integers in place of `emit`; None for other operations."""

    # Inputs

    def binding(self, index: int) -> Binding:
        """The value of input `index`. Raises CompileError if the node has no such input."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            raise self.error(f"has no input {index}, which {self.op_type} needs")
        return found

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None

    def value(self, index: int) -> SSAValue:
        return self.sink.value(self.binding(index))

    def optional(self, index: int) -> SSAValue | None:
        return self.value(index) if self.has(index) else None

    def array(self, index: int) -> Array | None:
        """The numbers of input `index` if known; None if it is absent or computed at run time."""
        found = self.inputs[index] if index < len(self.inputs) else None
        return found.array if isinstance(found, Constant) else None

    def known(self, index: int) -> Array:
        """The numbers of an input that is a property in `nn`. Raises Unmapped if they are computed at run time."""
        if (array := self.array(index)) is None:
            self.binding(index)
            raise Unmapped(f"input {index} is computed at run time")
        return array

    def number(self, index: int) -> Array:
        """A known input of one element, as rank 0."""
        array = self.known(index)
        if array.size != 1:
            raise self.error(f"input {index} must be one number, not of shape {list(array.shape)}")
        return array.reshape(())

    def known_ints(self, index: int) -> list[int]:
        array = self.known(index)
        if array.dtype.kind not in "iu" or array.ndim > 1:
            raise self.error(f"input {index} must be a list of integers, not {array.dtype}{list(array.shape)}")
        return [int(v) for v in array.reshape(-1)]

    def sizes(self, index: int) -> list[Size] | None:
        """The elements of an integer input as sizes; None for those that are not tracked."""
        if self.array(index) is not None:
            return [*self.known_ints(index)]
        return self.sink.shapes.elements(self.value(index))

    def has_size(self, index: int, axis: int, size: Size) -> bool:
        """Whether an unknown size is that of input `index` along `axis`."""
        return isinstance(size, Dimension) and self.same(size, Dimension(self.value(index), axis))

    def same(self, a: Dimension, b: Dimension) -> bool:
        """Whether two unknown sizes are known to be equal."""
        return root(a) == root(b)

    def shape(self, index: int) -> Shape:
        found = self.binding(index)
        return found.array.shape if isinstance(found, Constant) else shape_of(found)

    def dtype(self, index: int) -> np.dtype[Any]:
        found = self.binding(index)
        return found.array.dtype if isinstance(found, Constant) else numpy_dtype(element_of(found))

    # Attributes

    def text(self, name: str, default: str) -> str:
        raise NotImplementedError

    def choice(self, name: str, default: str, choices: Collection[str]) -> str:
        """A text attribute that must be one of several choices. Raises CompileError for other text."""
        text = self.text(name, default)
        if text not in choices:
            raise self.error(f"has the unknown {name} '{text}'", hint=f"known are {', '.join(sorted(choices))}")
        return text

    # Results

    @cached_property
    def origin(self) -> nn.OriginAttr:
        """The source layer, for rules that judge it."""
        raise NotImplementedError

    @property
    def hint(self) -> str:
        """The names of the results in the text."""
        return self.layer.name

    def emit(self, op: type[_Op], *operands: SSAValue | Sequence[SSAValue] | None, **properties: Any) -> _Op:
        """Builds an operation with this node's origin and location. Raises CompileError if the operands do not fit."""
        properties.setdefault("origin", self.origin)
        if self.make_layer is not None and (layer := self.make_layer(op, *operands, **properties)) is not None:
            return layer
        try:
            made = op.make(*operands, location=self.layer.location, name=self.hint, **properties)
        except VerifyException as e:
            raise self.misfit(e) from None
        self.sink.body.append(made)
        return made

    def constant(self, array: Array, suffix: str = "") -> SSAValue:
        """A constant that the conversion itself needs."""
        return self.sink.value(Constant(f"{self.layer.name}{suffix}", array))

    def misfit(self, error: VerifyException) -> CompileError:
        """The error of operands or attributes that contradict each other."""
        return self.error(f"does not fit together: {str(error).splitlines()[0]}")

    def error(self, message: str, hint: str = "") -> CompileError:
        return CompileError(f"{self.op_type} {message}", where=self.layer.where, hint=hint)
