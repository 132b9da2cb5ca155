"""Kernels of `ascend`: exact integers where the operands are int8, else what the operation means in `nn`."""

from __future__ import annotations

from ...dialects.ascend import AscendOp
from ...dialects.ascend.base import i8
from ...dialects.nn.shapes import element_of
from . import Kernel, kernel
from .ascend_float import MEANINGS, float_kernel
from .ascend_integer import INTEGER_KERNELS, QUANTIZATION_KERNELS


@kernel(*QUANTIZATION_KERNELS)
def quantization(op: AscendOp) -> Kernel:
    return QUANTIZATION_KERNELS[type(op)](op)


@kernel(*MEANINGS)
def by_element(op: AscendOp) -> Kernel:
    """In integers where an operation has an integer form and its data is int8."""
    integer = INTEGER_KERNELS.get(type(op))
    if integer is not None and any(element_of(operand) == i8 for operand in op.operands):
        return integer(op)
    return float_kernel(op)
