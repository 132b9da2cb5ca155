"""One node as a separate model: its shape inference, and the function that defines it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from sys import float_info
from typing import Any

import numpy as np
from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    TypeProto,
    ValueInfoProto,
    helper,
    inliner,
    numpy_helper,
)

from ...dialects.nn import QUANTIZING, RANDOM
from ...dialects.nn.shapes import LARGEST, element_of, known, shape_of
from ...formats.onnx.attributes import GRAPHS
from ...formats.onnx.graphs import STANDARD
from ...formats.onnx.inference import inferred
from ...formats.onnx.opaque import IR_VERSION
from ...formats.onnx.schema import complaint, schema_of
from ...formats.onnx.tensors import ELEMENT_NAMES, code_of
from ...ir.dtypes import numpy_dtype
from ..building import SHOWN_ELEMENTS
from .node import Binding, Constant, Node

_OUTPUT = "output {}"
"""Names for all outputs, including unnamed ones."""


def _model(node: Node) -> ModelProto:
    model = ModelProto(ir_version=IR_VERSION)
    model.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in node.shared.opsets.items())
    model.graph.name = node.op_type
    model.graph.node.append(node.proto)
    del model.graph.node[0].output[:]
    model.graph.node[0].output.extend(_OUTPUT.format(i) for i in range(len(node.outputs)))
    _write_defaults(node, model.graph.node[0])
    for name, binding in _inputs(node).items():
        model.graph.input.append(ValueInfoProto(name=name, type=declared(binding)))
    model.graph.output.extend(ValueInfoProto(name=_OUTPUT.format(i)) for i in range(len(node.outputs)))
    return model


def _write_defaults(node: Node, call: NodeProto) -> None:
    """Sets default attributes explicitly: onnx's inference has other defaults than the definition (STFT's onesided)."""
    schema = schema_of(node.op_type, node.version, node.domain)
    defaults = {} if schema is None else {n: a.default_value for n, a in schema.attributes.items()}
    given = {a.name for a in call.attribute}
    call.attribute.extend(a for name, a in defaults.items() if a.name and name not in given)


def declared(binding: Binding) -> TypeProto:
    """The type of a value as ONNX declares it."""
    if isinstance(binding, Constant):
        return helper.make_tensor_type_proto(code_of(binding.array.dtype), binding.array.shape)
    shape = [d if known(d) else None for d in shape_of(binding)]
    return helper.make_tensor_type_proto(code_of(numpy_dtype(element_of(binding))), shape)


def _inputs(node: Node) -> dict[str, Binding]:
    named = zip(node.proto.input, node.inputs, strict=True)
    return {name: binding for name, binding in named if binding is not None}


def inferred_types(node: Node) -> dict[int, TypeProto]:
    """The types of a node's outputs by index, as far as onnx's shape inference finds them.

    An operator without inference of its own that is defined as a function (GroupNormalization) is inlined for it.
    Raises CompileError for a node that breaks its operator's definition: onnx's inference crashes on some such nodes.
    """
    model = _valid_model(node)
    for name, binding in _inputs(node).items():
        if isinstance(binding, Constant) and binding.array.size <= SHOWN_ELEMENTS:
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(binding.array, order="C"), name))
    found = _inferred(model)
    if len(found) == len(node.outputs) or (inlined := _inlined(node, model)) is None:
        return found
    return {**_inferred(inlined), **found}


def function_body(node: Node) -> tuple[GraphProto, int] | None:
    """The function that defines a node's operator, as a graph with the node's inputs and outputs, and the opset of its nodes.

    None for an operator that is not defined by a function, is random, runs subgraphs, or quantizes, which
    stays visible. Raises CompileError like `inferred_types`.
    """
    if node.op_type in QUANTIZING["onnx"] | RANDOM["onnx"] or any(a.type in GRAPHS for a in node.attributes.values()):
        return None
    if (inlined := _inlined(node, _valid_model(node))) is None:
        return None
    return inlined.graph, _standard(inlined).version


def _inlined(node: Node, model: ModelProto) -> ModelProto | None:
    """The model of a node as in its definition: in the opset of the definition, with defaults of attributes."""
    (call,) = model.graph.node
    if (function := _definition(node, call)) is None:
        return None
    call.domain, call.op_type = function.domain, function.name = _FUNCTION
    model.functions.append(function)
    _standard(model).version = _standard(function).version
    model.opset_import.append(helper.make_opsetid(function.domain, 1))
    try:
        return inliner.inline_local_functions(model)
    except (RuntimeError, ValueError):
        return None


_FUNCTION = "amct_opt", "definition"
"""Domain and name of the function that replaces an operator while it is inlined."""


def _definition(node: Node, call: NodeProto) -> FunctionProto | None:
    """The function for this call, from the latest opset in which the operator is unchanged. A version that only takes more types
    keeps the function of an older opset.
    """
    schema: Any = schema_of(node.op_type, node.version, node.domain)
    if schema is None or node.domain != STANDARD:
        return None
    plain: list[int] = schema.function_opset_versions
    dependent: list[int] = schema.context_dependent_function_opset_versions
    same = [
        v for v in (*plain, *dependent) if v < schema.since_version or _since(node.op_type, v) == schema.since_version
    ]
    if not same:
        return None
    if max(same) in plain:
        return FunctionProto.FromString(schema.get_function_with_opset_version(max(same)))
    types = [(TypeProto() if b is None else declared(b)).SerializeToString() for b in node.inputs]
    try:
        serialized = schema.get_context_dependent_function_with_opset_version(
            max(same), call.SerializeToString(), types
        )
    except (RuntimeError, ValueError):
        return None
    return FunctionProto.FromString(serialized) if serialized else None


def _since(op_type: str, opset: int) -> int | None:
    schema = schema_of(op_type, opset)
    return None if schema is None else schema.since_version


def _standard(model: ModelProto | FunctionProto) -> OperatorSetIdProto:
    return next(o for o in model.opset_import if o.domain == STANDARD)


_COUNT, _POSITIVE, _FINITE = (0, LARGEST), (1, LARGEST), (-float_info.max, float_info.max)
_BOUNDS: Mapping[str, Mapping[int, tuple[float, float]]] = {
    "AffineGrid": {1: _POSITIVE},
    "BlackmanWindow": {0: _COUNT},
    "CenterCropPad": {1: _COUNT},
    "Col2Im": {1: _POSITIVE, 2: _POSITIVE},
    "DFT": {1: _POSITIVE},
    "HammingWindow": {0: _COUNT},
    "HannWindow": {0: _COUNT},
    "MaxUnpool": {2: _COUNT},
    "OneHot": {1: _COUNT},
    "Range": {0: _FINITE, 1: _FINITE, 2: _FINITE},
    "STFT": {1: _POSITIVE, 3: _POSITIVE},
    "Tile": {1: _COUNT},
    "TopK": {1: _COUNT},
}
"""Least and largest values of inputs, by index, that decide sizes: onnx takes any, and onnxruntime divides by some."""


def _valid_model(node: Node) -> ModelProto:
    model = _model(node)
    if (reason := complaint(model.graph.node[0], node.shared.opsets)) is not None:
        raise node.error(f"is not valid: {reason}")
    for index, (least, largest) in _BOUNDS.get(node.op_type, {}).items() if node.domain == STANDARD else ():
        values: list[float] = [] if (array := node.array(index)) is None else array.reshape(-1).tolist()
        if not all(least <= v <= largest for v in values):
            raise node.error(f"has {values} in input {index}, which must be from {least:g} to {largest:g}")
    return model


def _inferred(model: ModelProto) -> dict[int, TypeProto]:
    return {i: o.type for i, o in enumerate(inferred(model).output) if o.type.WhichOneof("value")}


def inferred_types_of(model: ModelProto) -> dict[str, TypeProto]:
    """The types of a model's values by name, as far as onnx's shape inference finds them."""
    graph = inferred(model)
    return {v.name: v.type for v in (*graph.value_info, *graph.output) if v.type.WhichOneof("value")}


def runtime_types(node: Node) -> dict[int, TypeProto]:
    """The types of a node's outputs by index, as far as onnxruntime finds them; it knows operators of its own domains."""
    found = asked_types(_model(node))
    return {i: found[name] for i in range(len(node.outputs)) if (name := _OUTPUT.format(i)) in found}


