"""Nodes without an equivalent in `nn`: carried with their attributes, typed by onnx's shape inference."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import TypeProto
from xdsl.dialects.builtin import DictionaryAttr

from ...dialects import nn
from ...formats.onnx.attributes import carried
from ...formats.onnx.graphs import STANDARD
from ...formats.onnx.schema import schema_of
from ...formats.onnx.tensors import is_ranked, is_tensor, tensor_type
from ...ir.dtypes import Tensor
from .module_paths import module_paths
from .node import Node
from .regions import Untyped
from .single import inferred_types, runtime_types


def carry(node: Node, declarations: Mapping[str, TypeProto]) -> nn.OpaqueOp:
    """The node as `nn.opaque`. `declarations` are the types that the model declares.

    Raises Untyped if the type of a result cannot be determined, CompileError for attributes that cannot be carried.
    """
    attributes = carried(node.attributes, node.shared.tensors, node.layer.where)
    inferred = inferred_types(node)
    if any(not _typed(node, i, inferred, declarations) for i in range(len(node.outputs))):
        inferred = {**inferred, **runtime_types(node)}
    present = [int(b is not None) for b in node.inputs]
    return node.emit(
        nn.OpaqueOp,
        [node.sink.value(b) for b in node.inputs if b is not None],
        result_types=[_result(node, i, inferred, declarations) for i in range(len(node.outputs))],
        framework="onnx",
        op_type=node.op_type,
        domain=node.domain or None,
        version=node.version,
        present=None if all(present) else present,
        attrs=DictionaryAttr(attributes) if attributes else None,
        origin=nn.OriginAttr.of("onnx", node.op_type, node.layer.name, modules=module_paths(node.proto)),
    )


def _typed(node: Node, index: int, inferred: Mapping[int, TypeProto], declared: Mapping[str, TypeProto]) -> bool:
    types = inferred.get(index), declared.get(node.outputs[index])
    return not node.outputs[index] or any(t is not None and (is_ranked(t) or not is_tensor(t)) for t in types)


def _result(node: Node, index: int, inferred: Mapping[int, TypeProto], declared: Mapping[str, TypeProto]) -> Tensor:
    """The type of one result: inferred, otherwise declared by the model."""
    name = node.outputs[index]
    types = [t for t in (inferred.get(index), declared.get(name)) if t is not None]
    usable = [t for t in types if is_ranked(t) or not is_tensor(t)]
    if not usable:
        if node.domain == STANDARD and schema_of(node.op_type, node.version) is None:
            raise node.error(f"is not an operator of opset {node.version}, which the model is of")
        error = node.error(
            f"has no equivalent here, and the {'rank' if types else 'type'} of its result {index} is not known",
            hint=f"declare the type of '{name}' in the model's value_info",
        )
        raise Untyped(error)
    sizes = [d.dim_value for d in usable[0].tensor_type.shape.dim]
    if usable[0] is inferred.get(index) and min(sizes, default=0) < 0:
        raise node.error(f"computes a result {index} of shape {sizes}")
    return tensor_type(usable[0], f"result {index} of {node.op_type}", node.layer.where)
