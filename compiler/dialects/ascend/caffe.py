"""Caffe's Scale, Bias and BatchNorm. (Pooling, Eltwise, FullyConnection and Deconvolution are in the files of their families.)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import SSAValue
from xdsl.irdl import Operand, OptOperand, operand_def, opt_operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from ..nn.base import ANY_TENSOR, BOOL, INT, REAL, Bool, Int, Real, Result, integer, real
from ..nn.shapes import Shape, axis_of, merge_dim, merge_shape, same_element, shape_of, size, tensor_of
from .base import FB, TRUE, AscendOp, F, declare


class FromAxisOp(AscendOp):
    """A parameter that covers `num_axes` axes of x from `axis` on (-1: all following axes; 0: one number)."""

    axis: Int = prop_def(INT, default_value=integer(1))
    num_axes: Int = prop_def(INT, default_value=integer(1))

    x: Operand = operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)

    @property
    def covered(self) -> slice:
        """The axes of x that the parameter covers."""
        rank, count = len(shape_of(self.x)), self.num_axes.value.data
        first = axis_of(self.axis.value.data, rank)
        last = rank if count == -1 else first + count
        if count < -1 or last > rank:
            raise VerifyException(f"num_axes {count} from axis {first} on does not fit x of rank {rank}")
        return slice(first, last)

    @property
    def parameter_shape(self) -> Shape:
        """The shape in which the parameter broadcasts to x; `()` for one number."""
        covered, rank = self.covered, len(shape_of(self.x))
        return (*shape_of(self.operands[1]), *(1,) * (rank - covered.stop)) if self.num_axes.value.data else ()

    def check_parameter(self, name: str, value: SSAValue) -> None:
        shape, covered = shape_of(value), self.covered
        if not self.num_axes.value.data:
            if size(shape) != 1:
                raise VerifyException(f"{name} must hold one number where num_axes is 0")
            return
        merge_shape(shape_of(self.x)[covered], shape, f"covered axes of x and {name}")


@declare(x=FB, scale=FB, bias=FB)
class ScaleOp(FromAxisOp):
    """`x * scale + bias` (Caffe). scale, and bias like it, has the sizes of `num_axes` axes of x from `axis` on."""

    x: Operand = operand_def(ANY_TENSOR)
    scale: Operand = operand_def(ANY_TENSOR)
    bias: OptOperand = opt_operand_def(ANY_TENSOR)
    scale_from_blob: Bool = prop_def(BOOL, default_value=TRUE)

    def derive(self) -> Sequence[Tensor]:
        same_element(self.x, self.scale, self.bias)
        self.check_parameter("scale", self.scale)
        if self.bias is not None:
            self.check_parameter("bias", self.bias)
        return [tensor_of(self.x)]


@declare(x=FB, bias=FB)
class BiasOp(FromAxisOp):
    """`x + bias` (Caffe). bias has the sizes of `num_axes` axes of x from `axis` on."""

    x: Operand = operand_def(ANY_TENSOR)
    bias: Operand = operand_def(ANY_TENSOR)
    bias_from_blob: Bool = prop_def(BOOL, default_value=TRUE)

    def derive(self) -> Sequence[Tensor]:
        same_element(self.x, self.bias)
        self.check_parameter("bias", self.bias)
        return [tensor_of(self.x)]


@declare(x=F, mean=F, variance=F, momentum=F)
class BNInferenceOp(AscendOp):
    """Caffe's BatchNorm: `(x - mean / momentum) / sqrt(variance / momentum + epsilon)` per channel (axis 1).

    x `[N, C, ...]`, mean and variance `[C]`, momentum one number, the factor that both were multiplied by; 0 stands for no sums,
    and gives mean and variance 0.
    """

    DEVIATION: ClassVar[str] = "scale and offset, which the header says are of no use, are left out"

    x: Operand = operand_def(ANY_TENSOR)
    mean: Operand = operand_def(ANY_TENSOR)
    variance: Operand = operand_def(ANY_TENSOR)
    momentum: Operand = operand_def(ANY_TENSOR)
    epsilon: Real = prop_def(REAL, default_value=real(1e-5))
    use_global_stats: Bool = prop_def(BOOL, default_value=TRUE)
    mode: Int = prop_def(INT, default_value=integer(1))
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        x = shape_of(self.x)
        if len(x) < 2:
            raise VerifyException(f"x must be of rank 2 or more, not {len(x)}")
        if not self.use_global_stats.value.data or self.mode.value.data != 1:
            raise VerifyException("use_global_stats and mode must be true and 1")
        same_element(*self.operands)
        for name, value in (("mean", self.mean), ("variance", self.variance)):
            if len(shape_of(value)) != 1:
                raise VerifyException(f"{name} must be of rank 1, not {len(shape_of(value))}")
            merge_dim(x[1], shape_of(value)[0], f"channels and {name} length")
        if size(shape_of(self.momentum)) != 1:
            raise VerifyException("momentum must hold one number")
        return [tensor_of(self.x)]


__all__ = ["BNInferenceOp", "BiasOp", "ScaleOp"]
