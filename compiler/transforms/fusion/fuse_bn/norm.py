"""The numbers of a batch norm as one factor and one shift per channel."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....dialects.nn import BatchNormOp, constant_of
from ....rewriting import Array, condition
from ..computing import constant_numbers


def factor_and_shift(norm: BatchNormOp) -> tuple[Array, Array]:
    """`k = scale / sqrt(variance + epsilon)` and `offset - mean * k`, float64 `[C]`.

    A variance of -epsilon or less gives NaN or Inf, which no fold accepts.
    """
    scale, offset, mean, variance = map(constant_numbers, norm.operands[1:])
    with np.errstate(all="ignore"):
        k = scale / np.sqrt(variance + norm.epsilon.value.data)
        return k, offset - mean * k


class NormConditions:
    """The conditions of every fold of a batch norm. Frontends carry batch norms in training mode as opaque, so none of them
    comes here.
    """

    @condition
    def parameters_constant(self, m: Any) -> str | None:
        """scale, offset, mean and variance of the batch norm are constant"""
        for name, value in zip(("scale", "offset", "mean", "variance"), m.bn.operands[1:], strict=True):
            if constant_of(value) is None:
                return f"its {name} is computed at run time"
        return None