def asked_types(model: ModelProto) -> dict[str, TypeProto]:
    """The types of a model's outputs by name, as far as onnxruntime, if it is installed, infers them.

    It does not distinguish a scalar from an unknown shape; the size of the output's Shape does.
    """
    try:
        onnxruntime: Any = import_module("onnxruntime")
    except ImportError:
        return {}
    names = [o.name for o in model.graph.output]
    asked = ModelProto()
    asked.CopyFrom(model)
    if not any(o.domain == STANDARD for o in asked.opset_import):
        asked.opset_import.append(helper.make_opsetid(STANDARD, _SHAPE_OPSET))
    for i, name in enumerate(names):
        asked.graph.node.append(helper.make_node("Shape", [name], [_RANK.format(i)]))
        asked.graph.output.append(ValueInfoProto(name=_RANK.format(i)))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(asked.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # onnxruntime's errors have no other base class; it then cannot run the model
        return {}
    found = session.get_outputs()
    types: dict[str, TypeProto] = {}
    for name, output, rank in zip(names, found, found[len(names) :], strict=False):
        element = _RUNTIME_ELEMENTS.get(str(output.type))
        if element is not None and rank.shape == [len(output.shape)]:
            sizes = [d if isinstance(d, int) else None for d in output.shape]
            types[name] = helper.make_tensor_type_proto(element, sizes)
    return types


_RANK = "rank of output {}"
_SHAPE_OPSET = 17
_RUNTIME_ELEMENTS = {
    f"tensor({ {'float32': 'float', 'float64': 'double'}.get(name, name) })".replace(" ", ""): code
    for code, name in ELEMENT_NAMES.items()
}
"""Element types by onnxruntime's names for them."""
