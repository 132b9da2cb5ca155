"""Matrix products of the matrix engine, and BiasAdd."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute
from xdsl.irdl import Operand, OptOperand, operand_def, opt_operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from .. import nn
from ..nn.base import ANY_TENSOR, BOOL, INT, TEXT, Bool, Int, Result, Text, integer
from ..nn.shapes import Shape, broadcast, element_of, merge_dim, shape_of, size, tensor
from .base import (
    FALSE,
    REAL_NUMBER,
    AscendOp,
    Meaning,
    check_choice,
    check_range,
    declare,
    operation,
    stand_ins,
)
from .cube import INT16_DEVIATION, WIDE_ROWS, OffsetOp, Row


class MatrixOp(OffsetOp):
    """x1 `[..., M, K]` times x2 `[..., K, N]` after their transpose flags, bias `[N]`."""

    ROWS: ClassVar[Mapping[Attribute, Row]] = WIDE_ROWS
    DEVIATION: ClassVar[str] = INT16_DEVIATION

    x1: Operand = operand_def(ANY_TENSOR)
    x2: Operand = operand_def(ANY_TENSOR)
    bias: OptOperand = opt_operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)

    FLAGS: ClassVar[tuple[str, str]]
    """The properties for x1 and x2 that tell whether their last two axes are stored transposed."""

    @property
    def transposes(self) -> tuple[bool, bool]:
        """The flags."""
        first, second = (bool(getattr(self, name).value.data) for name in self.FLAGS)
        return first, second

    @classmethod
    def like(cls, op: nn.MatMulOp) -> dict[str, Any]:
        return dict(zip(cls.FLAGS, (op.transpose_a is not None, op.transpose_b is not None), strict=True))

    @property
    def shapes(self) -> tuple[Shape, Shape]:
        """The shapes of x1 and x2 after their transpose flags."""
        first, second = self.transposes
        return _swapped(shape_of(self.x1), first), _swapped(shape_of(self.x2), second)

    def derive(self) -> Sequence[Tensor]:
        row = self.row(self.x1, self.x2, self.bias, "x2")
        a, b = self.shapes
        merge_dim(a[-1], b[-2], "contracted sizes")
        if self.bias is not None:
            if len(shape_of(self.bias)) != 1:
                raise VerifyException("bias must be of rank 1")
            merge_dim(shape_of(self.bias)[0], b[-1], "bias length and output columns")
        return [tensor(row.y[0], (*broadcast(a[:-2], b[:-2]), a[-2], b[-1]))]

    def meaning(self) -> Meaning:
        a, b = self.transposes
        return self.as_nn(nn.MatMulOp, transpose_a=a, transpose_b=b)


def _swapped(shape: Shape, flag: bool) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2]) if flag else shape


@operation
class MatMulV2Op(MatrixOp):
    """Matrix product of rank 2: x1 `[M, K]`, x2 `[K, N]`, bias `[N]`, y `[M, N]`. Integers give int32.

    ```mlir
    %y = ascend.MatMulV2 %x, %w, %b transpose_x2 true offset_x -128 : (...) -> tensor<1x10xi32>
    ```
    """

    FLAGS: ClassVar[tuple[str, str]] = ("transpose_x1", "transpose_x2")

    transpose_x1: Bool = prop_def(BOOL, default_value=FALSE)
    transpose_x2: Bool = prop_def(BOOL, default_value=FALSE)

    def derive(self) -> Sequence[Tensor]:
        for name, value in (("x1", self.x1), ("x2", self.x2)):
            if (rank := len(shape_of(value))) != 2:
                raise VerifyException(f"{name} must be of rank 2, not {rank}")
        return super().derive()


@operation
class BatchMatMulV2Op(MatrixOp):
    """Matrix products with numpy's batch broadcasting: x1 `[..., M, K]`, x2 `[..., K, N]`, bias `[N]`, y `[..., M, N]`."""

    FLAGS: ClassVar[tuple[str, str]] = ("adj_x1", "adj_x2")

    adj_x1: Bool = prop_def(BOOL, default_value=FALSE)
    adj_x2: Bool = prop_def(BOOL, default_value=FALSE)

    def derive(self) -> Sequence[Tensor]:
        for name, value in (("x1", self.x1), ("x2", self.x2)):
            if (rank := len(shape_of(value))) < 2:
                raise VerifyException(f"{name} must be of rank 2 or more, not {rank}")
        return super().derive()


