"""Pooling over windows, and over all of space."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import Operand, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from .base import ANY_TENSOR, FLAG, INTS, Flag, HomogeneousOp, Ints, Result, ints, operation
from .shapes import DYNAMIC, Shape, shape_of, tensor, tensor_of
from .window import LayoutOp, WindowOp


class PoolingOp(HomogeneousOp, LayoutOp):
    """Base of all pools, each on batch and channels alone."""

    input: Operand = operand_def(ANY_TENSOR)
    result: Result = result_def(ANY_TENSOR)

    def axis_behind(self, axis: int) -> int | None:
        return axis if axis in (0, self.channel_axis(len(shape_of(self.input)))) else None


class PoolOp(PoolingOp, WindowOp):
    """A window over each channel. `ceil_mode` rounds output sizes up, but drops a window that starts in the end padding."""

    kernel: Ints = prop_def(INTS)
    ceil_mode: Flag | None = opt_prop_def(FLAG)

    @property
    def kernel_shape(self) -> Shape:
        return ints(self.kernel)

    @property
    def ceil_adds_windows(self) -> bool:
        """Whether `ceil_mode` adds windows for an input of this size; True if the size is unknown."""
        space = self.spatial(shape_of(self.input))
        if self.ceil_mode is None:
            return False
        return DYNAMIC in space or self.window_output(space, ceil=True) != self.window_output(space)

    def infer(self) -> Sequence[Tensor]:
        x = shape_of(self.input)
        if not self.spatial_rank or len(x) != self.spatial_rank + 2:
            raise VerifyException(f"input of rank {len(x)} and a kernel of {self.spatial_rank} axes")
        self.check_window()
        sizes = self.window_output(self.spatial(x), ceil=self.ceil_mode is not None)
        channels = x[self.channel_axis(len(x))]
        return [tensor(tensor_of(self.input).element_type, self.arrange(x[0], channels, sizes))]


@operation
class MaxPoolOp(PoolOp):
    """The largest element of each window; padding never wins (ONNX MaxPool without indices, TensorFlow MaxPool).

    input `[N, C, *spatial]` (`layout nhwc`: channels last), result `[N, C, *output]`.
    """

    @property
    def is_passive(self) -> bool:
        return True


@operation
class AveragePoolOp(PoolOp):
    """The mean of each window (ONNX AveragePool, TensorFlow AvgPool).

    input `[N, C, *spatial]`, result `[N, C, *output]`. Padding counts as zeros with `count_include_pad`, otherwise not at all;
    elements that `ceil_mode` adds beyond the padding never count.
    """

    count_include_pad: Flag | None = opt_prop_def(FLAG)

    @property
    def has_integer_kernel(self) -> bool:
        """Whether QLinearAveragePool computes this mean: it has no dilations, and counts elements beyond the padding."""
        counts_too_many = self.count_include_pad is not None and self.ceil_adds_windows
        return all(d == 1 for d in self.dilation_list) and not counts_too_many


class GlobalPoolOp(PoolingOp):
    """Base of the pools over all spatial axes, which keep size 1."""

    def infer(self) -> Sequence[Tensor]:
        x = shape_of(self.input)
        if len(x) < 2:
            raise VerifyException("input must be of rank 2 or more")
        channels = x[self.channel_axis(len(x))]
        return [tensor(tensor_of(self.input).element_type, self.arrange(x[0], channels, (1,) * (len(x) - 2)))]


@operation
class GlobalAveragePoolOp(GlobalPoolOp):
    """The mean over all spatial axes, kept as size 1 (ONNX GlobalAveragePool). `[N, C, *spatial]` to `[N, C, 1, ...]`."""


@operation
class GlobalMaxPoolOp(GlobalPoolOp):
    """The largest element over all spatial axes, kept as size 1 (ONNX GlobalMaxPool). Shapes as global_average_pool."""

    @property
    def is_passive(self) -> bool:
        return True


__all__ = [
    "AveragePoolOp",
    "GlobalAveragePoolOp",
    "GlobalMaxPoolOp",
    "GlobalPoolOp",
    "MaxPoolOp",
    "PoolOp",
    "PoolingOp",
]
