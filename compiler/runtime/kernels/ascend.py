"""Kernels of `ascend`: exact integers where the operands are int8, else what the operation means in `nn`, else of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from ...dialects.ascend import AscendOp
from ...dialects.ascend.base import i8
from ...dialects.nn.shapes import element_of
from . import Array, Kernel, kernel
from .ascend_array import ARRAY_KERNELS
from .ascend_cube import INTEGER_KERNELS
from .ascend_float import MEANINGS, float_kernel
from .ascend_integer import STEP_KERNELS
from .ascend_moments import MOMENTS_KERNELS
from .ascend_weights import WEIGHT_KERNELS

OWN_KERNELS: dict[type[AscendOp], Callable[[Any], Kernel]] = {
    **STEP_KERNELS,
    **WEIGHT_KERNELS,
    **ARRAY_KERNELS,
    **MOMENTS_KERNELS,
}
"""Kernels of operations without one counterpart in `nn`."""


@kernel(*OWN_KERNELS)
def of_its_own(op: AscendOp) -> Kernel:
    return OWN_KERNELS[type(op)](op)


@kernel(*MEANINGS)
def by_element(op: AscendOp) -> Kernel:
    """In integers where an operation has an integer form and its data is int8."""
    integer = INTEGER_KERNELS.get(type(op))
    if integer is None or not any(element_of(operand) == i8 for operand in op.operands):
        return float_kernel(op)
    run = integer(op)
    return lambda *arrays: cast(Array, run(*arrays)).astype(np.int32, copy=False)
