"""The definitions of operators in onnx: defaults, violations, and the operators and element types of an opset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from math import inf

from onnx import IR_VERSION, GraphProto, NodeProto, TensorProto, checker, defs, helper
from onnx.external_data_helper import uses_external_data

from .attributes import Value, value_of
from .graphs import STANDARD, all_tensors, domain_of, subgraphs

NEWEST_OPSET = min(26, defs.onnx_opset_version())
"""The newest opset that onnxruntime loads, if the installed onnx knows it."""


@cache
def schema_of(op_type: str, opset: int, domain: str = STANDARD) -> defs.OpSchema | None:
    """The definition of an operator in an opset; None if the opset or the domain lacks it."""
    try:
        return defs.get_schema(op_type, opset, domain)
    except defs.SchemaError:
        return None


def is_foreign(node: NodeProto) -> bool:
    """Whether a node is of ONNX's domain but no opset defines its operator. onnxruntime has such ones, alike in all opsets."""
    return domain_of(node.domain) == STANDARD and schema_of(node.op_type, NEWEST_OPSET) is None


@cache
def schema_defaults(op_type: str, opset: int, domain: str) -> Mapping[str, Value]:
    """The defaults of attributes, by name; none for an operator that ONNX does not know."""
    schema = schema_of(op_type, opset, domain)
    if schema is None:
        return {}
    defaults = {name: value_of(a.default_value) for name, a in schema.attributes.items() if a.default_value.name}
    return {name: value for name, value in defaults.items() if value is not None}


def _by_itself(node: NodeProto) -> NodeProto:
    """The node with empty graphs in its attributes, and without external data: the checker does not see the outer values that
    graphs capture, and looks for files in the current folder.
    """
    if not any(map(uses_external_data, all_tensors([node]))) and not any(True for _ in subgraphs(node)):
        return node
    copy = NodeProto()
    copy.CopyFrom(node)
    for graph in subgraphs(copy):
        graph.CopyFrom(GraphProto(name=graph.name or "graph"))
    for tensor in filter(uses_external_data, all_tensors([copy])):
        tensor.CopyFrom(TensorProto(name=tensor.name, data_type=tensor.data_type, dims=[0]))
    return copy


_DIVISORS = ("strides", "dilations", "kernel_shape", "group", "blocksize", "num_groups", "q_num_heads", "kv_num_heads")
_LARGEST = (1 << 31) - 1
_BOUNDS = {**dict.fromkeys(_DIVISORS, (1, _LARGEST)), "batch_dims": (0, _LARGEST), "pads": (0, _LARGEST)}
"""Least and largest value of attributes that onnx's shape inference divides by (also by the square), counts axes by, or adds
to sizes without a check.
"""


def complaint(node: NodeProto, opsets: Mapping[str, int]) -> str | None:
    """Reports how a node violates its operator's definition: number of inputs, names and types of attributes. None if
    it does not.

    Must be called before onnx infers types, which crashes the process for some invalid nodes.
    """
    domain = domain_of(node.domain)
    schema = schema_of(node.op_type, opsets.get(domain, 0), domain)
    if schema is None or schema.deprecated:
        return None
    for attribute in node.attribute:
        value = value_of(attribute)
        numbers: Iterable[object] = value if isinstance(value, list) else [value]
        least, largest = _BOUNDS.get(attribute.name, (-inf, inf)) if node.op_type != "Pad" else (-inf, inf)
        if any(isinstance(v, int) and not least <= v <= largest for v in numbers):
            return f"attribute '{attribute.name}' is {value}, but it must be from {least} to {largest}"
    context = checker.C.CheckerContext()
    context.ir_version = IR_VERSION
    context.opset_imports = dict(opsets)
    try:
        checker.check_node(_by_itself(node), context)
    except checker.ValidationError as e:
        return str(e).splitlines()[0]
    return None


def element_name(dtype_name: str) -> str:
    """ONNX's name of the element type that numpy calls `dtype_name`."""
    return _NAMES.get(dtype_name, dtype_name)


_NAMES = {
    "float32": "float",
    "float64": "double",
    "float8_e4m3fn": "float8e4m3fn",
    "float8_e5m2": "float8e5m2",
    "float8_e8m0fnu": "float8e8m0",
    "float4_e2m1fn": "float4e2m1",
}


def type_mismatch(schema: defs.OpSchema, elements: Sequence[str | None]) -> str | None:
    """The reason why inputs of these element types (None: absent or unknown) do not fit a schema; None if they do."""
    bound: dict[str, str] = {}
    for i, element in enumerate(elements):
        if element is None:
            continue
        parameter = schema.inputs[min(i, len(schema.inputs) - 1)]
        if f"tensor({element})" not in parameter.types:
            return f"takes no {element} as '{parameter.name}'"
        if parameter.is_homogeneous and bound.setdefault(parameter.type_str, element) != element:
            return f"takes '{parameter.name}' of {bound[parameter.type_str]} only, not of {element}"
    return None


def result_elements(
    schema: defs.OpSchema, elements: Sequence[str | None], attributes: Mapping[str, object]
) -> list[str | None]:
    """Element types of the outputs if the type variables decide them, otherwise None."""
    if isinstance(to := attributes.get("to"), int):
        return [element_name(helper.tensor_dtype_to_np_dtype(to).name)]
    bound = {schema.inputs[min(i, len(schema.inputs) - 1)].type_str: e for i, e in enumerate(elements) if e}
    return [bound.get(p.type_str) or _only_type(p) for p in schema.outputs]


def _only_type(parameter: defs.OpSchema.FormalParameter) -> str | None:
    if len(parameter.types) != 1:
        return None
    return next(iter(parameter.types)).removeprefix("tensor(").removesuffix(")")


def rejected_output(schema: defs.OpSchema, element: str | None) -> str | None:
    """The reason why a first output of this element type does not fit; None if it does or is unknown."""
    if element is None or not schema.outputs or f"tensor({element})" in schema.outputs[0].types:
        return None
    return f"gives no {element}"


def first_opset_taking(
    op_type: str, elements: Sequence[str | None], attributes: Mapping[str, object], opsets: Iterable[int]
) -> int | None:
    """The lowest of these opsets that accepts these element types; None if none does."""
    for opset in opsets:
        schema = schema_of(op_type, opset)
        if schema is None or type_mismatch(schema, elements) is not None:
            continue
        if rejected_output(schema, result_elements(schema, elements, attributes)[0]) is None:
            return opset
    return None
