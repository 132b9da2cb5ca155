"""Operations written by the rows of `formats/caffe/operators.py`."""

from __future__ import annotations

from typing import Any

from ...dialects import nn
from ...formats.caffe.operators import ROWS
from ..rows import Rows, attributes_of
from .layer import CONVERTERS, CaffeLayer, Written

_ROWS = Rows(ROWS)


def by_row(op: nn.NNOp, layer: CaffeLayer, **given: Any) -> Written:
    """The layer of the row for an operation, on its first operand; names are those of a message and its field."""
    row, params = _ROWS.of(op), dict[str, Any]()
    for path, value in attributes_of(op, row, given, lambda field, values: {field.name: values}).items():
        message, _, name = path.partition(".")
        params.setdefault(message, {})[name] = value
    return layer.layer(row.op_type, op.operands[0], **params)


for _kind in _ROWS.kinds:
    CONVERTERS.setdefault(_kind, by_row)
