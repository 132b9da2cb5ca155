"""What every batch norm fold needs: the factor and shift per channel, and the names of the folded constants."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from ....dialects.nn import BatchNormOp, constant_of
from ....dtypes import numpy_dtype
from ....rewriting import Array, layer_of

PARAMETERS = ("bn.scale", "bn.offset", "bn.mean", "bn.variance")


def factor_and_shift(norm: BatchNormOp) -> tuple[Array, Array]:
    """`k = scale / sqrt(variance + epsilon)` and `offset - mean * k`, float64 `[C]`.

    A variance of -epsilon or less gives NaN or Inf, which no fold accepts.
    """
    scale, offset, mean, variance = (_numbers(v) for v in norm.operands[1:])
    k = scale / np.sqrt(variance + norm.epsilon.value.data)
    return k, offset - mean * k


def _numbers(value: SSAValue) -> Array:
    constant = constant_of(value)
    assert constant is not None, "the pattern has asked for constants"
    return constant.array.astype(np.float64)


def folded_constants(
    weight: SSAValue, norm: BatchNormOp
) -> tuple[tuple[str, np.dtype[Any]], tuple[str, np.dtype[Any]]]:
    """Key and dtype of the folded weight and bias: named after the weight, of its element type."""
    constant = constant_of(weight)
    assert constant is not None, "the pattern has asked for constants"
    dtype = numpy_dtype(constant.value.type.get_element_type())
    key = constant.key.removesuffix(".folded")
    bias = f"{key.removesuffix('weight')}bias" if key.endswith("weight") else f"{layer_of(norm)}.bias"
    return (f"{key}.folded", dtype), (f"{bias}.folded", dtype)
