"""The view of a TensorFlow node for converters, and the table of converters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, SSAValue

from ...dialects import nn
from ...formats.rows import Ints
from ...formats.tensorflow.tensors import dtype_of
from ..building import Array as Array, Binding, Constant, Converted, Sink, Unmapped
from ..naming import NamedLayer
from ..node import SourceNode

AttrValue = Any
"""A protobuf message, as declared by `schema`."""

Converter = Callable[["Node"], Converted]
"""Maps a node to the values of its outputs, in order. Raises Unmapped if `nn` has no equivalent."""

CONVERTERS: dict[str, Converter] = {}
"""Converters by operator type."""


def converter(*op_types: str) -> Callable[[Converter], Converter]:
    """Registers the function that converts nodes of these types."""

    def register(convert: Converter) -> Converter:
        CONVERTERS.update(dict.fromkeys(op_types, convert))
        return convert

    return register


class Node(SourceNode):
    """A node with its inputs bound. Attributes that a file leaves out have the operator's default, which converters state."""

    def __init__(
        self,
        op_type: str,
        layer: NamedLayer,
        attributes: Mapping[str, AttrValue],
        inputs: Sequence[Binding],
        sink: Sink,
        used: Collection[int | None],
    ):
        super().__init__(op_type, layer, inputs, sink)
        self.attributes = attributes
        self.used = used
        """The outputs that are read."""

    # Attributes

    def flag(self, name: str, default: bool = False) -> bool:
        return self._attribute(name, "b", default)

    def int(self, name: str, default: int) -> int:
        return self._attribute(name, "i", default)

    def float(self, name: str, default: float) -> float:
        return self._attribute(name, "f", default)

    def text(self, name: str, default: str) -> str:
        value = self._attribute(name, "s", default)
        return value.decode(errors="replace") if isinstance(value, bytes) else value

    def ints(self, name: str) -> list[int] | None:
        """A list of integers; None if absent or empty (absent lists are written so)."""
        values = self._attribute(name, "list", None)
        return None if values is None else list(values.i) or None

    def ints_of(self, field: Ints, index: int) -> list[int]:
        """A list of integers, in input `index`."""
        return self.known_ints(index)

    def type(self, name: str) -> np.dtype[Any]:
        """The element type in an attribute. Raises CompileError if absent or not an array type."""
        return dtype_of(self._attribute(name, "type", 0), self.layer.where)

    def _attribute(self, name: str, kind: str, default: Any) -> Any:
        attribute = self.attributes.get(name)
        if attribute is None:
            return default
        if attribute.WhichOneof("value") != kind:
            raise self.error(f"attribute '{name}' must be {_KINDS[kind]}")
        return getattr(attribute, kind)

    @property
    def layout(self) -> str:
        """The layout in `nn`: `nhwc` for NHWC and NDHWC, `nchw` for NCHW and NCDHW."""
        return _LAYOUTS[self.choice("data_format", "NHWC", _LAYOUTS)]

    def spatial(self, values: Sequence[int] | None) -> list[int] | None:
        """The entries of the spatial axes, from a list with an entry for each axis. Batch and channel entries must be
        1.
        """
        if values is None:
            return None
        channel = 1 if self.layout == "nchw" else len(values) - 1
        if values[0] != 1 or values[channel] != 1:
            raise Unmapped(f"it steps over batch or channels: {list(values)}")
        return [v for i, v in enumerate(values) if i not in (0, channel)]

    # Inputs and results

    def transposed(self, index: int, perm: Sequence[int]) -> SSAValue:
        """Input `index` with its axes in another order: a constant is transposed once, a value by nn.transpose."""
        found = self.binding(index)
        if isinstance(found, Constant):
            return self.sink.value(found.transposed(perm))
        return self.emit(nn.TransposeOp, found, perm=list(perm)).result

    def scalar(self, value: float, index: int = 0, suffix: str = ".value") -> SSAValue:
        """A constant number of the element type of input `index`."""
        return self.constant(np.asarray(value, self.dtype(index)), suffix)

    @cached_property
    def origin(self) -> nn.OriginAttr:
        return nn.OriginAttr.of("tensorflow", self.op_type, self.layer.name, _provenance(self.attributes))


_KINDS = {"b": "true or false", "i": "an integer", "f": "a number", "s": "a text", "list": "a list", "type": "a type"}
_LAYOUTS = {"NHWC": "nhwc", "NDHWC": "nhwc", "NWC": "nhwc", "NCHW": "nchw", "NCDHW": "nchw", "NCW": "nchw"}


def _flag(value: Any) -> Attribute | None:
    return IntegerAttr(1, i64) if value.b else None


def _dilations(value: Any) -> Attribute | None:
    sizes = list(value.list.i)
    return DenseArrayBase.from_list(i64, sizes) if set(sizes) - {1} else None


def _text(value: Any) -> Attribute | None:
    return StringAttr(value.s.decode(errors="replace"))


_KEPT: Mapping[str, Callable[[Any], Attribute | None]] = {
    "adj_x": _flag,
    "adj_y": _flag,
    "data_format": _text,
    "dilations": _dilations,
    "is_training": _flag,
    "transpose_a": _flag,
    "transpose_b": _flag,
}


def _provenance(attributes: Mapping[str, Any]) -> dict[str, Attribute]:
    """The attributes of a node (protobuf messages, by name) that `origin` keeps; dilations have an entry for every axis."""
    kept = {name: keep(attributes[name]) for name, keep in _KEPT.items() if name in attributes}
    return {name: value for name, value in kept.items() if value is not None}
