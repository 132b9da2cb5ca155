"""Convolutions of the matrix engine."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import Operand, OptOperand, operand_def, opt_operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from .. import nn
from ..nn.base import ANY_TENSOR, INT, INTS, TEXT, Int, Ints, NNOp, Result, Text, integer
from ..nn.shapes import DYNAMIC, Shape, element_of, known, merge_dim, shape_of, tensor
from .base import (
    FLOAT32_DEVIATION,
    FormatOp,
    Meaning,
    check_range,
    full_rank,
    i8,
    int_list,
    operation,
    pads_of,
    stand_ins,
    window_sizes,
)
from .cube import INT16_DEVIATION, WIDE_ROWS, CubeOp, OffsetOp, Row

if TYPE_CHECKING:
    from .base import Array


HEIGHT_LIMIT, WIDTH_LIMIT = 100000, 4096
KERNEL_LIMIT, STRIDE_LIMIT, PAD_LIMIT, DILATION_LIMIT = 255, 63, 255, 255


class Filter(NamedTuple):
    """The sizes of a filter, independent of the order of its axes."""

    out: int
    channels: int
    kernel: Shape


class ConvolutionOp(CubeOp, FormatOp):
    """The common part of convolutions. strides and dilations: one entry per axis; pads: begin and end of each spatial axis."""

    strides: Ints = prop_def(INTS)
    pads: Ints = prop_def(INTS)
    dilations: Ints = prop_def(INTS, default_value=int_list(1, 1, 1, 1))
    data_format: Text = prop_def(TEXT, default_value=StringAttr("NHWC"))
    y: Result = result_def(ANY_TENSOR)

    @property
    def x_value(self) -> SSAValue:
        raise NotImplementedError

    @property
    def filter_value(self) -> SSAValue:
        raise NotImplementedError

    @property
    def bias_value(self) -> SSAValue | None:
        return None

    @property
    def data_operand(self) -> SSAValue:
        return self.x_value

    @property
    def group_count(self) -> int:
        return 1

    @property
    @abstractmethod
    def filter_sizes(self) -> Filter:
        """The filter's sizes, read in the axis order of the data format."""

    @property
    def stride_list(self) -> Shape:
        return self.per_axis("strides", self.strides)

    @property
    def dilation_list(self) -> Shape:
        return self.per_axis("dilations", self.dilations)

    @property
    def pad_list(self) -> tuple[tuple[int, int], ...]:
        return self.pad_pairs(self.pads)

    def check_geometry(self) -> Shape:
        """The shape of x. Raises VerifyException if the geometry is malformed or beyond the limits of the device."""
        x = self.check_rank("x", self.x_value)
        if (rank := len(shape_of(self.filter_value))) != len(self.format):
            raise VerifyException(f"filter must be of rank {len(self.format)}, not {rank}")
        sizes = self.spatial(x)
        check_range("height", sizes[-2:-1], 1, HEIGHT_LIMIT)
        check_range("width", sizes[-1:], 1, WIDTH_LIMIT)
        check_range("kernel", self.filter_sizes.kernel, 1, KERNEL_LIMIT)
        check_range("stride", self.stride_list, 1, STRIDE_LIMIT)
        check_range("dilation", self.dilation_list, 1, DILATION_LIMIT)
        check_range("pad", [p for pair in self.pad_list for p in pair], 0, PAD_LIMIT)
        if self.group_count < 1:
            raise VerifyException(f"groups must be at least 1, not {self.group_count}")
        return x

    def check_bias(self, channels: int) -> None:
        if (bias := self.bias_value) is None:
            return
        if len(shape_of(bias)) != 1:
            raise VerifyException("bias must be of rank 1")
        merge_dim(shape_of(bias)[0], channels, "bias length and output channels")

    def check_groups(self, what: str, channels: int) -> None:
        if known(channels) and channels % self.group_count:
            raise VerifyException(f"{channels} {what} channels are not divisible by {self.group_count} groups")

    def output_sizes(self, sizes: Sequence[int]) -> Shape:
        return window_sizes(sizes, self.filter_sizes.kernel, self.stride_list, self.dilation_list, self.pad_list)

    @property
    def operand_order(self) -> tuple[int, ...]:
        """The indices of x, filter and (if present) bias among the operands."""
        operands = list(self.operands)
        return tuple(operands.index(v) for v in (self.x_value, self.filter_value, self.bias_value) if v is not None)

    def nn_filter(self, filter: Array) -> Array:
        """A filter in the axis order of `nn`'s weights: with channels last, its last two axes become the first, reversed."""
        return filter.transpose(-1, -2, *range(filter.ndim - 2)) if self.channels_last else filter

    @classmethod
    def like(cls, op: nn.ConvolutionOp) -> dict[str, Any]:
        """A single axis of space gets one of size 1 in front."""
        data_format = cls.FORMATS[op.channels_last]
        return {
            "strides": full_rank(data_format, op.stride_list),
            "pads": pads_of(op),
            "dilations": full_rank(data_format, op.dilation_list),
            "data_format": data_format,
        }

    def as_convolution(self, kind: type[NNOp], weight: tuple[int, int], groups: int, **properties: Any) -> Meaning:
        """A convolution of `nn`; `weight` is the first two sizes of its weight."""
        x, weight_index, *rest = self.operand_order
        weight_type = tensor(element_of(self.filter_value), (*weight, *self.filter_sizes.kernel))
        types = [self.x_value.type, weight_type, *(self.operands[i].type for i in rest)]
        pads = (*(b for b, _ in self.pad_list), *(e for _, e in self.pad_list))
        geometry = {"strides": self.stride_list, "pads": pads, "dilations": self.dilation_list, "groups": groups}
        meaning = kind.make(*stand_ins(types), layout=self.nn_layout, **geometry, **properties)
        return Meaning(meaning, lambda a: (a[x], self.nn_filter(a[weight_index]), *(a[i] for i in rest)))


