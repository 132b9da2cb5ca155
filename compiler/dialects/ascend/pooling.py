"""Pooling over windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr, i32
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...dtypes import Tensor
from ..nn.base import ANY_TENSOR, BOOL, INT, INTS, TEXT, integer
from ..nn.shapes import Shape, element_of, known, same_size, shape_of, static, tensor
from .base import (
    FALSE,
    FBD,
    TRUE,
    ElementTypes,
    FormatOp,
    check_choice,
    check_range,
    i8,
    i16,
    i64,
    int_list,
    same_pad_pairs,
    ui8,
    ui16,
    window_sizes,
)
from .cube import check_int32_uses

WINDOW_LIMIT, STRIDE_LIMIT = 255, 63


class PoolOp(FormatOp):
    """A window over each channel of x `[N, C, H, W]` (`data_format "NHWC"`: channels last).

    ksize and strides have one entry per axis. `padding_mode` is `CALCULATED` (by `pads`: top, bottom, left, right), `SAME` or
    `VALID`; `global_pooling` makes the window all of space; `ceil_mode` rounds output sizes up.
    """

    x = operand_def(ANY_TENSOR)
    ksize = prop_def(INTS)
    strides = prop_def(INTS)
    padding_mode = prop_def(TEXT, default_value=StringAttr("CALCULATED"))
    pads = prop_def(INTS, default_value=int_list(0, 0, 0, 0))
    data_format = prop_def(TEXT, default_value=StringAttr("NCHW"))
    global_pooling = prop_def(BOOL, default_value=FALSE)
    ceil_mode = prop_def(BOOL, default_value=FALSE)
    y = result_def(ANY_TENSOR)

    @property
    def format(self) -> str:
        return check_choice("data_format", self.data_format, self.FORMATS)

    @property
    def is_global(self) -> bool:
        return bool(self.global_pooling.value.data)

    @property
    def rounds_up(self) -> bool:
        return bool(self.ceil_mode.value.data)

    @property
    def padding(self) -> str:
        return check_choice("padding_mode", self.padding_mode, ("CALCULATED", "SAME", "VALID"))

    def kernel(self, sizes: Sequence[int]) -> Shape:
        """The window for these spatial sizes."""
        return tuple(sizes) if self.is_global else self.per_axis("ksize", self.ksize)

    @property
    def stride_list(self) -> Shape:
        return self.per_axis("strides", self.strides)

    def resolved_pads(self, sizes: Sequence[int]) -> tuple[tuple[int, int], ...] | None:
        """(begin, end) per spatial axis for these sizes; None where SAME needs a size that is not known."""
        if self.is_global or self.padding == "VALID":
            return ((0, 0),) * len(self.space)
        if self.padding == "CALCULATED":
            return self.pad_pairs(self.pads)
        return same_pad_pairs(sizes, self.kernel(sizes), self.stride_list) if static(sizes) else None

    def result_shape(self) -> Shape:
        x = self.check_rank("x", self.x)
        sizes = self.spatial(x)
        kernel, strides = self.kernel(sizes), self.stride_list
        self.check_limits(kernel, strides)
        if self.is_global:
            return self.arrange(x[0], x[self.channel_axis], (1,) * len(sizes))
        if (pads := self.resolved_pads(sizes)) is None:
            output = tuple(same_size(s, st) for s, st in zip(sizes, strides, strict=True))
        else:
            for k, (begin, end) in zip(kernel, pads, strict=True):
                if not (0 <= begin < k and 0 <= end < k):
                    raise VerifyException(f"pads {begin} and {end} must be smaller than the window of {k}")
            output = window_sizes(sizes, kernel, strides, (1,) * len(sizes), pads, self.rounds_up)
        return self.arrange(x[0], x[self.channel_axis], output)

    def check_limits(self, kernel: Shape, strides: Shape) -> None:
        check_range("stride", strides, 1, STRIDE_LIMIT)
        if self.is_global:
            return
        check_range("window size", kernel, 1, WINDOW_LIMIT)
        if prod(kernel) > WINDOW_LIMIT:
            raise VerifyException(f"a window of {prod(kernel)} elements, at most {WINDOW_LIMIT} are possible")


@irdl_op_definition
class MaxPoolV3Op(PoolOp):
    """The largest element of each window; padding never wins. y has the type of x."""

    name = "ascend.MaxPoolV3"

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": (*FBD, i8, i16, i32, i64, ui8, ui16)}

    def derive(self) -> Sequence[Tensor]:
        return [tensor(element_of(self.x), self.result_shape())]


@irdl_op_definition
class AvgPoolV2Op(PoolOp):
    """The mean of each window; of int8 x, the exact int32 sum of `x - offset_x` over each window.

    With `exclusive` padding is not counted, else it counts as zeros. `divisor_override` must be 0, which means none.
    """

    name = "ascend.AvgPoolV2"

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": (*FBD, i8)}
    DEVIATION: ClassVar[str] = (
        "takes int8 x with offset_x and gives the exact int32 sum of each window (padding contributes 0); 1/count goes into "
        "deq_scale, so the count must be constant"
    )

    exclusive = prop_def(BOOL, default_value=TRUE)
    divisor_override = prop_def(INT, default_value=integer(0))
    offset_x = prop_def(INT, default_value=integer(0))

    @property
    def counts_padding(self) -> bool:
        return not self.exclusive.value.data

    @property
    def zero_point(self) -> int:
        return self.offset_x.value.data

    def derive(self) -> Sequence[Tensor]:
        element = element_of(self.x)
        check_range("offset_x", [self.zero_point], -128, 127)
        if element != i8 and self.zero_point:
            raise VerifyException("offset_x is for int8 x")
        if self.divisor_override.value.data:
            raise VerifyException("divisor_override must be 0")
        return [tensor(i32 if element == i8 else element, self.result_shape())]

    def verify_operation(self) -> None:
        super().verify_operation()
        check_int32_uses(self)

    def constant_count(self) -> int | None:
        """By how many elements each window's sum is divided, where that is the same everywhere; None where it is not."""
        sizes = self.spatial(shape_of(self.x))
        kernel = self.kernel(sizes)
        if not static(kernel):
            return None
        if (pads := self.resolved_pads(sizes)) is None:
            return None
        rows = zip(sizes, kernel, self.stride_list, pads, strict=True)
        counts = [_axis_count(s, k, st, p, self.counts_padding, self.rounds_up) for s, k, st, p in rows]
        found = [c for c in counts if c is not None]
        return prod(found) if len(found) == len(counts) else None


def _axis_count(
    size: int, kernel: int, stride: int, pads: tuple[int, int], counts_padding: bool, ceil: bool
) -> int | None:
    """How many elements every window covers along one axis; None where not all cover as many, or it depends on the size."""
    if (counts_padding or not any(pads)) and (stride == 1 or not ceil):
        return kernel
    counts = set(axis_counts(size, kernel, stride, pads, counts_padding, ceil)) if known(size) else set[int]()
    return counts.pop() if len(counts) == 1 else None


def axis_counts(
    size: int, kernel: int, stride: int, pads: tuple[int, int], counts_padding: bool, ceil: bool
) -> list[int]:
    """How many elements each window covers along one axis; what `ceil` adds beyond the padding never counts."""
    (outputs,) = window_sizes([size], [kernel], [stride], [1], [pads], ceil)
    begin, end = pads
    low, high = (-begin, size + end) if counts_padding else (0, size)
    starts = [i * stride - begin for i in range(outputs)]
    return [min(s + kernel, high) - max(s, low) for s in starts]
