"""Convolution and transposed convolution, of any spatial rank and number of groups."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.irdl import (
    Operand,
    operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from .attributes import AutoPad
from .base import ANY_TENSOR, INT, INTS, Int, Ints, integer, ints, operation
from .linear import WeightedOp, counted
from .shapes import DYNAMIC, Shape, known, merge_dim, same_element, shape_of, size_left, tensor
from .window import WindowOp

if TYPE_CHECKING:
    from ...ir.array import Array


class ConvolutionOp(WeightedOp, WindowOp):
    """The common part of both convolutions: input, weight, bias, groups."""

    input: Operand = operand_def(ANY_TENSOR)
    weight: Operand = operand_def(ANY_TENSOR)
    groups: Int = prop_def(INT, default_value=integer(1))

    @property
    def group_count(self) -> int:
        return self.groups.value.data

    @property
    def kernel_shape(self) -> Shape:
        return shape_of(self.weight)[2:]

    def check_operands(self) -> None:
        x, w = shape_of(self.input), shape_of(self.weight)
        if len(x) < 3 or len(x) != len(w):
            raise VerifyException(
                f"input of rank {len(x)} and weight of rank {len(w)}: both need batch, channels and space"
            )
        self.check_window()
        if self.group_count < 1:
            raise VerifyException(f"groups must be at least 1, not {self.group_count}")
        if self.bias is not None:
            if len(shape_of(self.bias)) != 1:
                raise VerifyException("bias must be of rank 1")
            merge_dim(shape_of(self.bias)[0], self.output_channels, "bias length and output channels")

    @property
    def input_axis(self) -> int:
        return self.channel_axis(len(shape_of(self.input)))

    @property
    def output_axis(self) -> int | None:
        return self.input_axis

    @property
    def input_channels(self) -> int:
        return shape_of(self.input)[self.input_axis]

    def _counted(self) -> Array:
        """The channels that the weight's first axis counts, for each of its numbers."""
        return counted(shape_of(self.weight), 0)

    def _counted_by_group(self) -> Array:
        """The channels that the second axis counts in each group; those of group g follow those of group g-1."""
        import numpy as np

        first, per_group, *space = shape_of(self.weight)
        group = np.arange(first) // (first // self.group_count)
        return (group[:, None] * per_group + np.arange(per_group)).reshape(first, per_group, *(1,) * len(space))


@operation
class ConvOp(ConvolutionOp):
    """Convolution (ONNX Conv; TensorFlow Conv2D, Conv3D, DepthwiseConv2dNative).

    input `[N, C, *spatial]` (`layout nhwc`: `[N, *spatial, C]`), weight `[M, C/groups, *kernel]`, bias `[M]`,
    result `[N, M, *output]`. With `groups = C` it is depthwise.

    ```mlir
    %y = nn.conv %x, %w, %b strides [2, 2] pads [1, 1, 1, 1] : (tensor<1x3x8x8xf32>, ...) -> tensor<1x16x4x4xf32>
    ```
    """

    @property
    def output_channels(self) -> int:
        return shape_of(self.weight)[0]

    @property
    def is_depthwise(self) -> bool:
        """Whether each group has one input channel, and there are several groups."""
        return self.group_count > 1 and shape_of(self.weight)[1] == 1

    @property
    def weight_axis(self) -> int | None:
        return 0

    @property
    def sums_all(self) -> bool:
        pads = self.resolved_pads(self.spatial(shape_of(self.input)))
        return pads is not None and not any(pads)

    def weight_inputs(self) -> Array:
        return self._counted_by_group()

    def weight_outputs(self) -> Array:
        return self._counted()

    def products(self, x: Shape, y: Shape) -> int:
        return prod(y) * prod(shape_of(self.weight)[1:])

    def infer(self) -> Sequence[Tensor]:
        self.check_operands()
        x, w = shape_of(self.input), shape_of(self.weight)
        if known(w[1]):
            merge_dim(self.input_channels, w[1] * self.group_count, "input channels and weight channels x groups")
        if known(w[0]) and w[0] % self.group_count:
            raise VerifyException(f"{w[0]} output channels are not divisible by {self.group_count} groups")
        element = same_element(self.input, self.weight, self.bias)
        return [tensor(element, self.arrange(x[0], w[0], self.window_output(self.spatial(x))))]


