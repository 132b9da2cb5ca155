"""Converts attributes of TensorFlow's nodes from Python values, and to and from the form in `nn.opaque`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    f32,
    i1,
    i64,
)
from xdsl.ir import Attribute, TypeAttribute

from ...dialects import nn
from ...dialects.nn.shapes import DYNAMIC
from ...ir.dtypes import element_type, numpy_dtype
from ...support.diagnostics import CompileError
from .schema import MESSAGES, Message, NodeDef
from .tensors import array_of, code_of, dtype_of, shape_proto, tensor_proto

_AttrValue, _ListValue = MESSAGES["AttrValue"], MESSAGES["AttrValue.ListValue"]


GROUPS = "_groups"
"""The number of groups of a convolution whose number of channels is not known; TensorFlow derives it from the channels
at run time. TensorFlow ignores attributes that begin with an underscore.
"""


def make_node(op_type: str, inputs: Sequence[str], attributes: Mapping[str, Any], name: str) -> Message:
    """A NodeDef; attributes are AttrValues."""
    node = NodeDef(name=name, op=op_type, input=inputs)
    for key, value in attributes.items():
        node.attr[key].CopyFrom(value)
    return node


def attribute(value: Any) -> Message:
    """An AttrValue of a number, a text, a list of integers, an element type or a TensorShapeProto."""
    kinds: dict[type, str] = {bool: "b", int: "i", float: "f"}
    match value:
        case bool() | int() | float():
            return _AttrValue(**{kinds[type(value)]: value})
        case str():
            return _AttrValue(s=value.encode())
        case np.dtype():
            return _AttrValue(type=code_of(cast("np.dtype[Any]", value)))
        case list() | tuple():
            return _AttrValue(list=_ListValue(i=cast("Sequence[int]", value)))
        case _:
            return _AttrValue(shape=value)


def mlir_of(name: str, value: Message, where: str) -> Attribute:
    """An attribute in the form of `nn.opaque`. Raises CompileError for functions and other attributes without such a form."""
    kind = value.WhichOneof("value")
    if kind == "list":
        return _list_of(name, value.list, where)
    if kind not in _TO_MLIR:
        raise CompileError(
            f"attribute '{name}' is a {kind or 'value that is missing'}, which cannot be carried", where=where
        )
    return _TO_MLIR[kind](getattr(value, kind), f"{where}: attribute '{name}'")


def _list_of(name: str, values: Message, where: str) -> Attribute:
    """The field of a list that is not empty; there is at most one."""
    kind = next((field.name for field, _ in values.ListFields()), "s")
    items = list(getattr(values, kind))
    if kind == "i":
        return DenseArrayBase.from_list(i64, items)
    if kind == "f":
        return nn.RealsAttr(tuple(items))
    if kind not in _TO_MLIR:
        raise CompileError(f"attribute '{name}' is a list of {kind}s, which cannot be carried", where=where)
    return ArrayAttr([_TO_MLIR[kind](item, f"{where}: attribute '{name}'") for item in items])


def _text(data: bytes, where: str) -> Attribute:
    try:
        return StringAttr(data.decode())
    except UnicodeDecodeError:
        raise CompileError("contains bytes that are not text, which cannot be carried", where=where) from None


def _shape(shape: Message, where: str) -> Attribute:
    return nn.ShapeAttr(None if shape.unknown_rank else tuple(d.size if d.size >= 0 else DYNAMIC for d in shape.dim))


_TO_MLIR: dict[str, Callable[[Any, str], Attribute]] = {
    "i": lambda value, _: IntegerAttr(value, i64),
    "f": lambda value, _: FloatAttr(value, f32),
    "b": lambda value, _: IntegerAttr.from_bool(value),
    "s": _text,
    "type": lambda code, where: element_type(dtype_of(code, where)),
    "shape": _shape,
    "tensor": lambda proto, where: nn.ConstantOp.of(array_of(proto, where), "value").value,
}
"""Converters to MLIR by the field of AttrValue; the text gives the place."""


def attr_value(attribute: Attribute) -> Message:
    """An attribute of `nn.opaque` in TensorFlow's form. Raises ValueError if it has no such form."""
    match attribute:
        case DenseArrayBase():
            return _AttrValue(list=_ListValue(i=nn.ints(cast("DenseArrayBase[Any]", attribute))))
        case nn.RealsAttr():
            return _AttrValue(list=_ListValue(f=attribute.data))
        case ArrayAttr():
            items = [_content(a) for a in cast("Sequence[Attribute]", attribute.data)]
            if len(kinds := {kind for kind, _ in items}) > 1:
                raise ValueError(f"a list of {' and '.join(sorted(kinds))} has no form in TensorFlow")
            return _AttrValue(list=_ListValue(**{kind: [content for _, content in items] for kind in kinds}))
        case _:
            return _AttrValue(**dict([_content(attribute)]))


def _content(attribute: Attribute) -> tuple[str, Any]:
    """The field of AttrValue, and its content."""
    match attribute:
        case IntegerAttr() if attribute.type == i1:
            return "b", bool(attribute.value.data)
        case IntegerAttr():
            return "i", attribute.value.data
        case FloatAttr():
            return "f", attribute.value.data
        case StringAttr():
            return "s", attribute.data.encode()
        case nn.ShapeAttr():
            return "shape", shape_proto(attribute.data)
        case DenseIntOrFPElementsAttr() | nn.ExternalAttr():
            return "tensor", tensor_proto(nn.ConstantOp(attribute).array)
        case TypeAttribute():
            return "type", code_of(numpy_dtype(attribute))
        case _:
            raise ValueError(f"attribute {attribute} has no form in TensorFlow")
