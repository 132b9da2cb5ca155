"""Nodes that came from ONNX and go back as they were."""

from __future__ import annotations

from collections.abc import Sequence, Set

from onnx.defs import OpSchema

from ...dialects import nn
from .carried import domain_of, node_of
from .layer import Layer, converter
from .schema import schema_of

_REDEFINED = frozenset({"GridSample", "RoiAlign", "Split"})
"""Operators where an addition is more than that: modes have other names (20), the default is another computation (16), an
attribute is needed where there are no sizes (18). Everywhere else, what a version adds has the older meaning by default."""


@converter(nn.OpaqueOp)
def opaque(op: nn.OpaqueOp, layer: Layer) -> Sequence[str]:
    """The node with its attributes, domain and absent inputs. Raises CompileError where the opset means something else by it."""
    if op.framework.data != "onnx":
        message = f"holds {op.framework.data}'s {op.op_type.data}, which only {op.framework.data} files can"
        raise layer.error(message, hint="where it stands at the end, --outputs leaves it out")
    domain = domain_of(op)
    _check_version(op, domain, layer)
    inputs = [layer.value(v) for v in op.arguments()]
    if not domain:
        layer.checked(op.op_type.data, inputs, {})
    outputs = [layer.provisional(r) for r in op.outputs]
    layer.add(node_of(op, inputs, outputs), layer.label)
    return outputs


def _check_version(op: nn.OpaqueOp, domain: str, layer: Layer) -> None:
    version = None if op.version is None else op.version.value.data
    if domain:
        known = layer.graph.domains.setdefault(domain, version or 1)
        if known != (version or 1):
            raise layer.error(f"is of version {version} of domain {domain}, another node of version {known}")
        return
    op_type = op.op_type.data
    meant = None if version is None else schema_of(op_type, version)
    written = schema_of(op_type, layer.opset)
    if written is None or written.deprecated:
        message = f"holds {op_type}, which opset {layer.opset} does not have"
        raise layer.error(message, _hint(op, meant, layer))
    if meant is not None and not _same(op, meant, written):
        message = f"holds {op_type} of opset {version}, which opset {layer.opset} defines otherwise"
        raise layer.error(message, _hint(op, meant, layer))


def _same(op: nn.OpaqueOp, meant: OpSchema, written: OpSchema) -> bool:
    """Whether two versions of an operator give this node one meaning: the newer only adds what the node does not use."""
    older, newer = sorted((meant, written), key=lambda s: s.since_version)
    used = len(op.arguments()), len(op.outputs)
    added = set(newer.attributes) - set(older.attributes)
    if any(newer.attributes[name].required for name in added) or (op.op_type.data in _REDEFINED and added):
        return False
    if written is older and (op.attrs is not None and added & set(op.attrs.data)):
        return False
    return _form(older, *used) == _form(newer, *used, without=added)


def _form(schema: OpSchema, inputs: int, outputs: int, without: Set[str] = frozenset()) -> object:
    """The parameters that a node uses and those that it may not leave out; attributes with their defaults."""
    parameters = [
        [(p.name, p.option, p.is_homogeneous) for i, p in enumerate(group) if i < count or p.option is _SINGLE]
        for group, count in ((schema.inputs, inputs), (schema.outputs, outputs))
    ]
    attributes = {n: a for n, a in schema.attributes.items() if n not in without}
    return parameters, {n: (a.type, a.required, a.default_value.SerializeToString()) for n, a in attributes.items()}


_SINGLE = OpSchema.FormalParameterOption.Single


def _hint(op: nn.OpaqueOp, meant: OpSchema | None, layer: Layer) -> str:
    """The lowest opset that means the same by the node."""
    form = layer.graph.form
    for opset in form.opsets:
        schema = schema_of(op.op_type.data, opset)
        if schema is not None and not schema.deprecated and (meant is None or _same(op, meant, schema)):
            return f"write an opset that has it: -t '{form.target}{{opset={opset}}}'"
    opsets = f"{form.opsets[0]} to {form.opsets[-1]}"
    return f"no opset from {opsets} has it: convert the model with onnx.version_converter first"