@operation
class ConvTransposeOp(ConvolutionOp):
    """Transposed convolution (ONNX ConvTranspose; TensorFlow Conv2DBackpropInput).

    input `[N, C, *spatial]`, weight `[C, M/groups, *kernel]`, bias `[M]`, result `[N, M, *output]` with
    `output = stride*(input - 1) + output_padding + dilation*(kernel - 1) + 1 - begin - end`.
    `output_shape` (spatial sizes) replaces pads: the total follows from it, an odd element goes to the begin unless
    `auto_pad same_upper`. With `auto_pad` the output is `stride*input`, or the area that windows cover if that is less (a kernel
    smaller than the stride), as in onnxruntime.
    """

    output_padding: Ints | None = opt_prop_def(INTS)
    output_shape: Ints | None = opt_prop_def(INTS)

    @property
    def output_channels(self) -> int:
        per_group = shape_of(self.weight)[1]
        return per_group * self.group_count if known(per_group) else DYNAMIC

    @property
    def weight_axis(self) -> int | None:
        return 1 if self.group_count == 1 else None

    @property
    def sums_all(self) -> bool:
        ones = set(self.kernel_shape) | set(self.stride_list) == {1}
        return ones and not any(self.output_padding_list) and self.output_shape is None

    def weight_inputs(self) -> Array:
        return self._counted()

    def weight_outputs(self) -> Array:
        return self._counted_by_group()

    def products(self, x: Shape, y: Shape) -> int:
        return prod(x) * prod(shape_of(self.weight)[1:])

    @property
    def output_padding_list(self) -> Shape:
        return ints(self.output_padding, (0,) * self.spatial_rank)

    def full_sizes(self, spatial: Sequence[int]) -> Shape:
        """Output sizes before pads are cut off."""
        rows = zip(
            spatial, self.kernel_shape, self.stride_list, self.dilation_list, self.output_padding_list, strict=True
        )
        return tuple(
            size_left(stride * (s - 1) + extra + d * (k - 1) + 1, "the input is empty")
            if known(s) and known(k)
            else DYNAMIC
            for s, k, stride, d, extra in rows
        )

    def output_sizes(self, spatial: Sequence[int]) -> Shape:
        if self.output_shape is not None:
            return ints(self.output_shape)
        n, full = self.spatial_rank, self.full_sizes(spatial)
        if self.auto_pad is not None:
            rows = zip(spatial, self.stride_list, full, strict=True)
            return tuple(min(s * stride, f) if known(f) else DYNAMIC for s, stride, f in rows)
        cut = [b + e for b, e in zip(self.pad_list[:n], self.pad_list[n:], strict=True)]
        what = "pads cut off more than the output holds"
        return tuple(size_left(f - c, what) if known(f) else DYNAMIC for f, c in zip(full, cut, strict=True))

    def resolved_pads(self, spatial: Sequence[int]) -> Shape | None:
        """The pads for these sizes; negative if `output_shape` is larger than the area that windows cover."""
        if self.output_shape is None and self.auto_pad is None:
            return self.pad_list
        full, out = self.full_sizes(spatial), self.output_sizes(spatial)
        if DYNAMIC in full or DYNAMIC in out:
            return None
        totals = [f - o for f, o in zip(full, out, strict=True)]
        if self.output_shape is None:
            totals = [max(t, 0) for t in totals]
        upper = self.auto_pad is not None and self.auto_pad.data is AutoPad.SAME_UPPER
        begins = [int(t / 2) if upper else t - t // 2 for t in totals]
        return (*begins, *(t - b for t, b in zip(totals, begins, strict=True)))

    def infer(self) -> Sequence[Tensor]:
        self.check_operands()
        x, w = shape_of(self.input), shape_of(self.weight)
        merge_dim(self.input_channels, w[0], "input channels and weight channels")
        if known(w[0]) and w[0] % self.group_count:
            raise VerifyException(f"{w[0]} input channels are not divisible by {self.group_count} groups")
        for name, given in (("output_padding", self.output_padding), ("output_shape", self.output_shape)):
            values = ints(given)
            if given is not None and len(values) != self.spatial_rank:
                raise VerifyException(f"{name} has {len(values)} entries, expected {self.spatial_rank}")
            if min((0, *values)) < 0:
                raise VerifyException(f"{name} {list(values)} must not be negative")
        if self.output_shape is not None and self.pads is not None:
            raise VerifyException("pads and output_shape exclude each other")
        sizes = self.output_sizes(self.spatial(x))
        element = same_element(self.input, self.weight, self.bias)
        return [tensor(element, self.arrange(x[0], self.output_channels, sizes))]


__all__ = ["ConvOp", "ConvTransposeOp", "ConvolutionOp"]
