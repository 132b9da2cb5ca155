"""Nodes that came from ONNX and are written back unchanged."""

from __future__ import annotations

from collections.abc import Sequence, Set

from onnx import ModelProto, NodeProto
from onnx.defs import OpSchema

from ...dialects import nn
from ...formats.onnx.graphs import all_nodes, domain_of, renamed
from ...formats.onnx.opaque import graph_of_op, node_of
from ...formats.onnx.schema import is_foreign, schema_of
from ...support.diagnostics import CompileError
from .layer import OnnxLayer, converter

_REDEFINED = frozenset({"GridSample", "RoiAlign", "Split"})
"""Operators whose newer versions change what an older node means: opset 20 renames the modes of GridSample, 16 changes the
default of RoiAlign, and 18 needs an attribute of a Split without sizes. Newer versions of all other operators add only options,
whose defaults keep the older meaning.
"""


@converter(nn.OpaqueOp)
def opaque(op: nn.OpaqueOp, layer: OnnxLayer) -> Sequence[str]:
    """The node with its attributes, domain and absent inputs. Raises CompileError if it has another meaning in the opset."""
    _check_framework(op, layer)
    return _carried_graph(op, op.graph, layer) if op.graph is not None else _carried_node(op, layer)


def _carried_node(op: nn.OpaqueOp, layer: OnnxLayer) -> Sequence[str]:
    outputs = [layer.provisional(r) for r in op.outputs]
    node = node_of(op, [layer.value(v) for v in op.arguments()], outputs)
    _check_version(node, None if op.version is None else op.version.value.data, layer)
    if not node.domain and not is_foreign(node):
        layer.checked(node.op_type, node.input, {})
    layer.add(node, layer.label)
    return outputs


def _carried_graph(op: nn.OpaqueOp, graph: nn.GraphAttr, layer: OnnxLayer) -> Sequence[str]:
    """The nodes of a graph that is carried whole; names that their graphs define are unique in the file, too."""
    model = _checked_graph(op, graph, layer)
    results = {o.name: r for o, r in zip(model.graph.output, op.outputs, strict=True)}
    own = {name for node in model.graph.node for name in node.output if name}
    scope = {i.name: layer.value(v) for i, v in zip(model.graph.input, op.inputs, strict=True)}
    made = {n: layer.provisional(results[n]) if n in results else layer.untyped() for n in sorted(own)}
    for node in renamed(model.graph.node, {**scope, **made}, layer.graph.values.unique):
        layer.add(node, layer.label if node.op_type == op.op_type.data else f"{layer.label}/{node.op_type}")
    return [made[o.name] for o in model.graph.output]


def check_meaning(op: nn.OpaqueOp, layer: OnnxLayer) -> None:
    """Raises CompileError for an operator of another framework, or if it or its graph has another meaning in the opset."""
    _check_framework(op, layer)
    if op.graph is not None:
        _checked_graph(op, op.graph, layer)
        return
    node = node_of(op, ["" if v is None else "x" for v in op.arguments()], ["y" for _ in op.outputs])
    _check_version(node, None if op.version is None else op.version.value.data, layer)


def _check_framework(op: nn.OpaqueOp, layer: OnnxLayer) -> None:
    if op.framework.data != "onnx":
        message = f"holds {op.framework.data}'s {op.op_type.data}, which only {op.framework.data} files can"
        raise layer.error(message, hint="if it is at the end, --outputs leaves it out")


def _checked_graph(op: nn.OpaqueOp, graph: nn.GraphAttr, layer: OnnxLayer) -> ModelProto:
    try:
        model = graph_of_op(op, graph)
    except ValueError as e:
        raise layer.error(f"cannot be written: {e}") from None
    versions = {o.domain: o.version for o in model.opset_import}
    for node in all_nodes(model.graph.node):
        _check_version(node, versions.get(domain_of(node.domain)), layer)
    return model


def _check_version(node: NodeProto, version: int | None, layer: OnnxLayer) -> None:
    op_type, domain = node.op_type, domain_of(node.domain)
    if domain:
        known = layer.graph.domains.setdefault(domain, version or 1)
        if known != (version or 1):
            raise layer.error(f"is of version {version} of domain {domain}, another node of version {known}")
        return
    if is_foreign(node):
        return
    meant = None if version is None else schema_of(op_type, version)
    written = schema_of(op_type, layer.opset)
    if written is None or written.deprecated:
        raise _unlike(f"holds {op_type}, which opset {layer.opset} does not have", node, meant, layer)
    if meant is not None and not _same(node, meant, written):
        message = f"holds {op_type} of opset {version}, which opset {layer.opset} defines otherwise"
        raise _unlike(message, node, meant, layer)


def _same(node: NodeProto, meant: OpSchema, written: OpSchema) -> bool:
    """Whether this node means the same in two versions of an operator: the newer one only adds features that it does not use."""
    older, newer = sorted((meant, written), key=lambda s: s.since_version)
    used = len(node.input), len(node.output)
    added = set(newer.attributes) - set(older.attributes)
    if any(newer.attributes[name].required for name in added) or (node.op_type in _REDEFINED and added):
        return False
    if written is older and added.intersection(a.name for a in node.attribute):
        return False
    return _form(older, *used) == _form(newer, *used, without=added)


def _form(schema: OpSchema, inputs: int, outputs: int, without: Set[str] = frozenset()) -> object:
    """The parameters that a node uses, and the required ones; attributes with their defaults."""
    parameters = [
        [(p.name, p.option, p.is_homogeneous) for i, p in enumerate(group) if i < count or p.option is _SINGLE]
        for group, count in ((schema.inputs, inputs), (schema.outputs, outputs))
    ]
    attributes = {n: a for n, a in schema.attributes.items() if n not in without}
    return parameters, {n: (a.type, a.required, a.default_value.SerializeToString()) for n, a in attributes.items()}


_SINGLE = OpSchema.FormalParameterOption.Single


def _unlike(message: str, node: NodeProto, meant: OpSchema | None, layer: OnnxLayer) -> CompileError:
    """The error of a node with another meaning in this opset; it lists the opsets with the same meaning."""
    form = layer.graph.form
    alike = [opset for opset in form.opsets if _means(opset, node, meant)]
    if not alike:
        written = f"{form.opsets[0]} to {form.opsets[-1]}"
        return layer.error(
            message, f"no opset from {written} has it: convert the model with onnx.version_converter first"
        )
    newer = next((opset for opset in alike if opset in layer.newer), None)
    return layer.too_old(message, newer, f"write an older opset: -t '{form.target}{{opset={alike[-1]}}}'")


def _means(opset: int, node: NodeProto, meant: OpSchema | None) -> bool:
    schema = schema_of(node.op_type, opset)
    return schema is not None and not schema.deprecated and (meant is None or _same(node, meant, schema))
