"""Nodes that `nn` has no equivalent for: carried with their attributes, typed by TensorFlow's shape inference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    f32,
    i1,
    i64,
)
from xdsl.ir import Attribute, TypeAttribute

from ...diagnostics import CompileError
from ...dialects import nn
from ...dialects.nn.shapes import DYNAMIC, tensor, tensor_of
from ...dtypes import Tensor, element_type, numpy_dtype
from ..building import Binding, Constant
from .node import AttrValue, Node
from .schema import MESSAGES, Message
from .single import inferred, shape_proto
from .tensors import Array, array_of, code_of, dtype_of, tensor_proto

_AttrValue, _ListValue = MESSAGES["AttrValue"], MESSAGES["AttrValue.ListValue"]

_VALUES_LIMIT = 1024
"""Constants of up to this many elements are shown to shape inference, which reads shapes, axes and the like from them."""


def carry(node: Node, types: Sequence[Tensor] | None = None) -> nn.OpaqueOp:
    """The node as `nn.opaque`, its results of these types. Without them TensorFlow is needed, which knows what they are.

    Raises CompileError when it is not installed, for operators with a state, for attributes that hold functions, and where the
    element type or the rank of a result is not to be found out.
    """
    where = node.layer.where
    attributes = {name: mlir_of(name, value, where) for name, value in _own(node.attributes).items()}
    if types is None:
        types = result_types(node.op_type, [_shown(b) for b in node.inputs if b is not None], node.attributes, where)
    return node.emit(
        nn.OpaqueOp,
        [node.sink.value(b) for b in node.inputs if b is not None],
        result_types=types,
        framework="tensorflow",
        op_type=node.op_type,
        attrs=DictionaryAttr(attributes) if attributes else None,
    )


def _own(attributes: Mapping[str, AttrValue]) -> dict[str, AttrValue]:
    """An operator's own attributes, by name: those that begin with `_` are notes for a scheduler."""
    return {name: attributes[name] for name in sorted(attributes) if not name.startswith("_")}


def _shown(binding: Binding) -> Array | Tensor:
    """What shape inference is told of an input: its numbers where they are few and known, else its type."""
    if not isinstance(binding, Constant):
        return tensor_of(binding)
    array = binding.array
    return array if array.size <= _VALUES_LIMIT else tensor(element_type(array.dtype), array.shape)


def result_types(
    op_type: str, inputs: Sequence[Array | Tensor], attributes: Mapping[str, AttrValue], where: str
) -> list[Tensor]:
    """The types of an operator's results for inputs of these types, or of these values where they are known.

    Results of unknown rank at the end are left out: scratch space like that of FusedBatchNormV3, which only training reads.
    Raises CompileError, located at `where`, as `carry`.
    """
    results = inferred(op_type, _own(attributes), inputs, where)
    while len(results) > 1 and results[-1][1] is None:
        results.pop()
    types: list[Tensor] = []
    for i, (code, sizes) in enumerate(results):
        if sizes is None:
            hint = "run it outside of the model, or give inputs a known shape"
            raise CompileError(f"{op_type} has a result {i} of unknown rank", where=where, hint=hint)
        types.append(tensor(element_type(dtype_of(code, f"{where}: result {i} of {op_type}")), sizes))
    return types


# Attributes


def mlir_of(name: str, value: AttrValue, where: str) -> Attribute:
    """An attribute in the form in which `nn.opaque` carries it. Raises CompileError for functions and what has no such form."""
    kind = value.WhichOneof("value")
    if kind == "list":
        return _list_of(name, value.list, where)
    if kind not in _TO_MLIR:
        raise CompileError(
            f"attribute '{name}' is a {kind or 'value that is missing'}, which cannot be carried", where=where
        )
    return _TO_MLIR[kind](getattr(value, kind), f"{where}: attribute '{name}'")


def _list_of(name: str, values: Message, where: str) -> Attribute:
    """Of a list, at most one field holds something."""
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
        raise CompileError("holds bytes that are no text, which cannot be carried", where=where) from None


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
"""By the field of AttrValue; the text says where."""


def attr_value(attribute: Attribute) -> AttrValue:
    """An attribute of `nn.opaque` as TensorFlow has it. Raises ValueError for one that has no such form."""
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
    """The field of AttrValue, and what it holds."""
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