@operation
class FullyConnectionOp(OffsetOp):
    """Inner product (Caffe): x, whose axes from `axis` (1 or 2) on become K, times w, plus b `[num_output]`.

    w is `[num_output, K]`, with `transpose` `[K, num_output]`; y `[N, num_output]`, for axis 2 `[N, d1, num_output]`.
    """

    x: Operand = operand_def(ANY_TENSOR)
    w: Operand = operand_def(ANY_TENSOR)
    b: OptOperand = opt_operand_def(ANY_TENSOR)
    num_output: Int = prop_def(INT)
    transpose: Bool = prop_def(BOOL, default_value=FALSE)
    axis: Int = prop_def(INT, default_value=integer(1))
    y: Result = result_def(ANY_TENSOR)

    @property
    def first_axis(self) -> int:
        return self.axis.value.data

    @property
    def is_transposed(self) -> bool:
        return bool(self.transpose.value.data)

    @classmethod
    def like(cls, op: nn.MatMulOp) -> dict[str, Any]:
        axis = max(len(shape_of(op.lhs)), 2) - 1
        return {"num_output": op.output_channels, "transpose": op.transpose_b is None, "axis": axis}

    def derive(self) -> Sequence[Tensor]:
        row = self.row(self.x, self.w, self.b, "w")
        x, outputs = shape_of(self.x), self.num_output.value.data
        check_range("axis", [self.first_axis], 1, 2)
        if len(x) <= self.first_axis:
            raise VerifyException(f"x must be of rank {self.first_axis + 1} or more, not {len(x)}")
        if (rank := len(shape_of(self.w))) != 2:
            raise VerifyException(f"w must be of rank 2, not {rank}")
        rows, depth = _swapped(shape_of(self.w), self.is_transposed)
        merge_dim(rows, outputs, "outputs of w and num_output")
        merge_dim(size(x[self.first_axis :]), depth, "contracted sizes")
        if self.b is not None:
            if len(shape_of(self.b)) != 1:
                raise VerifyException("b must be of rank 1")
            merge_dim(shape_of(self.b)[0], outputs, "length of b and num_output")
        return [tensor(row.y[0], (*x[: self.first_axis], outputs))]

    def meaning(self) -> Meaning:
        """x with the summed axes merged into one; dynamic sizes are those of the arrays."""
        axis, columns = self.first_axis, shape_of(self.w)[0 if self.is_transposed else 1]
        x = tensor(element_of(self.x), (*shape_of(self.x)[:axis], columns))
        meaning = nn.MatMulOp.make(*stand_ins([x, *self.operand_types[1:]]), transpose_b=not self.is_transposed)
        return Meaning(meaning, lambda arrays: (arrays[0].reshape(*arrays[0].shape[:axis], -1), *arrays[1:]))


@declare(x=REAL_NUMBER, bias=REAL_NUMBER)
class BiasAddOp(AscendOp):
    """Adds one number per channel. x `[N, ..., C]` (`data_format "NCHW"`: `[N, C, ...]`), bias `[C]`, y as x."""

    x: Operand = operand_def(ANY_TENSOR)
    bias: Operand = operand_def(ANY_TENSOR)
    data_format: Text = prop_def(TEXT, default_value=StringAttr("NHWC"))
    y: Result = result_def(ANY_TENSOR)

    @property
    def channels_last(self) -> bool:
        return check_choice("data_format", self.data_format, ("NHWC", "NCHW")) == "NHWC"

    @property
    def channel_axis(self) -> int:
        return len(shape_of(self.x)) - 1 if self.channels_last else 1

    def meaning(self) -> Meaning:
        return self.as_nn(nn.BiasAddOp, layout="nhwc" if self.channels_last else "nchw")


__all__ = ["BatchMatMulV2Op", "BiasAddOp", "FullyConnectionOp", "MatMulV2Op", "MatrixOp"]
