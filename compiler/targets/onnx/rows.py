"""Operations written by the rows of `formats/onnx/operators.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...dialects import nn
from ...formats.onnx.operators import ROWS
from ...formats.rows import Flag, Ints
from ..converters import Expand
from ..rows import Rows, attributes_of
from .layer import CONVERTERS, OnnxLayer, Operand, Written

_ROWS = Rows(ROWS)
_LISTS = {row.op_type: field for row in ROWS for field in row.fields.values() if isinstance(field, Ints)}

NodeParts = tuple[str, list[Operand], dict[str, Any]]
"""Operator type, inputs and attributes of a node."""


def by_row(op: nn.NNOp, layer: OnnxLayer) -> Written:
    """The operator of the row for an operation; the expansion for an operation that only later opsets have."""
    return written_by_row(op, layer, op.operands)


def written_by_row(op: nn.NNOp, layer: OnnxLayer, operands: Sequence[Operand], **given: Any) -> Written:
    """The operator of the row, on these operands, with given values of properties. Raises CompileError, located."""
    row = _ROWS.of(op)
    if layer.opset < row.since and nn.expanded(op) is not None:
        raise Expand
    layer.require(row.since, row.op_type)
    inputs = list(operands)
    attributes = attributes_of(op, row, given, lambda field, values: _list(field, values, layer, inputs))
    for field in row.fields.values():
        if isinstance(field, Flag) and field.name in attributes:
            layer.require(field.since, f"{row.op_type} with {field.name}")
            attributes[field.name] = int(attributes[field.name])
    made = layer.emit(row.op_type, inputs, attributes, layer.label, outputs=len(op.results))
    return made if len(made) > 1 else made[0]


def with_list(op_type: str, x: Operand, values: Sequence[int], layer: OnnxLayer) -> NodeParts:
    """A node with the list of integers of its row, which is an attribute or an input depending on the opset."""
    inputs = [x]
    return op_type, inputs, {**_list(_LISTS[op_type], values, layer, inputs)}


def unsqueezed(x: Operand, axes: Sequence[int], layer: OnnxLayer) -> str:
    """`x` with axes of size 1, by a node next to the one with the layer's name."""
    return layer.emit(*with_list("Unsqueeze", x, axes, layer), f"{layer.label}/Unsqueeze")[0]


def _list(field: Ints, values: Sequence[int] | None, layer: OnnxLayer, inputs: list[Operand]) -> Mapping[str, Any]:
    """A list of integers as an attribute, or added to the inputs."""
    if values is None:
        return {}
    if field.input_since is None or layer.opset < field.input_since:
        return {field.name: list(values) or None}
    inputs.append(layer.ints(values, field.name))
    return {}


for _kind in _ROWS.kinds:
    CONVERTERS.setdefault(_kind, by_row)