class XFirstOp(ConvolutionOp, OffsetOp):
    """A convolution of x by filter, with a bias."""

    x: Operand = operand_def(ANY_TENSOR)
    filter: Operand = operand_def(ANY_TENSOR)
    bias: OptOperand = opt_operand_def(ANY_TENSOR)

    @property
    def x_value(self) -> SSAValue:
        return self.x

    @property
    def filter_value(self) -> SSAValue:
        return self.filter

    @property
    def bias_value(self) -> SSAValue | None:
        return self.bias


class InGroupsOp(ConvolutionOp):
    """A convolution in groups of channels."""

    groups: Int = prop_def(INT, default_value=integer(1))

    @property
    def group_count(self) -> int:
        return self.groups.value.data

    @classmethod
    def like(cls, op: nn.ConvolutionOp) -> dict[str, Any]:
        return {**super().like(op), "groups": op.group_count}


class GroupedOp(InGroupsOp, XFirstOp):
    """Conv2D and Conv3D: filter `[cout, cin/groups, *kernel]` next to NC..., `[*kernel, cin/groups, cout]` next to N...C."""

    @property
    def filter_sizes(self) -> Filter:
        shape = shape_of(self.filter)
        if self.channels_last:
            return Filter(shape[-1], shape[-2], shape[:-2])
        return Filter(shape[0], shape[1], shape[2:])

    def derive(self) -> Sequence[Tensor]:
        row = self.row(self.x, self.filter, self.bias)
        x, sizes = self.check_geometry(), self.filter_sizes
        channels = x[self.channel_axis]
        if known(sizes.channels):
            merge_dim(channels, sizes.channels * self.group_count, "channels of x and of filter x groups")
        self.check_groups("input", channels)
        self.check_groups("output", sizes.out)
        self.check_bias(sizes.out)
        return [tensor(row.y[0], self.arrange(x[0], sizes.out, self.output_sizes(self.spatial(x))))]

    def meaning(self) -> Meaning:
        return self.as_convolution(nn.ConvOp, self.filter_sizes[:2], self.group_count)


@operation
class Conv2DOp(GroupedOp):
    """Two-dimensional convolution.

    x `[N, C, H, W]` (`data_format "NHWC"`: channels last), filter `[cout, cin/groups, kh, kw]` (NHWC: `[kh, kw, cin/groups,
    cout]`), bias `[cout]`. An int8 filter and x of int8 or int16 take an int32 bias and give int32.

    ```mlir
    %y = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [1, 1, 1, 1] data_format "NCHW" offset_x -3 : (...) -> ...
    ```
    """

    ROWS: ClassVar[Mapping[Attribute, Row]] = WIDE_ROWS
    DEVIATION: ClassVar[str] = INT16_DEVIATION


@operation
class Conv3DOp(GroupedOp):
    """Three-dimensional convolution: as Conv2D, with a depth axis (`NCDHW`, `NDHWC`). `offset_x` is reserved.

    pads are `[front, back, top, bottom, left, right]`. int8 operands need a dilation of 1 along the depth.
    """

    FORMATS: ClassVar[tuple[str, ...]] = ("NCDHW", "NDHWC")
    DEVIATION: ClassVar[str] = (
        f"has an int8 row (x symmetric, as offset_x is reserved), which the header's table lacks; {FLOAT32_DEVIATION}"
    )

    dilations: Ints = prop_def(INTS, default_value=int_list(1, 1, 1, 1, 1))
    data_format: Text = prop_def(TEXT, default_value=StringAttr("NDHWC"))

    def derive(self) -> Sequence[Tensor]:
        if self.zero_point:
            raise VerifyException("offset_x is reserved: it must be 0")
        if element_of(self.x) == i8 and self.dilation_list[0] != 1:
            raise VerifyException("int8 operands need a dilation of 1 along the depth")
        return super().derive()


@operation
class DepthwiseConv2DOp(XFirstOp):
    """Convolution of each channel by itself. x as Conv2D, filter `[kh, kw, C, multiplier]`, bias `[C * multiplier]`.

    Output channel `c * multiplier + m` is channel c under filter `[:, :, c, m]`.
    """

    ROWS: ClassVar[Mapping[Attribute, Row]] = WIDE_ROWS
    DEVIATION: ClassVar[str] = f"{INT16_DEVIATION}; {FLOAT32_DEVIATION}"

    @property
    def filter_sizes(self) -> Filter:
        kh, kw, channels, multiplier = shape_of(self.filter)
        out = channels * multiplier if known(channels) and known(multiplier) else DYNAMIC
        return Filter(out, channels, (kh, kw))

    def derive(self) -> Sequence[Tensor]:
        row = self.row(self.x, self.filter, self.bias)
        x, sizes = self.check_geometry(), self.filter_sizes
        merge_dim(x[self.channel_axis], sizes.channels, "channels of x and of filter")
        self.check_bias(sizes.out)
        return [tensor(row.y[0], self.arrange(x[0], sizes.out, self.output_sizes(self.spatial(x))))]

    def nn_filter(self, filter: Array) -> Array:
        """`[kh, kw, C, M]` becomes `[C*M, 1, kh, kw]`: output channel c*M + m."""
        return filter.transpose(2, 3, 0, 1).reshape(-1, 1, *filter.shape[:2])

    def meaning(self) -> Meaning:
        return self.as_convolution(nn.ConvOp, (self.filter_sizes.out, 1), self.filter_sizes.channels)


__all__ = ["Conv2DOp", "Conv3DOp", "ConvolutionOp", "DepthwiseConv2DOp", "GroupedOp"]
