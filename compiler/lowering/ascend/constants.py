"""The numbers of operands: constants, and dequantized integer constants."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import nn
from ...dialects.nn.shapes import element_of
from ...ir.dtypes import numpy_dtype
from ...rewriting import Condition

Array = np.ndarray[Any, np.dtype[Any]]


def constant_behind(value: SSAValue | None) -> nn.ConstantOp | None:
    """The constant that produces a value, directly or through a dequantize."""
    dequantize = nn.dequantize_of(value)
    return nn.constant_of(value if dequantize is None else dequantize.input)


def numbers_behind(value: SSAValue | None) -> Array | None:
    """The numbers of a constant, or `(q - zero_point) * scale` of a dequantized one, in float32 and then in its type."""
    constant, dequantize = constant_behind(value), nn.dequantize_of(value)
    if constant is None or dequantize is None:
        return nn.array_of(value)
    scales, points = dequantize.qparams.data.broadcastable(constant.array.shape)
    reals = (constant.array.astype(np.float32) - points.astype(np.float32)) * scales
    return reals.astype(numpy_dtype(element_of(dequantize.result)))


def array_of(value: SSAValue) -> Array:
    """The numbers of an operand that a condition asked to be constant."""
    array = numbers_behind(value)
    assert array is not None
    return array


def constant_numbers(operand: str) -> Condition[Any]:
    """The operand is constant, possibly quantized."""
    value = attrgetter(operand)

    def check(_: Any, op: nn.NNOp) -> str | None:
        return f"its {operand} is computed at run time" if constant_behind(value(op)) is None else None

    return Condition(check, f"the {operand} is constant")
