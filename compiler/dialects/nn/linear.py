"""Matrix multiplication, and the bias that a frontend saw as a separate layer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import IntegerType, Signedness, i8, i32
from xdsl.irdl import Operand, OptOperand, operand_def, opt_operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor, integer_range
from .base import ANY_TENSOR, FLAG, INT, Flag, Int, NNOp, Result, integer, operation
from .constant import constant_of
from .fused import outside
from .shapes import DYNAMIC, Shape, broadcast, element_of, merge_dim, same_element, shape_of, tensor
from .window import LayoutOp

if TYPE_CHECKING:
    from ...ir.array import Array

_U8 = IntegerType(8, Signedness.UNSIGNED)


class WeightedOp(NNOp):
    """Base of convolutions and matrix products: operand 0 is multiplied by operand 1, the weight, and summed over its channels; a
    bias has one number per output channel.
    """

    bias: OptOperand = opt_operand_def(ANY_TENSOR)
    result: Result = result_def(ANY_TENSOR)

    @property
    def is_homogeneous(self) -> bool:
        return self.bias is None

    @property
    @abstractmethod
    def output_channels(self) -> int:
        """The number of output channels, DYNAMIC if unknown."""

    @property
    @abstractmethod
    def input_axis(self) -> int:
        """The axis of operand 0 that is summed over, its channels."""

    @property
    @abstractmethod
    def output_axis(self) -> int | None:
        """The axis of the output channels in the result; None for a product with a vector."""

    @property
    @abstractmethod
    def weight_axis(self) -> int | None:
        """The axis of the weight that counts output channels; None if there is none (a vector, a transposed convolution in
        groups).
        """

    @property
    @abstractmethod
    def sums_all(self) -> bool:
        """Whether every result is known to sum over all of its output channel's weight: windows meet no border."""

    @abstractmethod
    def weight_inputs(self) -> Array:
        """The input channel that each number of the weight multiplies: int64, in a shape that broadcasts to the weight's, whose
        sizes must be known.
        """

    @property
    def weight_channels(self) -> int:
        """The number of input channels of the weight, whose sizes must be known."""
        return int(self.weight_inputs().max(initial=-1)) + 1

    @abstractmethod
    def weight_outputs(self) -> Array:
        """The output channel of each number of the weight, in the same form."""

    @abstractmethod
    def products(self, x: Shape, y: Shape) -> int:
        """The number of multiplications for an input and a result of these sizes."""


@operation
class MatMulOp(WeightedOp):
    """Matrix product with numpy's batch broadcasting (ONNX MatMul, Gemm; TensorFlow MatMul, BatchMatMulV2).

    lhs `[..., M, K]`, rhs `[..., K, N]`, bias `[N]`, result `[..., M, N]`. `transpose_a` and `transpose_b` say that the
    last two axes of an operand are stored transposed. An operand of rank 1 is a vector, as in numpy.matmul.
    """

    name = "nn.matmul"

    lhs: Operand = operand_def(ANY_TENSOR)
    rhs: Operand = operand_def(ANY_TENSOR)
    transpose_a: Flag | None = opt_prop_def(FLAG)
    transpose_b: Flag | None = opt_prop_def(FLAG)

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
    def input_axis(self) -> int:
        return len(shape_of(self.lhs)) - (1 if self.transpose_a is None else 2)

    @property
    def output_axis(self) -> int | None:
        return None if self.weight_axis is None else len(shape_of(self.result)) - 1

    @property
    def weight_axis(self) -> int | None:
        rank = len(shape_of(self.rhs))
        return None if rank < 2 else rank - (1 if self.transpose_b is None else 2)

    @property
    def sums_all(self) -> bool:
        return True

    def weight_inputs(self) -> Array:
        shape = shape_of(self.rhs)
        return counted(shape, max(0, len(shape) - (2 if self.transpose_b is None else 1)))

    def weight_outputs(self) -> Array:
        import numpy as np

        axis = self.weight_axis
        return np.zeros(1, np.int64) if axis is None else counted(shape_of(self.rhs), axis)

    def products(self, x: Shape, y: Shape) -> int:
        return prod(y) * x[-2 if self.transpose_a is not None and len(x) > 1 else -1]

    @property
    def acts_by_sample(self) -> bool:
        """Whether it acts on each sample: one matrix for all samples, or one each; rows are samples if the left operand
        is a matrix.
        """
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
                raise VerifyException("bias must be of rank 1, next to a right operand of rank 2 or more")
            merge_dim(shape_of(self.bias)[0], right[-1], "bias length and output columns")
        return [tensor(same_element(self.lhs, self.rhs, self.bias), shape)]


@operation
class MatMulIntegerOp(NNOp):
    """Matrix product of int8 or uint8, exact in int32 (ONNX MatMulInteger).

    lhs `[..., M, K]`, rhs `[..., K, N]`, with numpy's batch broadcasting; `lhs_zero_point` and `rhs_zero_point` are subtracted
    from their numbers. Result int32 `[..., M, N]`; sums wrap around.
    """

    name = "nn.matmul_integer"

    lhs: Operand = operand_def(ANY_TENSOR)
    rhs: Operand = operand_def(ANY_TENSOR)
    lhs_zero_point: Int = prop_def(INT, default_value=integer(0))
    rhs_zero_point: Int = prop_def(INT, default_value=integer(0))
    result: Result = result_def(ANY_TENSOR)

    @property
    def acts_by_sample(self) -> bool:
        return constant_of(self.rhs) is not None and len(shape_of(self.rhs)) == 2

    def infer(self) -> Sequence[Tensor]:
        lhs, rhs = shape_of(self.lhs), shape_of(self.rhs)
        for operand, point in ((self.lhs, self.lhs_zero_point), (self.rhs, self.rhs_zero_point)):
            if (element := element_of(operand)) not in (i8, _U8):
                raise VerifyException(f"multiplies int8 and uint8, not {element}")
            low, high = integer_range(i8 if element == i8 else _U8)
            if not low <= point.value.data <= high:
                raise VerifyException(f"zero point {point.value.data} is not in [{low}, {high}]")
        if len(lhs) < 2 or len(rhs) < 2:
            raise VerifyException("both operands must be of rank 2 or more")
        merge_dim(lhs[-1], rhs[-2], "contracted sizes")
        return [tensor(i32, (*broadcast(lhs[:-2], rhs[:-2]), lhs[-2], rhs[-1]))]


def counted(shape: Shape, axis: int) -> Array:
    """The indices of one axis, in a shape that broadcasts to this one."""
    import numpy as np

    return np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])


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


__all__ = ["BiasAddOp", "MatMulIntegerOp", "MatMulOp", "WeightedOp"]
