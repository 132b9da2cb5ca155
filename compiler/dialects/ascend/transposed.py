"""Transposed convolutions of the matrix engine: ONNX's, TensorFlow's, Caffe's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import StringAttr, f16, f32, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import Operand, OptOperand, operand_def, opt_operand_def, prop_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from .. import nn
from ..nn.base import ANY_TENSOR, INT, INTS, TEXT, Int, Ints, Text, integer, ints
from ..nn.constant import constant_ints
from ..nn.shapes import DYNAMIC, Shape, known, merge_dim, shape_of, tensor
from .base import (
    FLOAT32_DEVIATION,
    INDEX,
    Meaning,
    check_range,
    declare,
    full_rank,
    i8,
    int_list,
    operation,
)
from .convolution import Filter, InGroupsOp, XFirstOp
from .cube import FLOAT32_ROW, INT8_ROW, INT16_DEVIATION, WIDE_ROWS, Row

DECONVOLUTION_LIMIT = 4096


class TransposedOp(InGroupsOp):
    """filter `[C, cout/groups, kh, kw]` (NHWC: `[kh, kw, cout/groups, C]`), C being the channels of x.

    The result's sizes are `stride*(size - 1) - (begin + end) + dilation*(kernel - 1) + 1 + output_padding`.
    """

    @property
    def filter_sizes(self) -> Filter:
        shape = shape_of(self.filter_value)
        channels, per_group = (shape[3], shape[2]) if self.channels_last else shape[:2]
        kernel = shape[:2] if self.channels_last else shape[2:]
        return Filter(per_group * self.group_count if known(per_group) else DYNAMIC, channels, kernel)

    @property
    def output_padding_list(self) -> Shape:
        """The padding to add to each spatial size of the result."""
        return (0, 0)

    def output_sizes(self, sizes: Sequence[int]) -> Shape:
        rows = zip(self.least_sizes(sizes), self.output_padding_list, strict=True)
        return tuple(s + extra if known(s) else DYNAMIC for s, extra in rows)

    def least_sizes(self, sizes: Sequence[int]) -> Shape:
        """The sizes of the result without output_padding."""
        rows = zip(sizes, self.filter_sizes.kernel, self.stride_list, self.dilation_list, self.pad_list, strict=True)
        return tuple(
            stride * (s - 1) - begin - end + d * (k - 1) + 1 if known(s) and known(k) else DYNAMIC
            for s, k, stride, d, (begin, end) in rows
        )

    def derive(self) -> Sequence[Tensor]:
        row = self.row(self.x_value, self.filter_value, self.bias_value)
        x, sizes = self.check_geometry(), self.filter_sizes
        merge_dim(x[self.channel_axis], sizes.channels, "channels of x and of filter")
        self.check_groups("input", sizes.channels)
        self.check_bias(sizes.out)
        output = self.output_sizes(self.spatial(x))
        if any(known(s) and s < 1 for s in output):
            raise VerifyException(f"pads cut off all of the output: {list(output)}")
        shape = self.arrange(x[0], sizes.out, output)
        self.check_result(shape)
        return [tensor(row.y[0], shape)]

    def check_result(self, shape: Shape) -> None:
        """Raises VerifyException if the declared result shape differs from the one that the geometry gives."""

    def meaning(self) -> Meaning:
        sizes, groups = self.filter_sizes, self.group_count
        weight = (sizes.channels, sizes.out // groups)
        return self.as_convolution(nn.ConvTransposeOp, weight, groups, output_padding=self.output_padding_list)


def check_input_size(value: SSAValue, shape: Shape) -> None:
    """Raises VerifyException unless input_size holds four integers, each the size in `shape` or 0."""
    if shape_of(value) != (4,):
        raise VerifyException("input_size must hold 4 integers")
    for wanted, size in zip(constant_ints(value) or (), shape, strict=False):
        if wanted:
            merge_dim(wanted, size, "input_size and the size that the geometry gives")


@declare(input_size=INDEX)
class Conv2DTransposeOp(TransposedOp, XFirstOp):
    """Transposed convolution. filter `[C, cout/groups, kh, kw]` (NHWC: `[kh, kw, cout/groups, C]`), dilations must be 1.

    input_size is the result's shape as integers, 0 for sizes that follow from the geometry:
    `stride*(size - 1) - (begin + end) + kernel + output_padding`.
    """

    ROWS: ClassVar[Mapping[Attribute, Row]] = WIDE_ROWS
    DEVIATION: ClassVar[str] = f"{INT16_DEVIATION}; {FLOAT32_DEVIATION}"

    input_size: Operand = operand_def(ANY_TENSOR)
    x: Operand = operand_def(ANY_TENSOR)
    filter: Operand = operand_def(ANY_TENSOR)
    bias: OptOperand = opt_operand_def(ANY_TENSOR)
    groups: Int = prop_def(INT, default_value=integer(1))
    output_padding: Ints = prop_def(INTS, default_value=int_list(0, 0, 0, 0))

    @property
    def output_padding_list(self) -> Shape:
        return self.per_axis("output_padding", self.output_padding, neutral=0)

    @classmethod
    def like(cls, op: nn.ConvolutionOp) -> dict[str, Any]:
        assert isinstance(op, nn.ConvTransposeOp)
        extra = full_rank(cls.FORMATS[op.channels_last], op.output_padding_list, neutral=0)
        return {**super().like(op), "output_padding": extra}

    def derive(self) -> Sequence[Tensor]:
        if any(d != 1 for d in self.dilation_list):
            raise VerifyException(f"dilations {list(ints(self.dilations))} must be 1")
        return super().derive()

    def check_result(self, shape: Shape) -> None:
        check_input_size(self.input_size, shape)


@declare(input_size=(i32,))
class Conv2DBackpropInputOp(TransposedOp):
    """Transposed convolution (TensorFlow): the gradient of a convolution's input. No bias, no zero point.

    input_size, a constant, is the result's shape, 0 for sizes that follow from the geometry; a size may exceed that by up to
    stride - 1. out_backprop `[N, H, W, C]` (`data_format "NCHW"`: channels second), filter `[kh, kw, cout/groups, C]`
    (NCHW: `[C, cout/groups, kh, kw]`).
    """

    DEVIATION: ClassVar[str] = (
        f"has the int8 row of Conv2DBackpropInputD (out_backprop symmetric, as there is no offset_x); {FLOAT32_DEVIATION}"
    )

    input_size: Operand = operand_def(ANY_TENSOR)
    filter: Operand = operand_def(ANY_TENSOR)
    out_backprop: Operand = operand_def(ANY_TENSOR)

    @property
    def x_value(self) -> SSAValue:
        return self.out_backprop

    @property
    def filter_value(self) -> SSAValue:
        return self.filter

    @property
    def output_padding_list(self) -> Shape:
        """The excess of input_size over the least sizes, if both are known."""
        wanted = constant_ints(self.input_size)
        if wanted is None:
            raise VerifyException("input_size must be a constant")
        if len(wanted) != 4:
            raise VerifyException("input_size must hold 4 integers")
        least = self.least_sizes(self.spatial(shape_of(self.out_backprop)))
        rows = zip(self.spatial(wanted), least, self.stride_list, strict=True)
        return tuple(_excess(size, each, stride) for size, each, stride in rows)

    def check_result(self, shape: Shape) -> None:
        check_input_size(self.input_size, shape)


def _excess(wanted: int, least: int, stride: int) -> int:
    if not wanted or not known(least):
        return 0
    if not 0 <= wanted - least < stride:
        raise VerifyException(
            f"input_size {wanted} is not in [{least}, {least + stride - 1}], which the geometry allows"
        )
    return wanted - least


@operation
class DeconvolutionOp(TransposedOp, XFirstOp):
    """Transposed convolution (Caffe). x `[N, C, H, W]`, filter `[C, cout/groups, kh, kw]`, bias `[cout]`.

    strides has two entries, along H and W.
    """

    FORMATS: ClassVar[tuple[str, ...]] = ("NCHW",)
    ROWS: ClassVar[Mapping[Attribute, Row]] = {
        i8: INT8_ROW,
        f16: Row(bias=(f16,), y=(f16,)),
        f32: FLOAT32_ROW,
    }
    DEVIATION: ClassVar[str] = FLOAT32_DEVIATION

    x: Operand = operand_def(ANY_TENSOR)
    filter: Operand = operand_def(ANY_TENSOR)
    bias: OptOperand = opt_operand_def(ANY_TENSOR)
    strides: Ints = prop_def(INTS, default_value=int_list(1, 1))
    pads: Ints = prop_def(INTS, default_value=int_list(0, 0, 0, 0))
    data_format: Text = prop_def(TEXT, default_value=StringAttr("NCHW"))

    @property
    def stride_list(self) -> Shape:
        strides = ints(self.strides)
        if len(strides) != 2:
            raise VerifyException(f"strides has {len(strides)} entries, expected 2 (H, W)")
        return strides

    @classmethod
    def like(cls, op: nn.ConvolutionOp) -> dict[str, Any]:
        return {**super().like(op), "strides": op.stride_list}

    def check_geometry(self) -> Shape:
        x = super().check_geometry()
        rows = zip(self.spatial(x), self.stride_list, strict=True)
        check_range("size times stride", [s * stride for s, stride in rows if known(s)], 1, DECONVOLUTION_LIMIT)
        return x


__all__ = ["Conv2DBackpropInputOp", "Conv2DTransposeOp", "DeconvolutionOp", "TransposedOp"]
