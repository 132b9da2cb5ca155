"""Converts attributes of ONNX nodes to Python values, and to and from MLIR attributes for provenance and opaque operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from onnx import AttributeProto, helper, numpy_helper
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    f32,
    i64,
)
from xdsl.ir import Attribute

from ...dialects import nn
from ...support.diagnostics import CompileError
from .tensors import TensorReader

Value = int | float | str | list[int] | list[float] | list[str]
"""The value of an attribute, except tensors and graphs."""


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


_READERS: dict[int, Callable[[AttributeProto], Value]] = {
    AttributeProto.INT: lambda a: a.i,
    AttributeProto.FLOAT: lambda a: a.f,
    AttributeProto.STRING: lambda a: _text(a.s),
    AttributeProto.INTS: lambda a: list(a.ints),
    AttributeProto.FLOATS: lambda a: list(a.floats),
    AttributeProto.STRINGS: lambda a: [_text(s) for s in a.strings],
}

_TO_MLIR: dict[int, Callable[[Any], Attribute]] = {
    AttributeProto.INT: lambda v: IntegerAttr(v, i64),
    AttributeProto.FLOAT: lambda v: FloatAttr(v, f32),
    AttributeProto.STRING: StringAttr,
    AttributeProto.INTS: lambda v: DenseArrayBase.from_list(i64, v),
    AttributeProto.FLOATS: lambda v: nn.RealsAttr(tuple(v)),
    AttributeProto.STRINGS: lambda v: ArrayAttr([StringAttr(s) for s in v]),
}

GRAPHS = frozenset({AttributeProto.GRAPH, AttributeProto.GRAPHS})


def value_of(attribute: AttributeProto) -> Value | None:
    """The number, text or list in an attribute; None for tensors, graphs and types."""
    read = _READERS.get(attribute.type)
    return None if read is None else read(attribute)


def mlir_of(attribute: AttributeProto) -> Attribute | None:
    """An attribute's number, text or list in MLIR; None for tensors, graphs and types."""
    read = _READERS.get(attribute.type)
    return None if read is None else _TO_MLIR[attribute.type](read(attribute))


def carried(attributes: Mapping[str, AttributeProto], tensors: TensorReader, where: str) -> dict[str, Attribute]:
    """Carries all attributes of a node in MLIR, tensors in the form of `nn.constant`. Raises CompileError for subgraphs
    and types.
    """
    result: dict[str, Attribute] = {}
    for name in sorted(attributes):
        attribute = attributes[name]
        if attribute.type == AttributeProto.TENSOR:
            result[name] = nn.ConstantOp.of(tensors.read(attribute.t, where), name).value
        elif (value := mlir_of(attribute)) is not None:
            result[name] = value
        else:
            kind = AttributeProto.AttributeType.Name(attribute.type).lower()
            raise CompileError(f"attribute '{name}' is of kind {kind}, which cannot be carried", where=where)
    return result


def attribute_proto(name: str, value: Attribute) -> AttributeProto:
    """An ONNX attribute from the form in which `nn.opaque` carries it. Raises TypeError for any other."""
    kind, content = _content(name, value)
    return helper.make_attribute(name, content, attr_type=kind)


def _content(name: str, value: Attribute) -> tuple[int, Any]:
    match value:
        case IntegerAttr():
            return AttributeProto.INT, value.value.data
        case FloatAttr():
            return AttributeProto.FLOAT, value.value.data
        case StringAttr():
            return AttributeProto.STRING, value.data
        case DenseArrayBase():
            return AttributeProto.INTS, list(nn.ints(cast("DenseArrayBase[Any]", value)))
        case nn.RealsAttr():
            return AttributeProto.FLOATS, list(value.data)
        case ArrayAttr():
            return AttributeProto.STRINGS, [cast(StringAttr, v).data for v in cast("Sequence[Attribute]", value.data)]
        case DenseIntOrFPElementsAttr() | nn.ExternalAttr():
            return AttributeProto.TENSOR, numpy_helper.from_array(np.array(nn.ConstantOp(value).array), name)
        case _:
            raise TypeError(f"attribute {name}: {value} has no form in ONNX")
