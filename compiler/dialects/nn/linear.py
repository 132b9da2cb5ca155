"""Matrix multiplication, and the bias that a frontend saw as a layer of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.irdl import Operand, OptOperand, operand_def, opt_operand_def, opt_prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from .base import ANY_TENSOR, FLAG, Flag, NNOp, Result, operation
from .constant import constant_of
from .fused import outside
from .shapes import DYNAMIC, Shape, broadcast, merge_dim, same_element, shape_of, tensor
from .window import LayoutOp


@operation
class MatMulOp(NNOp):
    """Matrix product with numpy's batch broadcasting (ONNX MatMul, Gemm; TensorFlow MatMul, BatchMatMulV2).

    lhs `[..., M, K]`, rhs `[..., K, N]`, bias `[N]`, result `[..., M, N]`. `transpose_a` and `transpose_b` say that the
    last two axes of an operand are stored transposed. An operand of rank 1 is a vector, as in numpy.matmul.
    """

    name = "nn.matmul"

    lhs: Operand = operand_def(ANY_TENSOR)
    rhs: Operand = operand_def(ANY_TENSOR)
    bias: OptOperand = opt_operand_def(ANY_TENSOR)
    transpose_a: Flag | None = opt_prop_def(FLAG)
    transpose_b: Flag | None = opt_prop_def(FLAG)
    result: Result = result_def(ANY_TENSOR)

    @property
    def lhs_shape(self) -> Shape:
        """The left operand's shape after its transpose flag."""
        return _transposed(shape_of(self.lhs), self.transpose_a is not None)

    @property
    def rhs_shape(self) -> Shape:
        """The right operand's shape after its transpose flag: `[..., K, N]`."""
        return _transposed(shape_of(self.rhs), self.transpose_b is not None)

    @property
    def output_channels(self) -> int:
        """N; 1 if the right operand is a vector."""
        return self.rhs_shape[-1] if len(self.rhs_shape) > 1 else 1

    @property
    def is_homogeneous(self) -> bool:
        return self.bias is None

    @property
    def acts_by_sample(self) -> bool:
        """One matrix for all samples, or one each; rows are samples where the left operand is a matrix."""
        lhs, rhs = shape_of(self.lhs), shape_of(self.rhs)
        if constant_of(outside(self.rhs)) is not None:
            return len(lhs) > len(rhs) or (len(lhs) == len(rhs) == 2 and self.transpose_a is None)
        return len(lhs) == len(rhs) > 2

    def infer(self) -> Sequence[Tensor]:
        lhs, rhs = self.lhs_shape, self.rhs_shape
        left = (1, *lhs) if len(lhs) == 1 else lhs
        right = (*rhs, 1) if len(rhs) == 1 else rhs
        merge_dim(left[-1], right[-2], "contracted sizes")
        shape = (*broadcast(left[:-2], right[:-2]), left[-2], right[-1])
        if len(lhs) == 1:
            shape = (*shape[:-2], shape[-1])
        if len(rhs) == 1:
            shape = shape[:-1]
        if self.bias is not None:
            if len(shape_of(self.bias)) != 1 or len(rhs) == 1:
                raise VerifyException("bias must be of rank 1, beside a right operand of rank 2 or more")
            merge_dim(shape_of(self.bias)[0], right[-1], "bias length and output columns")
        return [tensor(same_element(self.lhs, self.rhs, self.bias), shape)]


def _transposed(shape: Shape, flag: bool) -> Shape:
    if not shape:
        raise VerifyException("a scalar cannot be multiplied as a matrix")
    if not flag:
        return shape
    if len(shape) < 2:
        raise VerifyException("a vector cannot be transposed")
    return (*shape[:-2], shape[-1], shape[-2])


@operation
class BiasAddOp(LayoutOp):
    """Adds one number per channel (TensorFlow BiasAdd).

    input `[N, C, ...]` (`layout nhwc`: `[N, ..., C]`; rank 2 has its channels last either way), bias `[C]`, result as input.
    """

    KEEPS_SHAPE: ClassVar[bool] = True

    input: Operand = operand_def(ANY_TENSOR)
    bias: Operand = operand_def(ANY_TENSOR)
    result: Result = result_def(ANY_TENSOR)

    def infer(self) -> Sequence[Tensor]:
        x, b = shape_of(self.input), shape_of(self.bias)
        if len(x) < 2 or len(b) != 1:
            raise VerifyException(f"input of rank {len(x)} and bias of rank {len(b)}, expected at least 2 and 1")
        axis = self.channel_axis(len(x))
        channels = merge_dim(x[axis], b[0], "channels and bias length")
        shape = (*x[:axis], DYNAMIC if x[axis] == DYNAMIC else channels, *x[axis + 1 :])
        return [tensor(same_element(self.input, self.bias), shape)]


__all__ = ["BiasAddOp", "MatMulOp"]
