"""One node as a model of its own, for onnx's shape inference and its reference evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from onnx import ModelProto, TypeProto, ValueInfoProto, helper, inliner, numpy_helper, shape_inference

from ...dialects.nn.shapes import element_of, known, shape_of
from ...dtypes import numpy_dtype
from .node import Binding, Constant, Node
from .schema import complaint, schema_of
from .tensors import Array, code_of

_VALUES_LIMIT = 1024
"""Constants of up to this many elements are shown to shape inference, which reads shapes, axes and the like from them."""
_IR_VERSION = 10
_OUTPUT = "output {}"
"""Names for the outputs, the unnamed ones too."""


def _model(node: Node) -> ModelProto:
    model = ModelProto(ir_version=_IR_VERSION)
    model.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in node.shared.opsets.items())
    model.graph.name = node.op_type
    model.graph.node.append(node.proto)
    del model.graph.node[0].output[:]
    model.graph.node[0].output.extend(_OUTPUT.format(i) for i in range(len(node.outputs)))
    for name, binding in _inputs(node).items():
        model.graph.input.append(ValueInfoProto(name=name, type=_declared(binding)))
    model.graph.output.extend(ValueInfoProto(name=_OUTPUT.format(i)) for i in range(len(node.outputs)))
    return model


def _declared(binding: Binding) -> TypeProto:
    if isinstance(binding, Constant):
        return helper.make_tensor_type_proto(code_of(binding.array.dtype), binding.array.shape)
    shape = [d if known(d) else None for d in shape_of(binding)]
    return helper.make_tensor_type_proto(code_of(numpy_dtype(element_of(binding))), shape)


def _inputs(node: Node) -> dict[str, Binding]:
    named = zip(node.proto.input, node.inputs, strict=True)
    return {name: binding for name, binding in named if binding is not None}


def inferred_types(node: Node) -> dict[int, TypeProto]:
    """The types of a node's outputs by index, as far as onnx's shape inference finds them.

    An operator that has no inference of its own but is defined as a function (GroupNormalization) is taken apart for it.
    Raises CompileError for a node that breaks its operator's definition: onnx's inference crashes on some such nodes.
    """
    model = _model(node)
    if (reason := complaint(model.graph.node[0], node.shared.opsets)) is not None:
        raise node.error(f"is not valid: {reason}")
    for name, binding in _inputs(node).items():
        if isinstance(binding, Constant) and binding.array.size <= _VALUES_LIMIT:
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(binding.array, order="C"), name))
    found = _inferred(model)
    if len(found) == len(node.outputs) or schema_of(node.domain, node.op_type, node.version) is None:
        return found
    function = [(node.domain, node.op_type)]
    try:
        inlined = inliner.inline_selected_functions(model, function, inline_schema_functions=True)
    except (RuntimeError, ValueError):
        return found
    return {**_inferred(inlined), **found}


def _inferred(model: ModelProto) -> dict[int, TypeProto]:
    try:
        outputs = shape_inference.infer_shapes(model, data_prop=True).graph.output
    except (shape_inference.InferenceError, RuntimeError, ValueError):
        return {}
    return {i: o.type for i, o in enumerate(outputs) if o.type.WhichOneof("value")}


def evaluated(node: Node, arrays: Sequence[Array]) -> list[Array] | None:
    """What onnx's reference computes for a node; None where it has no implementation, or the node is malformed."""
    from onnx.reference import ReferenceEvaluator

    names = [n for n, binding in zip(node.proto.input, node.inputs, strict=True) if binding is not None]
    feeds = dict(zip(names, arrays, strict=True))  # a node may name one value twice
    try:
        evaluator: Any = ReferenceEvaluator(_model(node))
        with np.errstate(all="ignore"):
            results = cast("list[object]", evaluator.run(None, feeds))
    except Exception:  # the evaluator raises whatever its Python code meets; the node is then carried, not lost
        return None
    found = [cast(Array, r) for r in results if isinstance(r, np.ndarray | np.generic)]
    return [np.asarray(r) for r in found] if len(found) == len(results) else None
