"""From accumulators directly to integers, and the int16 path for additions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Attribute
from xdsl.irdl import Operand, OptOperand, irdl_op_definition, operand_def, opt_operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from ..nn.base import ANY_TENSOR, BOOL, REAL, Bool, Real, Result, real
from ..nn.shapes import merge_shape, shape_of, tensor
from .base import FALSE, ElementTypes, i8, i16
from .quantization import PerChannelOp

_SCALES = "is float32; targets pack it into uint64"
_INT16 = "the header defines neither where it rounds nor in which order it adds"


@irdl_op_definition
class AscendRequantOp(PerChannelOp):
    """`clip(rint(x * req_scale) + offset)`: an int32 accumulator to int8, with `relu_flag` from `max(0, x * req_scale)`.

    x int32 of any shape; req_scale as AscendDequant's deq_scale. x is rounded to float32, then the product is, then to an
    integer, ties to even; `offset` is an integer in [-128, 127].

    ```mlir
    %q = ascend.AscendRequant %acc, %scale offset -3.0 : (tensor<1x4x8x8xi32>, tensor<4xf32>) -> tensor<1x4x8x8xi8>
    ```
    """

    name = "ascend.AscendRequant"

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": (i32,), "req_scale": (f32,)}
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


@irdl_op_definition
class AscendDequantS16Op(PerChannelOp):
    """`clip(rint(x0 * deq_scale) + x1)`: an int32 accumulator to int16, with `relu_flag` no less than 0.

    x0 int32; deq_scale as AscendDequant's; x1 an int16 bias of a shape like deq_scale's. x0 is rounded to float32, then the
    product is, then to an integer, ties to even; the sum is exact.
    """

    name = "ascend.AscendDequantS16"

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x0": (i32,), "deq_scale": (f32,), "x1": (i16,)}
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


@irdl_op_definition
class AscendRequantS16Op(PerChannelOp):
    """int16 to int8: y1 is `clip(x0 + x1)` (x0 without x1), with `relu_flag` no less than 0; y0 is `clip(rint(y1 * req_scale))`.

    x0 and x1 int16 of one shape, req_scale as AscendDequant's deq_scale, y0 int8, y1 int16. y1, the sum that a following addition
    takes, may be used with `dual_output` only.
    """

    name = "ascend.AscendRequantS16"

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x0": (i16,), "req_scale": (f32,), "x1": (i16,)}
    DEVIATION: ClassVar[str] = f"req_scale {_SCALES}; {_INT16}"

    x0: Operand = operand_def(ANY_TENSOR)
    req_scale: Operand = operand_def(ANY_TENSOR)
    x1: OptOperand = opt_operand_def(ANY_TENSOR)
    dual_output: Bool = prop_def(BOOL, default_value=FALSE)
    relu_flag: Bool = prop_def(BOOL, default_value=FALSE)
    y0: Result = result_def(ANY_TENSOR)
    y1: Result = result_def(ANY_TENSOR)

    @classmethod
    def result_count(cls, properties: dict[str, Attribute | None]) -> int:
        return 2

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


__all__ = ["AscendDequantS16Op", "AscendRequantOp", "AscendRequantS16Op"]
