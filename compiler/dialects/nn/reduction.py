"""Reductions over axes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import i64
from xdsl.irdl import Operand, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from .base import ANY_TENSOR, FLAG, INT, INTS, Flag, HomogeneousOp, Int, Ints, NNOp, Result, integer, ints, operation
from .permutations import Moved, Perm, without
from .shapes import axes_of, axis_of, element_of, shape_of, tensor


class ReducingOp(NNOp):
    """Base of operations that reduce some axes to one number, which `keepdims` keeps as size 1."""

    input: Operand = operand_def(ANY_TENSOR)
    keepdims: Flag | None = opt_prop_def(FLAG)
    result: Result = result_def(ANY_TENSOR)

    @abstractmethod
    def axis_list(self) -> tuple[int, ...]:
        """The axes, not negative."""

    @abstractmethod
    def permuted(self, axes: list[int]) -> dict[str, Any]:
        """The properties of the same reduction where its axes have become these."""

    def axis_behind(self, axis: int) -> int | None:
        if axis in (axes := self.axis_list()):
            return None
        return axis if self.keepdims is not None else axis - sum(each < axis for each in axes)

    def commuted(self, perm: Perm) -> Moved | None:
        axes = self.axis_list()
        result = perm if self.keepdims is not None else without(perm, axes)
        return Moved((perm,), self.permuted(sorted(perm.index(a) for a in axes)), (result,))

    def reduced(self) -> list[int]:
        """The shape of the result."""
        x, axes = shape_of(self.input), self.axis_list()
        if self.keepdims is not None:
            return [1 if i in axes else d for i, d in enumerate(x)]
        return [d for i, d in enumerate(x) if i not in axes]


class ReduceOp(HomogeneousOp, ReducingOp):
    """Reduces some axes (`axes` absent: all)."""

    axes: Ints | None = opt_prop_def(INTS)

    def axis_list(self) -> tuple[int, ...]:
        rank = len(shape_of(self.input))
        return axes_of(ints(self.axes, range(rank)), rank)

    def permuted(self, axes: list[int]) -> dict[str, Any]:
        return {} if self.axes is None else {"axes": axes}

    def infer(self) -> Sequence[Tensor]:
        return [tensor(element_of(self.input), self.reduced())]


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


class ArgOp(ReducingOp):
    """The index of an element along one axis; of equal elements the first, or with `last` the last."""

    axis: Int = prop_def(INT, default_value=integer(0))
    keepdims: Flag | None = opt_prop_def(FLAG)  # here for its place in the text
    last: Flag | None = opt_prop_def(FLAG)

    def axis_list(self) -> tuple[int, ...]:
        return (axis_of(self.axis.value.data, len(shape_of(self.input))),)

    def permuted(self, axes: list[int]) -> dict[str, Any]:
        return {"axis": axes[0]}

    def infer(self) -> Sequence[Tensor]:
        (axis,) = self.axis_list()
        if shape_of(self.input)[axis] == 0:
            raise VerifyException(f"axis {axis} has no elements")
        return [tensor(i64, self.reduced())]


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
    "ReducingOp",
]
