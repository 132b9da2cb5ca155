"""Kernels of `ascend`: exact integers for integer operands, otherwise the operation's meaning in `nn`, otherwise its own.

Operations with an expansion in `nn` need none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from ...dialects.ascend import OPERATIONS, AscendOp
from ...dialects.ascend.cube import DATA
from ...dialects.nn.shapes import element_of
from . import Array, Kernel, bare_kernel_for, kernel
from .ascend_array import ARRAY_KERNELS
from .ascend_cube import INTEGER_KERNELS
from .ascend_integer import STEP_KERNELS
from .ascend_recurrent import RECURRENT_KERNELS
from .ascend_weights import WEIGHT_KERNELS

OWN_KERNELS: dict[type[AscendOp], Callable[[Any], Kernel]] = {
    **STEP_KERNELS,
    **WEIGHT_KERNELS,
    **ARRAY_KERNELS,
    **RECURRENT_KERNELS,
}
"""Kernels of operations without a counterpart or an expansion in `nn`."""


@kernel(*OWN_KERNELS)
def of_its_own(op: AscendOp) -> Kernel:
    return OWN_KERNELS[type(op)](op)


@kernel(*(op for op in OPERATIONS if op.has_meaning()))
def by_element(op: AscendOp) -> Kernel:
    """Computes in integers, if an operation has such a form and its data is int8 or int16."""
    integer = INTEGER_KERNELS.get(type(op))
    if integer is None or not any(element_of(operand) in DATA for operand in op.operands):
        return _by_meaning(op)
    run = integer(op)
    return lambda *arrays: cast(Array, run(*arrays)).astype(np.int32, copy=False)


def _by_meaning(op: AscendOp) -> Kernel:
    """The kernel of an operation's meaning in `nn`: one definition of each function serves both dialects."""
    meaning = op.meaning()
    run = cast(Kernel, bare_kernel_for(meaning.op))
    if (arrange := meaning.arrange) is not None:
        return lambda *arrays: run(*arrange(arrays))
    count = len(meaning.op.operands)
    return run if count == len(op.operands) else lambda *arrays: run(*arrays[:count])
