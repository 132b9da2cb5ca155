"""From reals to integers and back. One rounding order for the dialect: each step rounds once to float32, in the order written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerType, StringAttr, i32
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...dtypes import Tensor, integer_range
from ..nn.base import ANY_TENSOR, BOOL, INT, REAL, TEXT, integer
from ..nn.constant import constant_of
from ..nn.shapes import Shape, known, merge_dim, shape_of, tensor
from .base import DATA_TYPES, FALSE, AscendOp, ElementTypes, F, check_choice, f32, i4, i8

STORAGE: Mapping[int, IntegerType] = {2: i8, 29: i4}
"""What AscendQuant gives, by dst_type."""

ROUND_MODES = ("Round", "Floor", "Ceil", "Trunc")
"""Round is to nearest, ties to even. (Hybrid is for hifloat8, which has no element type here.)"""


class ScaledOp(AscendOp):
    """Has a `scale`, positive and finite."""

    scale = prop_def(REAL)
    offset = prop_def(REAL)
    sqrt_mode = prop_def(BOOL, default_value=FALSE)

    x = operand_def(ANY_TENSOR)
    y = result_def(ANY_TENSOR)

    def check_scale(self) -> None:
        if not 0 < self.scale.value.data < float("inf"):
            raise VerifyException("scale must be positive and finite")


@irdl_op_definition
class AscendQuantOp(ScaledOp):
    """`clip(round(x * scale + offset))` to int8 (`dst_type 2`) or int4 (29), per tensor. x of any shape of rank 1 to 8.

    `scale` is the reciprocal of the real step: `float32(1 / scale_d)`. Product, sum and rounding each round to float32; with
    `sqrt_mode` the product is `x * scale * scale`.

    ```mlir
    %q = ascend.AscendQuant %x scale 50.0 offset -3.0 : tensor<1x3x8x8xf32> -> tensor<1x3x8x8xi8>
    ```
    """

    name = "ascend.AscendQuant"

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": F}

    round_mode = prop_def(TEXT, default_value=StringAttr("Round"))
    dst_type = prop_def(INT, default_value=integer(2))

    @property
    def storage(self) -> IntegerType:
        if (storage := STORAGE.get(self.dst_type.value.data)) is None:
            raise VerifyException(f"dst_type {self.dst_type.value.data} is neither 2 (int8) nor 29 (int4)")
        return storage

    def derive(self) -> Sequence[Tensor]:
        self.check_scale()
        check_choice("round_mode", self.round_mode, ROUND_MODES)
        low, high = integer_range(self.storage)
        if not low <= self.offset.value.data <= high:
            raise VerifyException(f"offset {self.offset.value.data:g} is not in [{low}, {high}]")
        shape = shape_of(self.x)
        if not 1 <= len(shape) <= 8:
            raise VerifyException(f"x must be of rank 1 to 8, not {len(shape)}")
        if self.storage == i4 and known(shape[-1]) and shape[-1] % 2:
            raise VerifyException("int4 needs an even last size")
        return [tensor(self.storage, shape)]


@irdl_op_definition
class AscendAntiQuantOp(ScaledOp):
    """`(x + offset) * scale` in float32 (`dtype 0`) or float16 (1). x int8 of any shape; **offset is the negated zero point**."""

    name = "ascend.AscendAntiQuant"

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": (i8,)}

    dtype = prop_def(INT, default_value=integer(0))

    def derive(self) -> Sequence[Tensor]:
        self.check_scale()
        return [tensor(_float_type(self.dtype.value.data), shape_of(self.x))]


@irdl_op_definition
class AscendDequantOp(AscendOp):
    """`float32(x) * deq_scale`, then `max(0, .)` with `relu_flag`: an int32 accumulator to float32 (`dtype 0`) or float16 (1).

    x int32; deq_scale a constant: `[1]`, `[C]` for the channels on axis 1 of x, or of the rank of x with all other sizes 1.
    x is rounded to float32 (to nearest, ties to even), then the product is; with `sqrt_mode` it is multiplied twice.

    ```mlir
    %y = ascend.AscendDequant %acc, %scale : (tensor<1x4x8x8xi32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>
    ```
    """

    name = "ascend.AscendDequant"

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": (i32,), "deq_scale": (f32,)}
    DEVIATION: ClassVar[str] = "deq_scale is float32; targets pack it into uint64"

    x = operand_def(ANY_TENSOR)
    deq_scale = operand_def(ANY_TENSOR)
    sqrt_mode = prop_def(BOOL, default_value=FALSE)
    relu_flag = prop_def(BOOL, default_value=FALSE)
    dtype = prop_def(INT, default_value=integer(0))
    y = result_def(ANY_TENSOR)

    @property
    def scale_shape(self) -> Shape:
        """The shape under which deq_scale broadcasts to x."""
        rank, scale = len(shape_of(self.x)), shape_of(self.deq_scale)
        if len(scale) != 1 or rank < 2 or scale == (1,):
            return scale
        return (1, *scale, *(1,) * (rank - 2))

    def derive(self) -> Sequence[Tensor]:
        x, scale = shape_of(self.x), self.scale_shape
        if len(scale) not in (1, len(x)):
            raise VerifyException(f"deq_scale must be of rank 1 or {len(x)}, not {len(scale)}")
        if sum(d != 1 for d in scale) > 1:
            raise VerifyException(f"deq_scale {list(scale)} has more than one size above 1")
        if scale != (1,):
            for d, s in zip(x, scale, strict=True):
                if s != 1:
                    merge_dim(d, s, "channels of x and deq_scale length")
        return [tensor(_float_type(self.dtype.value.data), x)]

    def verify_operation(self) -> None:
        super().verify_operation()
        if constant_of(self.deq_scale) is None:
            raise VerifyException("deq_scale must be a constant")


def _float_type(number: int) -> Attribute:
    element = DATA_TYPES.get(number)
    if element is None or element not in F:
        raise VerifyException(f"dtype {number} is neither 0 (float32) nor 1 (float16)")
    return element
