"""Conversions from reals to integers and back. One rounding order for the dialect: each step rounds once to float32, in
the order written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerType, StringAttr, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import Operand, OptOperand, operand_def, opt_operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor, integer_range
from ...ir.precision import FORCE_FP16, PRECISION_MODES
from ..nn.base import ANY_TENSOR, BOOL, INT, INTS, REAL, TEXT, Bool, Int, Ints, Real, Result, Text, integer, ints, real
from ..nn.constant import constant_of
from ..nn.shapes import Shape, known, merge_dim, merge_shape, shape_of, size, tensor
from .base import (
    DATA_TYPES,
    FALSE,
    AscendOp,
    F,
    check_choice,
    check_range,
    declare,
    f32,
    i4,
    i8,
    i16,
    int_list,
)

STORAGE: Mapping[int, IntegerType] = {2: i8, 29: i4}
"""The result types of quantizations, by dst_type."""
_STORAGE: Mapping[int, IntegerType] = {**STORAGE, 6: i16}
"""The result types of AscendQuant, by dst_type."""

ROUND_MODES = ("Round", "Floor", "Ceil", "Trunc")
"""Round is to nearest, ties to even. (Hybrid is for hifloat8, which has no element type here.)"""

DEFAULT_MODE = StringAttr(PRECISION_MODES[0])
"""The precision mode of AscendQuant and AscendDequant: float32."""


def check_precision(mode: StringAttr, sqrt_mode: Bool) -> None:
    """Raises VerifyException for an unknown mode, and for FORCE_FP16_QUANT with sqrt_mode, which AMCT does not define."""
    check_choice("fakequant_precision_mode", mode, PRECISION_MODES)
    if mode.data == FORCE_FP16 and sqrt_mode.value.data:
        raise VerifyException(f"{FORCE_FP16} and sqrt_mode exclude each other")


class ScaledOp(AscendOp):
    """An operation with a `scale`, positive and finite."""

    scale: Real = prop_def(REAL)
    offset: Real = prop_def(REAL)
    sqrt_mode: Bool = prop_def(BOOL, default_value=FALSE)

    x: Operand = operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)

    def check_scale(self) -> None:
        if not 0 < self.scale.value.data < float("inf"):
            raise VerifyException("scale must be positive and finite")


@declare(x=F)
class AscendQuantOp(ScaledOp):
    """`clip(round(x * scale + offset))` to int8 (`dst_type 2`), int16 (6) or int4 (29), per tensor. x of any shape of
    rank 1 to 8.

    `scale` is the reciprocal of the real step: `float32(1 / scale_d)`. Product, sum and rounding each round to float32; with
    `sqrt_mode` the product is `x * scale * scale`. With `fakequant_precision_mode "FORCE_FP16_QUANT"` (AMCT) x, scale, product
    and sum each round to float16's 11 bits.

    ```mlir
    %q = ascend.AscendQuant %x scale 50.0 offset -3.0 : tensor<1x3x8x8xf32> -> tensor<1x3x8x8xi8>
    ```
    """

    DEVIATION: ClassVar[str] = "gives int16 as well, as AMCT's files have it"

    round_mode: Text = prop_def(TEXT, default_value=StringAttr("Round"))
    dst_type: Int = prop_def(INT, default_value=integer(2))
    fakequant_precision_mode: Text = prop_def(TEXT, default_value=DEFAULT_MODE)

    @staticmethod
    def type_number(storage: IntegerType) -> int:
        """The dst_type that gives integers of a type."""
        return next(number for number, each in _STORAGE.items() if each == storage)

    @property
    def storage(self) -> IntegerType:
        if (storage := _STORAGE.get(self.dst_type.value.data)) is None:
            raise VerifyException(f"dst_type {self.dst_type.value.data} is not 2 (int8), 6 (int16) or 29 (int4)")
        return storage

    def derive(self) -> Sequence[Tensor]:
        self.check_scale()
        check_choice("round_mode", self.round_mode, ROUND_MODES)
        check_precision(self.fakequant_precision_mode, self.sqrt_mode)
        low, high = integer_range(self.storage)
        if not low <= self.offset.value.data <= high:
            raise VerifyException(f"offset {self.offset.value.data:g} is not in [{low}, {high}]")
        shape = shape_of(self.x)
        if not 1 <= len(shape) <= 8:
            raise VerifyException(f"x must be of rank 1 to 8, not {len(shape)}")
        if self.storage == i4 and known(shape[-1]) and shape[-1] % 2:
            raise VerifyException("int4 needs an even last size")
        return [tensor(self.storage, shape)]


@declare(x=(i8,))
class AscendAntiQuantOp(ScaledOp):
    """`(x + offset) * scale` in float32 (`dtype 0`) or float16 (1). x int8 of any shape; **offset is the negated zero point**."""

    dtype: Int = prop_def(INT, default_value=integer(0))

    def derive(self) -> Sequence[Tensor]:
        self.check_scale()
        return [tensor(_float_type(self.dtype.value.data), shape_of(self.x))]


class PerChannelOp(AscendOp):
    """Multiplies integers by float32 scales: `[1]`, `[C]` for the channels on axis 1, or of full rank with all other sizes 1."""

    @property
    def integers(self) -> SSAValue:
        """The integers to multiply."""
        return self.operands[0]

    @property
    def scales(self) -> SSAValue:
        return self.operands[1]

    @property
    def scale_shape(self) -> Shape:
        """The shape in which the scales broadcast to the integers."""
        return self.along_channels(self.scales)

    def along_channels(self, value: SSAValue) -> Shape:
        rank, shape = len(shape_of(self.integers)), shape_of(value)
        if len(shape) != 1 or rank < 2 or shape == (1,):
            return shape
        return (1, *shape, *(1,) * (rank - 2))

    def check_channels(self, what: str, value: SSAValue) -> None:
        """Raises VerifyException unless there is one number, or one for each channel."""
        x, shape = shape_of(self.integers), self.along_channels(value)
        if len(shape) not in (1, len(x)):
            raise VerifyException(f"{what} must be of rank 1 or {len(x)}, not {len(shape)}")
        if sum(d != 1 for d in shape) > 1:
            raise VerifyException(f"{what} {list(shape)} has more than one size above 1")
        if shape == (1,):
            return
        for d, s in zip(x, shape, strict=True):
            if s != 1:
                merge_dim(d, s, f"channels of x and {what} length")

    def verify_operation(self) -> None:
        super().verify_operation()
        if constant_of(self.scales) is None:
            name, _ = self.get_irdl_definition().operands[1]
            raise VerifyException(f"{name} must be a constant")


@declare(x=(i32,), deq_scale=(f32,))
class AscendDequantOp(PerChannelOp):
    """`float32(x) * deq_scale`, then `max(0, .)` with `relu_flag`: an int32 accumulator to float32 (`dtype 0`) or float16 (1).

    x int32; deq_scale a constant: `[1]`, `[C]` for the channels on axis 1 of x, or of the rank of x with all other sizes 1.
    x is rounded to float32 (to nearest, ties to even), then the product is; with `sqrt_mode` it is multiplied twice.
    `shift_n` (AMCT's shift N, 0 to 16; one number, or one per scale) keeps 16 bits of the accumulator:
    `clip(floor(x / 2^N), -2^15, 2^15 - 1) * (deq_scale * 2^N)`. One N above 0 clips all channels, those with N = 0, too.
    With `fakequant_precision_mode "FORCE_FP16_QUANT"` (AMCT) deq_scale loses its last 13 bits, and the product rounds to 11 bits.

    ```mlir
    %y = ascend.AscendDequant %acc, %scale : (tensor<1x4x8x8xi32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>
    ```
    """

    DEVIATION: ClassVar[str] = (
        "deq_scale is float32 and shift_n stands next to it; targets pack both into uint64 (the scale without 2^N)"
    )

    x: Operand = operand_def(ANY_TENSOR)
    deq_scale: Operand = operand_def(ANY_TENSOR)
    sqrt_mode: Bool = prop_def(BOOL, default_value=FALSE)
    relu_flag: Bool = prop_def(BOOL, default_value=FALSE)
    dtype: Int = prop_def(INT, default_value=integer(0))
    shift_n: Ints = prop_def(INTS, default_value=int_list())
    fakequant_precision_mode: Text = prop_def(TEXT, default_value=DEFAULT_MODE)
    y: Result = result_def(ANY_TENSOR)

    @property
    def shifts(self) -> tuple[int, ...]:
        """The shift of every scale, or one for all; empty if accumulators are not shifted."""
        return ints(self.shift_n)

    def derive(self) -> Sequence[Tensor]:
        self.check_channels("deq_scale", self.deq_scale)
        self._check_shifts()
        check_precision(self.fakequant_precision_mode, self.sqrt_mode)
        return [tensor(_float_type(self.dtype.value.data), shape_of(self.x))]

    def _check_shifts(self) -> None:
        if not self.shifts:
            return
        check_range("shift_n", self.shifts, 0, 16)
        if not any(self.shifts):
            raise VerifyException("shift_n has no number above 0")
        count = size(shape_of(self.deq_scale))
        if len(self.shifts) not in (1, count):
            raise VerifyException(f"shift_n has {len(self.shifts)} entries for {count} scales")
        if self.sqrt_mode.value.data:
            raise VerifyException("shift_n and sqrt_mode exclude each other")


def _float_type(number: int) -> Attribute:
    element = DATA_TYPES.get(number)
    if element is None or element not in F:
        raise VerifyException(f"dtype {number} is neither 0 (float32) nor 1 (float16)")
    return element


_SCALES = "is float32; targets pack it into uint64"
_INT16 = "the header defines neither where it rounds nor in which order it adds"


@declare(x=(i32,), req_scale=(f32,))
class AscendRequantOp(PerChannelOp):
    """`clip(rint(x * req_scale) + offset)`: an int32 accumulator to int8, with `relu_flag` from `max(0, x * req_scale)`.

    x int32 of any shape; req_scale as AscendDequant's deq_scale. x is rounded to float32, then the product is, then to an
    integer, ties to even; `offset` is an integer in [-128, 127].

    ```mlir
    %q = ascend.AscendRequant %acc, %scale offset -3.0 : (tensor<1x4x8x8xi32>, tensor<4xf32>) -> tensor<1x4x8x8xi8>
    ```
    """

    DEVIATION: ClassVar[str] = f"req_scale {_SCALES}; has the attribute offset; x may be of any rank, not 4 to 6 only"

    x: Operand = operand_def(ANY_TENSOR)
    req_scale: Operand = operand_def(ANY_TENSOR)
    offset: Real = prop_def(REAL, default_value=real(0.0))
    relu_flag: Bool = prop_def(BOOL, default_value=FALSE)
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        self.check_channels("req_scale", self.req_scale)
        offset = self.offset.value.data
        if not (-128 <= offset <= 127 and float(offset).is_integer()):
            raise VerifyException(f"offset {offset:g} is not an integer in [-128, 127]")
        return [tensor(i8, shape_of(self.x))]


@declare(x0=(i32,), deq_scale=(f32,), x1=(i16,))
class AscendDequantS16Op(PerChannelOp):
    """`clip(rint(x0 * deq_scale) + x1)`: an int32 accumulator to int16, with `relu_flag` no less than 0.

    x0 int32; deq_scale as AscendDequant's; x1 an int16 bias of a shape like deq_scale's. x0 is rounded to float32, then the
    product is, then to an integer, ties to even; the sum is exact.
    """

    DEVIATION: ClassVar[str] = f"deq_scale {_SCALES}; {_INT16}"

    x0: Operand = operand_def(ANY_TENSOR)
    deq_scale: Operand = operand_def(ANY_TENSOR)
    x1: OptOperand = opt_operand_def(ANY_TENSOR)
    relu_flag: Bool = prop_def(BOOL, default_value=FALSE)
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        self.check_channels("deq_scale", self.deq_scale)
        if self.x1 is not None:
            self.check_channels("x1", self.x1)
        return [tensor(i16, shape_of(self.x0))]


@declare(x0=(i16,), req_scale=(f32,), x1=(i16,))
class AscendRequantS16Op(PerChannelOp):
    """int16 to int8: y1 is `clip(x0 + x1)` (x0 without x1), with `relu_flag` no less than 0; y0 is `clip(rint(y1 * req_scale))`.

    x0 and x1 int16 of one shape, req_scale as AscendDequant's deq_scale, y0 int8, y1 int16. y1, the sum that a following addition
    takes, may be used with `dual_output` only.
    """

    DEVIATION: ClassVar[str] = f"req_scale {_SCALES}; {_INT16}"

    x0: Operand = operand_def(ANY_TENSOR)
    req_scale: Operand = operand_def(ANY_TENSOR)
    x1: OptOperand = opt_operand_def(ANY_TENSOR)
    dual_output: Bool = prop_def(BOOL, default_value=FALSE)
    relu_flag: Bool = prop_def(BOOL, default_value=FALSE)
    y0: Result = result_def(ANY_TENSOR)
    y1: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        self.check_channels("req_scale", self.req_scale)
        x = shape_of(self.x0)
        if self.x1 is not None:
            x = merge_shape(x, shape_of(self.x1), "shapes of x0 and x1")
        return [tensor(i8, x), tensor(i16, x)]

    def verify_operation(self) -> None:
        super().verify_operation()
        if self.y1.uses and not self.dual_output.value.data:
            raise VerifyException("y1 is used, which needs dual_output")


__all__ = [
    "AscendAntiQuantOp",
    "AscendDequantOp",
    "AscendDequantS16Op",
    "AscendQuantOp",
    "AscendRequantOp",
    "AscendRequantS16Op",
    "PerChannelOp",
]
