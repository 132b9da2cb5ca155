"""What ONNX's own operator schemas say: whether an opset has a form, which element types it takes, what comes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import onnx
from onnx.defs import OpSchema


@cache
def schema_of(op_type: str, opset: int, domain: str = "") -> OpSchema | None:
    """The schema of an operator as of `opset`, None where the opset or the domain does not have it."""
    try:
        return onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None


def element_name(dtype_name: str) -> str:
    """What ONNX calls the element type that numpy calls `dtype_name`."""
    return {"float32": "float", "float64": "double"}.get(dtype_name, dtype_name)


def type_mismatch(schema: OpSchema, elements: Sequence[str | None]) -> str | None:
    """Why inputs of these element types (None: absent, or not known) do not fit a schema; None where they do."""
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
    schema: OpSchema, elements: Sequence[str | None], attributes: Mapping[str, object]
) -> list[str | None]:
    """Element types of the outputs where the type variables decide them, else None."""
    if isinstance(to := attributes.get("to"), int):
        return [_name_of_code(to)]
    bound = {schema.inputs[min(i, len(schema.inputs) - 1)].type_str: e for i, e in enumerate(elements) if e}
    return [bound.get(p.type_str) or _only_type(p) for p in schema.outputs]


def _only_type(parameter: OpSchema.FormalParameter) -> str | None:
    if len(parameter.types) != 1:
        return None
    return next(iter(parameter.types)).removeprefix("tensor(").removesuffix(")")


def _name_of_code(code: int) -> str:
    return element_name(onnx.helper.tensor_dtype_to_np_dtype(code).name)


def rejected_output(schema: OpSchema, element: str | None) -> str | None:
    """Why a first output of this element type does not fit; None where it does or is not known."""
    if element is None or not schema.outputs or f"tensor({element})" in schema.outputs[0].types:
        return None
    return f"gives no {element}"


def first_opset_taking(
    op_type: str, elements: Sequence[str | None], attributes: Mapping[str, object], opsets: Iterable[int]
) -> int | None:
    """The lowest of these opsets that takes these element types, None when none does."""
    for opset in opsets:
        schema = schema_of(op_type, opset)
        if schema is None or type_mismatch(schema, elements) is not None:
            continue
        if rejected_output(schema, result_elements(schema, elements, attributes)[0]) is None:
            return opset
    return None
