"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i64
from xdsl.irdl import Operand, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from .base import ANY_TENSOR, FLAG, INT, INTS, Flag, Int, Ints, NNOp, Result, integer, ints, operation
from .permutations import Moved, Perm, without
from .shapes import Shape, axes_of, axis_of, element_of, shape_of, tensor


class ReduceOp(NNOp):
    """Reduces some axes (`axes` absent: all), which `keepdims` keeps as size 1."""

    input: Operand = operand_def(ANY_TENSOR)
    axes: Ints | None = opt_prop_def(INTS)
    keepdims: Flag | None = opt_prop_def(FLAG)
    result: Result = result_def(ANY_TENSOR)

    def axis_list(self) -> tuple[int, ...]:
        rank = len(shape_of(self.input))
        return axes_of(ints(self.axes, range(rank)), rank)

    def axis_behind(self, axis: int) -> int | None:
        return _axis_left(axis, self.axis_list(), self.keepdims is not None)

    def commuted(self, perm: Perm) -> Moved | None:
        axes = self.axis_list()
        result = perm if self.keepdims is not None else without(perm, axes)
        mapped = {} if self.axes is None else {"axes": sorted(perm.index(a) for a in axes)}
        return Moved((perm,), mapped, (result,))

    @property
    def is_homogeneous(self) -> bool:
        return True

    def infer(self) -> Sequence[Tensor]:
        shape = _reduced(shape_of(self.input), self.axis_list(), self.keepdims is not None)
        return [tensor(element_of(self.input), shape)]


def _reduced(shape: Shape, axes: Sequence[int], keepdims: bool) -> list[int]:
    if keepdims:
        return [1 if i in axes else d for i, d in enumerate(shape)]
    return [d for i, d in enumerate(shape) if i not in axes]


def _axis_left(axis: int, reduced: Sequence[int], keepdims: bool) -> int | None:
    if axis in reduced:
        return None
    return axis if keepdims else axis - sum(each < axis for each in reduced)


@operation
class ReduceMeanOp(ReduceOp):
    """The mean over axes (ONNX ReduceMean). input of any shape; result without the axes, or with size 1."""

    @property
    def averages_space(self) -> bool:
        """Whether it is a `nn.global_average_pool` of `[N, C, *spatial]`, as PyTorch's exporter writes one."""
        axes = sorted(self.axis_list())
        return self.keepdims is not None and axes != [] and axes == [*range(2, len(shape_of(self.input)))]


@operation
class ReduceSumOp(ReduceOp):
    """The sum over axes (ONNX ReduceSum). Shapes as reduce_mean."""


@operation
class ReduceMaxOp(ReduceOp):
    """The largest element over axes (ONNX ReduceMax). Shapes as reduce_mean."""

    @property
    def is_passive(self) -> bool:
        return True


@operation
class ReduceMinOp(ReduceOp):
    """The smallest element over axes (ONNX ReduceMin). Shapes as reduce_mean."""

    @property
    def is_passive(self) -> bool:
        return True


@operation
class ReduceProdOp(ReduceOp):
    """The product over axes (ONNX ReduceProd). Shapes as reduce_mean."""

    @property
    def is_homogeneous(self) -> bool:
        return False


class ArgOp(NNOp):
    """The index of an element along one axis; of equal elements the first, or with `last` the last."""

    input: Operand = operand_def(ANY_TENSOR)
    axis: Int = prop_def(INT, default_value=integer(0))
    keepdims: Flag | None = opt_prop_def(FLAG)
    last: Flag | None = opt_prop_def(FLAG)
    result: Result = result_def(ANY_TENSOR)

    def axis_behind(self, axis: int) -> int | None:
        reduced = axis_of(self.axis.value.data, len(shape_of(self.input)))
        return _axis_left(axis, (reduced,), self.keepdims is not None)

    def commuted(self, perm: Perm) -> Moved | None:
        axis = axis_of(self.axis.value.data, len(perm))
        result = perm if self.keepdims is not None else without(perm, [axis])
        return Moved((perm,), {"axis": perm.index(axis)}, (result,))

    def infer(self) -> Sequence[Tensor]:
        x = shape_of(self.input)
        axis = axis_of(self.axis.value.data, len(x))
        if x[axis] == 0:
            raise VerifyException(f"axis {axis} has no elements")
        return [tensor(i64, _reduced(x, [axis], self.keepdims is not None))]


@operation
class ArgMaxOp(ArgOp):
    """The index of the largest element along an axis (ONNX ArgMax). Shapes as reduce_mean, result of i64."""


@operation
class ArgMinOp(ArgOp):
    """The index of the smallest element along an axis (ONNX ArgMin). Shapes as reduce_mean, result of i64."""


__all__ = [
    "ArgMaxOp",
    "ArgMinOp",
    "ArgOp",
    "ReduceMaxOp",
    "ReduceMeanOp",
    "ReduceMinOp",
    "ReduceOp",
    "ReduceProdOp",
    "ReduceSumOp",
]
