"""Operations written by the rows of `formats/tensorflow/operators.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...dialects import nn
from ...formats.rows import Ints
from ...formats.tensorflow.operators import ROWS
from ..rows import Rows, attributes_of
from .layer import CONVERTERS, Operand, TensorFlowLayer

_ROWS = Rows(ROWS)


def by_row(op: nn.NNOp, layer: TensorFlowLayer, **given: Any) -> str:
    """The operator of the row for an operation; lists of integers are inputs. Raises Expand if it has other properties."""
    row, inputs = _ROWS.of(op), list[Operand](op.operands)

    def add(field: Ints, values: Sequence[int] | None) -> Mapping[str, Any]:
        inputs.append(layer.ints(values or (), field.name))
        return {}

    attributes = attributes_of(op, row, given, add)
    return layer.node(row.op_type, *inputs, **attributes)


for _kind in _ROWS.kinds:
    CONVERTERS.setdefault(_kind, by_row)
