"""One node as a model of its own, for onnx's shape inference and its reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import ModelProto, TypeProto, ValueInfoProto, helper, numpy_helper, shape_inference

from .node import Binding, Constant, Node
from .tensors import Array
from .types import declared

_VALUES_LIMIT = 1024
"""Constants of up to this many elements are shown to shape inference, which reads shapes, axes and the like from them."""
_IR_VERSION = 10
_OUTPUT = "output {}"
"""Names for the outputs, the unnamed ones too."""


def _model(node: Node, opsets: Mapping[str, int]) -> ModelProto:
    model = ModelProto(ir_version=_IR_VERSION)
    model.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in opsets.items())
    model.graph.name = node.op_type
    model.graph.node.append(node.layer.proto)
    del model.graph.node[0].output[:]
    model.graph.node[0].output.extend(_OUTPUT.format(i) for i in range(len(node.outputs)))
    for name, binding in _inputs(node).items():
        model.graph.input.append(ValueInfoProto(name=name, type=declared(binding)))
    model.graph.output.extend(ValueInfoProto(name=_OUTPUT.format(i)) for i in range(len(node.outputs)))
    return model


def _inputs(node: Node) -> dict[str, Binding]:
    named = zip(node.layer.proto.input, node.inputs, strict=True)
    return {name: binding for name, binding in named if binding is not None}


def inferred_types(node: Node, opsets: Mapping[str, int]) -> dict[int, TypeProto]:
    """The types of a node's outputs by index, as far as onnx's shape inference finds them."""
    model = _model(node, opsets)
    for name, binding in _inputs(node).items():
        if isinstance(binding, Constant) and binding.array.size <= _VALUES_LIMIT:
            model.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(binding.array), name))
    try:
        outputs = shape_inference.infer_shapes(model, data_prop=True).graph.output
    except (shape_inference.InferenceError, RuntimeError, ValueError):
        return {}
    return {i: o.type for i, o in enumerate(outputs) if o.HasField("type")}


def evaluated(node: Node, opsets: Mapping[str, int], arrays: Sequence[Array]) -> list[Array] | None:
    """What onnx's reference computes for a node; None where it has no implementation, or the node is malformed."""
    from onnx.reference import ReferenceEvaluator

    names = list(_inputs(node))
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(_model(node, opsets)).run(None, dict(zip(names, arrays, strict=True)))
    except Exception:  # the evaluator raises whatever its Python code meets; the node is then carried, not lost
        return None
    arrays = [r for r in results if isinstance(r, np.ndarray)]
    return arrays if len(arrays) == len(results) else None
