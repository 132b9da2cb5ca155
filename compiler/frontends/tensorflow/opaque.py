"""Nodes without an equivalent in `nn`: carried with their attributes, typed by TensorFlow's shape inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import DictionaryAttr

from ...dialects import nn
from ...dialects.nn.shapes import tensor, tensor_of
from ...formats.tensorflow.attributes import mlir_of
from ...formats.tensorflow.library import inferred
from ...formats.tensorflow.tensors import Array, dtype_of
from ...ir.dtypes import Tensor, element_type
from ...support.diagnostics import CompileError
from ..building import SHOWN_ELEMENTS, Binding, Constant
from .node import AttrValue, Node

_POSITIVE = frozenset({"ksize", "ksizes", "strides", "rates", "dilations"})
"""Attributes that TensorFlow's shape inference divides by, or takes for sizes, without a check."""
_SIZES = {"CropAndResize": 3, "ResizeArea": 1}
"""Operators with an input of sizes, by its index, in which -1 is a size that is not known."""


def carry(node: Node, types: Sequence[Tensor] | None = None) -> nn.OpaqueOp:
    """The node as `nn.opaque` with results of these types. Without types TensorFlow is required to infer them.

    Raises CompileError if it is not installed, for operators with a state, for attributes that contain functions, and if
    the element type or the rank of a result cannot be determined.
    """
    where = node.layer.where
    for name in _POSITIVE & node.attributes.keys():
        if min(values := node.ints(name) or [1]) < 1:
            raise node.error(f"has the {name} {values}, which must be at least 1")
    sizes = node.array(_SIZES[node.op_type]) if node.op_type in _SIZES else None
    if sizes is not None and sizes.min(initial=1) < 1:
        raise node.error(f"makes an image of size {sizes.tolist()}")
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
    """An operator's own attributes, by name; those that begin with `_` are hints for a scheduler."""
    return {name: attributes[name] for name in sorted(attributes) if not name.startswith("_")}


def _shown(binding: Binding) -> Array | Tensor:
    """The input for shape inference: its numbers if they are few and known, otherwise its type."""
    if not isinstance(binding, Constant):
        return tensor_of(binding)
    array = binding.array
    return array if array.size <= SHOWN_ELEMENTS else tensor(element_type(array.dtype), array.shape)


def result_types(
    op_type: str, inputs: Sequence[Array | Tensor], attributes: Mapping[str, AttrValue], where: str
) -> list[Tensor]:
    """The types of an operator's results for inputs of these types, or with these values if known.

    Trailing results of unknown rank are left out: scratch space, like that of FusedBatchNormV3, which only training reads.
    Raises CompileError, located at `where`, like `carry`.
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
