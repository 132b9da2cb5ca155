"""Seeded inputs for a model without data."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.dialects.func import FuncOp

from ..diagnostics import describe
from ..dialects.nn import GatherOp
from ..ir.dtypes import Tensor, is_float, numpy_dtype
from ..limits import require
from .rows import ArrayRows
from .samples import Samples, input_types

SYNTHETIC_SAMPLES = 8
_DYNAMIC_SIZE = 8
_RANDOM_BYTES = 8
"""Bytes of a random number before it is converted."""
_SOURCE = "synthetic data"


def synthetic_samples(function: FuncOp, seed: int = 0, count: int = SYNTHETIC_SAMPLES) -> Samples:
    """Seeded inputs for a model without data: standard normal floats, integers that its gathers accept.

    Unknown sizes become 8, the first axis 1 (the batch).
    """
    random = np.random.default_rng(seed)
    types = input_types(function)
    rows: dict[str, ArrayRows] = {}
    for i, (name, type_) in enumerate(types.items()):
        shape = _concrete(type_.get_shape())
        dtype = numpy_dtype(type_.element_type)
        # sizes of 0 do not make up for others: numpy cannot make such shapes
        size = count * prod(max(d, 1) for d in shape) * _RANDOM_BYTES
        require(size, f"synthetic data for input '{name}' of shape {list(shape)}", describe(function.location))
        if is_float(type_.element_type):
            array = random.standard_normal((count, *shape)).astype(dtype)
        else:
            limit = _integer_limit(function, i)
            array = random.integers(0, limit, (count, *shape)).astype(dtype)
        rows[name] = ArrayRows(array, _SOURCE)
    return Samples(rows, types, count, _SOURCE, synthetic=True)


def _concrete(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple((1 if i == 0 else _DYNAMIC_SIZE) if d == DYNAMIC_INDEX else d for i, d in enumerate(shape))


def _integer_limit(function: FuncOp, index: int) -> int:
    """One more than the largest safe integer: the size of the tables that the input indexes, 2 if there are none."""
    limits: list[int] = []
    for use in function.body.block.args[index].uses:
        if isinstance(use.operation, GatherOp) and use.index == 1:
            gather = use.operation
            limits.append(cast(Tensor, gather.input.type).get_shape()[gather.axis.value.data])
    known = [n for n in limits if n != DYNAMIC_INDEX]
    return min(known, default=2)
