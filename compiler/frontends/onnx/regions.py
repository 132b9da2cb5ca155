"""Parts of a graph that are carried whole: control flow with its captured values, and operations without a type otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np
from onnx import ModelProto, NodeProto, TypeProto, ValueInfoProto, helper, numpy_helper

from ...dialects import nn
from ...dialects.nn.constant import INLINE_ELEMENTS
from ...formats.onnx.graphs import STANDARD, all_nodes, all_tensors, domain_of, free_names, renamed, take_weights
from ...formats.onnx.opaque import IR_VERSION
from ...formats.onnx.schema import complaint
from ...formats.onnx.tensors import code_of, is_ranked, tensor_type
from ...ir.dtypes import Tensor, numpy_dtype
from ...ir.unique_names import Names
from ...support.diagnostics import CompileError
from ..building import SHOWN_ELEMENTS
from .graph import NodeLayer
from .node import Binding, Constant, Shared
from .single import asked_types, declared, inferred_types_of


class Untyped(Exception):
    """Raised for a result without a type of known rank, which `nn` requires; the operation may be carried with its readers."""

    def __init__(self, error: CompileError):
        super().__init__(str(error))
        self.error = error


class Split(NamedTuple):
    """Layers in an order in which a region among them can be imported at once."""

    before: list[NodeLayer]
    region: list[NodeLayer]
    after: list[NodeLayer]


class Part(NamedTuple):
    """Layers as a separate model, with the values of its inputs and the names of its outputs."""

    model: ModelProto
    inputs: dict[str, Binding]
    outputs: list[str]


def region_of(
    layers: Sequence[NodeLayer],
    heads: Set[str],
    env: Mapping[str, Binding],
    shared: Shared,
    typed: Mapping[str, TypeProto],
) -> Split:
    """The layers of these names with all later readers of values without a type, and the layers between them.

    `layers` are still to be imported, in order; `typed` are the types that the graph itself declares.
    """
    inputs = {name: env[name] for layer in layers for name in free_names(layer.proto) if name in env}
    part = Part(_model([layer.proto for layer in layers], shared), inputs, [])
    known = {name for name, t in {**typed, **_types(part, shared, every=True)}.items() if is_ranked(t)}
    reads = [set(free_names(layer.proto)) for layer in layers]
    makes = [set(filter(None, layer.proto.output)) for layer in layers]
    untyped: set[str] = set()
    members: set[int] = set()
    for i, layer in enumerate(layers):
        if layer.name in heads or reads[i] & untyped:
            members.add(i)
            untyped |= makes[i] - known
    behind = _reaching(range(1, len(layers)), {n for i in members for n in makes[i]}, reads, makes)
    ahead = _reaching(range(len(layers) - 1, -1, -1), {n for i in members for n in reads[i]}, makes, reads)
    members |= behind & ahead
    before = ahead - members
    rest = [i for i in range(len(layers)) if i not in members | before]
    return Split(*([layers[i] for i in sorted(indices)] for indices in (before, members, rest)))


def _reaching(order: Iterable[int], names: set[str], ends: Sequence[set[str]], others: Sequence[set[str]]) -> set[int]:
    """The layers, visited in this order, with one of their `ends` among the names; their `others` join the names."""
    found: set[int] = set()
    for i in order:
        if ends[i] & names:
            found.add(i)
            names |= others[i]
    return found


def carry_region(
    layers: Sequence[NodeLayer],
    wanted: Container[str],
    env: Mapping[str, Binding],
    shared: Shared,
    typed: Mapping[str, TypeProto],
) -> tuple[nn.OpaqueOp, list[str]]:
    """Carries the layers as one operation, and returns it with the names of its results: the wanted results of the layers.

    Raises Untyped if one of these has no type of known rank, CompileError for invalid nodes.
    """
    first = next((layer for layer in layers if is_control(layer.proto)), layers[0])
    part = _part(layers, wanted, env, shared)
    types = {**typed, **{n: t for n, t in _types(part, shared).items() if n not in typed or is_ranked(t)}}
    results = [_result(name, types, first) for name in part.outputs]
    sink = shared.sink
    array = np.frombuffer(_stored(part, results).SerializeToString(deterministic=True), np.uint8)
    op = nn.OpaqueOp.make(
        [sink.value(b) for b in part.inputs.values()],
        location=first.location,
        name=first.name,
        result_types=results,
        framework="onnx",
        op_type=first.proto.op_type,
        domain=first.domain or None,
        version=shared.opsets[first.domain],
        graph=nn.GraphAttr(nn.ConstantOp.of(array, f"{first.name}.graph").value),
        origin=nn.OriginAttr.of("onnx", first.proto.op_type, first.name),
    )
    sink.body.append(op)
    return op, part.outputs


def is_control(node: NodeProto) -> bool:
    """Whether a node runs graphs."""
    return next((True for a in node.attribute if a.HasField("g") or a.graphs), False)


def reason_of(layers: Sequence[NodeLayer], inputs: Container[str]) -> str:
    """The reason why the layers are carried, with the quantizable ones among them. `inputs` are those of the graph."""
    inside = [node for layer in layers for node in all_nodes([layer.proto])]
    kinds = Counter(n.op_type for n in inside if n.op_type in _QUANTIZABLE)
    names = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
    floats = f"; of {len(inside)} nodes inside, {names} stay float" if names else ""
    choices = (x.proto.input[0] for x in layers if x.proto.op_type == "If" and x.proto.input[0] in inputs)
    advice = "".join(f"; --input-value {name}=true takes one branch" for name in dict.fromkeys(choices))
    return f"what runs is known at run time only{floats}{advice}"


_QUANTIZABLE = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "AveragePool", "GlobalAveragePool"})


def _part(layers: Sequence[NodeLayer], wanted: Container[str], env: Mapping[str, Binding], shared: Shared) -> Part:
    """The layers with unique names, and with large weights of inner graphs as inputs."""
    own = {name for layer in layers for name in layer.proto.output if name}
    inputs: dict[str, Binding] = {}
    for layer in layers:
        for name in free_names(layer.proto):
            if name in env:
                inputs[name] = env[name]
            elif name not in own:
                hint = "the file may be truncated"
                raise CompileError(f"reads '{name}', which nothing defines", where=layer.where, hint=hint)
        _check(layer, shared)
    nodes = renamed([layer.proto for layer in layers], {}, Names([*inputs, *own]).unique)
    for tensor in take_weights(nodes, INLINE_ELEMENTS):
        inputs[tensor.name] = Constant(tensor.name, shared.tensors.read(tensor, layers[0].where))
    for tensor in all_tensors(nodes):
        shared.tensors.take_in(tensor, layers[0].where)
    outputs = [n for layer in layers for n in layer.proto.output if n in wanted]
    return Part(_model(nodes, shared), inputs, outputs)


def _check(layer: NodeLayer, shared: Shared) -> None:
    """Raises CompileError for nodes that break the definitions of their operators."""
    for node in all_nodes([layer.proto]):
        if (reason := complaint(node, shared.opsets)) is not None:
            raise CompileError(f"{node.op_type} is not valid: {reason}", where=layer.where)


def _model(nodes: Sequence[NodeProto], shared: Shared) -> ModelProto:
    model = ModelProto(ir_version=IR_VERSION)
    domains = {STANDARD} | {domain_of(n.domain) for n in all_nodes(nodes)}
    present = {domain: version for domain, version in shared.opsets.items() if domain in domains}
    model.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in present.items())
    model.graph.name = "carried"
    model.graph.node.extend(nodes)
    return model


def _types(part: Part, shared: Shared, *, every: bool = False) -> dict[str, TypeProto]:
    """The types of a part's outputs, or of every value, as inferred by onnx, otherwise by onnxruntime."""
    model = ModelProto()
    model.CopyFrom(part.model)
    if any(complaint(n, shared.opsets) for n in all_nodes(model.graph.node)):
        return {}
    for name, binding in part.inputs.items():
        model.graph.input.append(ValueInfoProto(name=name, type=declared(binding)))
        if isinstance(binding, Constant) and binding.array.size <= SHOWN_ELEMENTS:
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(binding.array, order="C"), name))
    model.graph.output.extend(ValueInfoProto(name=name) for name in part.outputs)
    found = inferred_types_of(model)
    if every or all(name in found and is_ranked(found[name]) for name in part.outputs):
        return found
    return {**found, **asked_types(model)}


def _result(name: str, types: Mapping[str, TypeProto], first: NodeLayer) -> Tensor:
    type_ = types.get(name)
    if type_ is None or (type_.WhichOneof("value") == "tensor_type" and not is_ranked(type_)):
        raise Untyped(
            CompileError(
                f"{first.proto.op_type} gives '{name}', whose rank is not known",
                where=first.where,
                hint=f"declare the type of '{name}' in the model's value_info, or fix the sizes of inputs (--input-shape)",
            )
        )
    return tensor_type(type_, f"'{name}', which {first.proto.op_type} gives,", first.where)


def _stored(part: Part, results: Sequence[Tensor]) -> ModelProto:
    """The model in the form that the operation keeps: only element types and ranks, because sizes may be set later."""
    model = ModelProto()
    model.CopyFrom(part.model)
    for name, binding in part.inputs.items():
        type_ = declared(binding).tensor_type
        model.graph.input.append(_value_info(name, type_.elem_type, len(type_.shape.dim)))
    for name, type_ in zip(part.outputs, results, strict=True):
        code = code_of(numpy_dtype(type_.element_type))
        model.graph.output.append(_value_info(name, code, type_.get_num_dims()))
    return model


def _value_info(name: str, code: int, rank: int) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, code, [None] * rank)
