"""Nodes that `nn` has no equivalent for: carried with their attributes, typed by onnx's shape inference."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import TypeProto
from xdsl.dialects.builtin import DictionaryAttr

from ...dialects import nn
from ...dtypes import Tensor
from .attributes import carried
from .module_paths import module_paths
from .node import Node
from .single import inferred_types
from .types import tensor_type


def carry(node: Node, declarations: Mapping[str, TypeProto]) -> nn.OpaqueOp:
    """The node as `nn.opaque`. `declarations` are the types that the model itself gives to values.

    Raises CompileError when the type of a result is not to be found out, and for attributes that hold subgraphs.
    """
    attributes = carried(node.attributes, node.shared.tensors, node.layer.where)
    inferred = inferred_types(node)
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


def _result(node: Node, index: int, inferred: Mapping[int, TypeProto], declared: Mapping[str, TypeProto]) -> Tensor:
    """The type of one result: what shape inference found, else what the model declares."""
    name = node.outputs[index]
    types = [t for t in (inferred.get(index), declared.get(name)) if t is not None]
    what = f"result {index} of {node.op_type}"
    if not types:
        raise node.error(
            f"has no equivalent here, and the type of its result {index} is not known",
            hint=f"declare the type of '{name}' in the model's value_info",
        )
    ranked = [t for t in types if t.WhichOneof("value") != "tensor_type" or t.tensor_type.HasField("shape")]
    return tensor_type((ranked or types)[0], what, node.layer.where)
