"""Attributes of ONNX nodes: as Python values for the converters, as MLIR attributes for provenance and opaque operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from onnx import AttributeProto
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FloatAttr, IntegerAttr, StringAttr, f32, i64
from xdsl.ir import Attribute

from ...diagnostics import CompileError
from ...dialects import nn
from .tensors import TensorReader

Value = int | float | str | list[int] | list[float] | list[str]
"""What an attribute holds, tensors and graphs aside."""


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


def checked(attributes: Iterable[AttributeProto], where: str) -> dict[str, AttributeProto]:
    """The attributes of a node by name. Raises CompileError for a name given twice and for what only functions may hold."""
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


def value_of(attribute: AttributeProto) -> Value | None:
    """The number, text or list that an attribute holds; None for tensors, graphs and types."""
    read = _READERS.get(attribute.type)
    return None if read is None else read(attribute)


def mlir_of(attribute: AttributeProto) -> Attribute | None:
    """An attribute's number, text or list in MLIR; None for tensors, graphs and types."""
    read = _READERS.get(attribute.type)
    return None if read is None else _TO_MLIR[attribute.type](read(attribute))


_LEFT_OUT = frozenset({"kernel_shape", "strides", "pads", "epsilon", "momentum"})
"""What the operation states itself, or what means nothing at inference."""


def provenance(attributes: Mapping[str, AttributeProto], defaults: Mapping[str, Value]) -> dict[str, Attribute]:
    """What `origin` keeps of the source's attributes: everything that is not the default, by name.

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


def carried(attributes: Mapping[str, AttributeProto], tensors: TensorReader, where: str) -> dict[str, Attribute]:
    """All attributes of a node in MLIR, tensors as `nn.constant` holds them. Raises CompileError for subgraphs and types."""
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
