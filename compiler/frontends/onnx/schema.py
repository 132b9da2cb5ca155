"""The definitions of operators that come with onnx: defaults, and what breaks them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from onnx import IR_VERSION, GraphProto, NodeProto, checker, defs

from ...onnx_graphs import subgraphs
from .attributes import Value, value_of
from .source import STANDARD


@cache
def schema_of(domain: str, op_type: str, version: int) -> defs.OpSchema | None:
    """The definition of an operator at an opset, None for one that onnx does not know."""
    try:
        return defs.get_schema(op_type, version, domain)
    except defs.SchemaError:
        return None


@cache
def schema_defaults(domain: str, op_type: str, version: int) -> Mapping[str, Value]:
    """The values of attributes that are not given, by name; none for an operator that ONNX does not know."""
    schema = schema_of(domain, op_type, version)
    if schema is None:
        return {}
    defaults = {name: value_of(a.default_value) for name, a in schema.attributes.items() if a.default_value.name}
    return {name: value for name, value in defaults.items() if value is not None}


def _without_graphs(node: NodeProto) -> NodeProto:
    """The node with empty graphs in its attributes: what these capture is defined outside, where the checker does not look."""
    if not any(True for _ in subgraphs(node)):
        return node
    copy = NodeProto()
    copy.CopyFrom(node)
    for graph in subgraphs(copy):
        graph.CopyFrom(GraphProto(name=graph.name or "graph"))
    return copy


_POSITIVE = frozenset(
    {"strides", "dilations", "kernel_shape", "group", "blocksize", "num_groups", "q_num_heads", "kv_num_heads"}
)
"""Attributes that onnx's shape inference divides by, unasked."""


def complaint(node: NodeProto, opsets: Mapping[str, int]) -> str | None:
    """How a node breaks its operator's definition: number of inputs, names and types of attributes. None for a sound one.

    To be asked before onnx infers types, which ends the process at some nodes that are not sound.
    """
    domain = STANDARD if node.domain == "ai.onnx" else node.domain
    schema = schema_of(domain, node.op_type, opsets.get(domain, 0))
    if schema is None or schema.deprecated:
        return None
    for attribute in node.attribute:
        value = value_of(attribute)
        numbers: Iterable[object] = value if isinstance(value, list) else [value]
        if attribute.name in _POSITIVE and any(isinstance(v, int) and v < 1 for v in numbers):
            return f"attribute '{attribute.name}' is {value}, it must be positive"
    context = checker.C.CheckerContext()
    context.ir_version = IR_VERSION
    context.opset_imports = dict(opsets)
    try:
        checker.check_node(_without_graphs(node), context)
    except checker.ValidationError as e:
        return str(e).splitlines()[0]
    return None
