"""Arithmetic with a number, on many operands, or by a condition; and further activations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import i1, i32, i64
from xdsl.ir import SSAValue
from xdsl.irdl import Operand, VarOperand, operand_def, prop_def, result_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from .. import nn
from ..nn.attributes import RealsAttr
from ..nn.base import ANY_TENSOR, INT, REAL, Int, Real, Result, integer, real
from ..nn.shapes import merge_shape, same_element, shape_of, size, tensor
from .base import ALL, FB, FBD, REAL_NUMBER, AscendOp, check_range, declare, i16, operation
from .elementwise import ClippingOp, UnaryOp


@declare(nn.SeluOp)
class SeluOp(UnaryOp):
    """`1.0507 * x` where positive, `1.0507 * 1.6733 * (exp(x) - 1)` elsewhere."""


@declare(x=FB)
class SwishOp(UnaryOp):
    """`x / (1 + exp(-scale * x))`."""

    scale: Real = prop_def(REAL, default_value=real(1.0))


@declare(x=FB)
class FastGeluOp(UnaryOp):
    """`x / (1 + exp(-1.702 * |x|)) * exp(0.851 * (x - |x|))`, which is `x * sigmoid(1.702 * x)`."""


@declare(x=(*FBD, i32, i64))
class SquareOp(UnaryOp):
    """`x * x`."""


@declare(x=ALL)
class IdentityOp(UnaryOp):
    """Returns x unchanged."""


class ByNumberOp(UnaryOp):
    """x and one number, `value`, which is rounded to the type of x."""

    value: Real = prop_def(REAL)


@declare(x=(*FB, i16, i32))
class AddsOp(ByNumberOp):
    """`x + value`."""


@declare(x=(*FB, i16, i32, i64))
class MulsOp(ByNumberOp):
    """`x * value`."""


class ManyOp(AscendOp):
    """x are `N` tensors of one type and shape."""

    x: VarOperand = var_operand_def(ANY_TENSOR)
    N = prop_def(INT)
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        if not self.x or len(self.x) != self.N.value.data:
            raise VerifyException(f"N is {self.N.value.data}, but there are {len(self.x)} inputs")
        shape = shape_of(self.x[0])
        for value in self.x[1:]:
            shape = merge_shape(shape, shape_of(value), "shapes of the inputs")
        return [tensor(same_element(*self.x), shape)]


@declare(x=REAL_NUMBER)
class AddNOp(ManyOp):
    """The sum of `N` tensors of one shape, added in their order."""


@declare(x=FB)
class EltwiseOp(ManyOp):
    """Caffe: product (`mode 0`), sum (1) or largest element (2) of up to 32 tensors of one shape.

    The sum is weighted by `coeff`, which is empty or has a factor in [-1, 1] for each.
    """

    mode: Int = prop_def(INT, default_value=integer(1))
    coeff: RealsAttr = prop_def(RealsAttr, default_value=RealsAttr(()))

    @property
    def factors(self) -> tuple[float, ...]:
        return tuple(self.coeff.data)

    def derive(self) -> Sequence[Tensor]:
        check_range("mode", [self.mode.value.data], 0, 2)
        check_range("N", [self.N.value.data], 1, 32)
        if self.factors and len(self.factors) != self.N.value.data:
            raise VerifyException(f"coeff has {len(self.factors)} entries for {self.N.value.data} inputs")
        if self.factors and self.mode.value.data != 1:
            raise VerifyException("coeff is for mode 1, the sum")
        if any(not abs(f) <= 1 for f in self.factors):
            raise VerifyException("coeff must lie in [-1, 1]")
        return super().derive()


@declare(nn.WhereOp, condition=(i1,), x1=REAL_NUMBER, x2=REAL_NUMBER)
class SelectOp(AscendOp):
    """x1 where condition holds, else x2; all three of one shape, or broadcasting as in numpy."""

    DEVIATION: ClassVar[str] = "operands may broadcast, as those of SelectV2 do"

    condition: Operand = operand_def(ANY_TENSOR)
    x1: Operand = operand_def(ANY_TENSOR)
    x2: Operand = operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)


@operation
class ClipByValueV2Op(ClippingOp):
    """`min(max(x, clip_value_min), clip_value_max)`; each bound is one number, which may be computed at run time."""

    def check_bound(self, name: str, value: SSAValue) -> None:
        if size(shape_of(value)) != 1:
            raise VerifyException(f"{name} must hold one number")


__all__ = [
    "AddNOp",
    "AddsOp",
    "ByNumberOp",
    "ClipByValueV2Op",
    "EltwiseOp",
    "FastGeluOp",
    "IdentityOp",
    "MulsOp",
    "SelectOp",
    "SeluOp",
    "SquareOp",
    "SwishOp",
]
