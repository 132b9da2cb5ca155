"""Pooling over windows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

from xdsl.dialects.builtin import StringAttr, f16, f32, f64, i32
from xdsl.irdl import Operand, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from .. import nn
from ..nn.base import ANY_TENSOR, BOOL, INT, INTS, TEXT, Bool, Int, Ints, NNOp, Result, Text, integer, ints
from ..nn.shapes import Shape, element_of, known, shape_of, static, tensor
from .base import (
    FALSE,
    FBD,
    TRUE,
    FormatOp,
    Meaning,
    check_choice,
    check_range,
    declare,
    full_rank,
    i8,
    i16,
    i64,
    int_list,
    pads_of,
    same_pad_pairs,
    ui8,
    ui16,
    window_sizes,
)
from .cube import check_int32_uses, check_offset_x

WINDOW_LIMIT, STRIDE_LIMIT = 255, 63


_SUMS = (
    "takes int8 x with offset_x and gives the exact int32 sum of each window (padding contributes 0); 1/count goes into "
    "deq_scale, so the count must be constant"
)


class WindowOp(FormatOp):
    """A window over each channel of x."""

    x: Operand = operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)

    data_format: Text = prop_def(TEXT, default_value=StringAttr("NCHW"))

    @property
    def is_global(self) -> bool:
        """Whether the window covers all of space."""
        return False

    @property
    def rounds_up(self) -> bool:
        """Whether output sizes are rounded up."""
        return False

    @property
    @abstractmethod
    def is_same(self) -> bool:
        """Whether padding is TensorFlow's SAME."""

    @property
    @abstractmethod
    def window_shape(self) -> Shape:
        """The window's sizes, if it does not cover all of space."""

    @property
    @abstractmethod
    def stride_list(self) -> Shape:
        """The steps along the spatial axes."""

    @property
    @abstractmethod
    def given_pads(self) -> tuple[tuple[int, int], ...]:
        """(begin, end) per spatial axis, if the padding is not SAME."""

    def kernel(self, sizes: Sequence[int]) -> Shape:
        """The window for these spatial sizes."""
        return tuple(sizes) if self.is_global else self.window_shape

    def resolved_pads(self, sizes: Sequence[int]) -> tuple[tuple[int, int], ...] | None:
        """(begin, end) per spatial axis for these sizes; None if SAME needs an unknown size."""
        if self.is_global:
            return ((0, 0),) * len(self.space)
        if not self.is_same:
            return self.given_pads
        return same_pad_pairs(sizes, self.kernel(sizes), self.stride_list) if static(sizes) else None

    def derive(self) -> Sequence[Tensor]:
        self.check_rank("x", self.x)
        check_range("stride", self.stride_list, 1, STRIDE_LIMIT)
        if not self.is_global:
            self.check_window(self.window_shape)
        return super().derive()

    def check_window(self, kernel: Shape) -> None:
        check_range("window size", kernel, 1, WINDOW_LIMIT)
        if prod(kernel) > WINDOW_LIMIT:
            raise VerifyException(f"a window of {prod(kernel)} elements, at most {WINDOW_LIMIT} are possible")
        for k, (begin, end) in zip(kernel, () if self.is_same else self.given_pads, strict=False):
            if not (0 <= begin < k and 0 <= end < k):
                raise VerifyException(f"pads {begin} and {end} must be smaller than the window of {k}")

    def as_pool(self, kind: type[NNOp], global_kind: type[NNOp], **properties: Any) -> Meaning:
        """A pool of `nn`."""
        if self.is_global:
            return self.as_nn(global_kind, 1, layout=self.nn_layout)
        if self.is_same:
            padding: dict[str, Any] = {"auto_pad": "same_upper"}
        else:
            padding = {"pads": (*(b for b, _ in self.given_pads), *(e for _, e in self.given_pads))}
        window = {"kernel": self.window_shape, "strides": self.stride_list, "ceil_mode": self.rounds_up}
        return self.as_nn(kind, 1, layout=self.nn_layout, **window, **padding, **properties)

    def meaning(self) -> Meaning:
        return self.as_pool(nn.MaxPoolOp, nn.GlobalMaxPoolOp)


class PoolOp(WindowOp):
    """x `[N, C, H, W]` (`data_format "NHWC"`: channels last).

    ksize and strides have one entry per axis. `padding_mode` is `CALCULATED` (by `pads`: top, bottom, left, right), `SAME` or
    `VALID`; `global_pooling` makes the window all of space; `ceil_mode` rounds output sizes up.
    """

    ksize: Ints = prop_def(INTS)
    strides: Ints = prop_def(INTS)
    padding_mode: Text = prop_def(TEXT, default_value=StringAttr("CALCULATED"))
    pads: Ints = prop_def(INTS, default_value=int_list(0, 0, 0, 0))
    data_format: Text = prop_def(TEXT, default_value=StringAttr("NCHW"))
    global_pooling: Bool = prop_def(BOOL, default_value=FALSE)
    ceil_mode: Bool = prop_def(BOOL, default_value=FALSE)

    @property
    def is_global(self) -> bool:
        return bool(self.global_pooling.value.data)

    @property
    def rounds_up(self) -> bool:
        return bool(self.ceil_mode.value.data)

    @property
    def padding(self) -> str:
        return check_choice("padding_mode", self.padding_mode, ("CALCULATED", "SAME", "VALID"))

    @property
    def is_same(self) -> bool:
        return self.padding == "SAME"

    @property
    def window_shape(self) -> Shape:
        return self.per_axis("ksize", self.ksize)

    @property
    def stride_list(self) -> Shape:
        return self.per_axis("strides", self.strides)

    @property
    def given_pads(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),) * len(self.space) if self.padding == "VALID" else self.pad_pairs(self.pads)

    @classmethod
    def like(cls, op: nn.PoolOp | nn.GlobalPoolOp) -> dict[str, Any]:
        if isinstance(op, nn.GlobalPoolOp):
            return {**_sizes(op.channels_last, (1, 1), (1, 1)), "global_pooling": True}
        depends = is_same(op) and not static(op.spatial(shape_of(op.input)))
        padding: dict[str, Any] = {"padding_mode": "SAME"} if depends else {"pads": pads_of(op)}
        sizes = _sizes(op.channels_last, op.kernel_shape, op.stride_list)
        return {**sizes, "ceil_mode": op.ceil_mode is not None, **padding}


class SameOrValidOp(WindowOp):
    """A pool as in TensorFlow: x `[N, H, W, C]` (`data_format "NCHW"`: channels second), `padding` `SAME` or `VALID`."""

    ksize: Ints = prop_def(INTS)
    strides: Ints = prop_def(INTS)
    padding: Text = prop_def(TEXT)
    data_format: Text = prop_def(TEXT, default_value=StringAttr("NHWC"))

    @property
    def is_same(self) -> bool:
        return check_choice("padding", self.padding, ("SAME", "VALID")) == "SAME"

    @property
    def window_shape(self) -> Shape:
        return self.per_axis("ksize", self.ksize)

    @property
    def stride_list(self) -> Shape:
        return self.per_axis("strides", self.strides)

    @property
    def given_pads(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),) * len(self.space)

    @classmethod
    def like(cls, op: nn.PoolOp | nn.GlobalPoolOp) -> dict[str, Any]:
        """The padding must be that of SAME or VALID."""
        assert isinstance(op, nn.PoolOp)
        sizes = _sizes(op.channels_last, op.kernel_shape, op.stride_list)
        return {**sizes, "padding": "SAME" if is_same(op) or any(op.pad_list) else "VALID"}


def is_same(op: nn.PoolOp) -> bool:
    """Whether an operation of `nn` pads by itself, as TensorFlow's SAME does."""
    return op.auto_pad is not None and op.auto_pad.data is nn.AutoPad.SAME_UPPER


def _sizes(channels_last: bool, kernel: Shape, strides: Shape) -> dict[str, Any]:
    """The window, with one entry per axis."""
    data_format = "NHWC" if channels_last else "NCHW"
    return {
        "ksize": full_rank(data_format, kernel),
        "strides": full_rank(data_format, strides),
        "data_format": data_format,
    }


class AveragingOp(WindowOp):
    """Base of average pooling: for int8 x it gives the exact int32 sum of `x - offset_x` over each window;
    dequantization divides it.
    """

    offset_x: Int = prop_def(INT, default_value=integer(0))

    @property
    @abstractmethod
    def counts_padding(self) -> bool:
        """Whether padding counts as zeros; otherwise it does not count."""

    @property
    def zero_point(self) -> int:
        return self.offset_x.value.data

    def derive(self) -> Sequence[Tensor]:
        element = element_of(self.x)
        check_offset_x(element, self.zero_point)
        (mean,) = super().derive()
        return [tensor(i32, mean.get_shape()) if element == i8 else mean]

    def verify_operation(self) -> None:
        super().verify_operation()
        check_int32_uses(self)

    def constant_count(self) -> int | None:
        """The number of elements by which every window's sum is divided; None if windows differ."""
        sizes = self.spatial(shape_of(self.x))
        kernel = self.kernel(sizes)
        if not static(kernel):
            return None
        if (pads := self.resolved_pads(sizes)) is None:
            return None
        rows = zip(sizes, kernel, self.stride_list, pads, strict=True)
        counts = [axis_count(s, k, st, p, self.counts_padding, self.rounds_up) for s, k, st, p in rows]
        found = [c for c in counts if c is not None]
        return prod(found) if len(found) == len(counts) else None

    def meaning(self) -> Meaning:
        return self.as_pool(nn.AveragePoolOp, nn.GlobalAveragePoolOp, count_include_pad=self.counts_padding)


@declare(x=(*FBD, i8, i16, i32, i64, ui8, ui16))
class MaxPoolV3Op(PoolOp):
    """The largest element of each window; padding never wins. y has the type of x."""


@declare(x=(f16, f32, f64, i8, i16, i32, i64, ui8, ui16))
class MaxPoolOp(SameOrValidOp):
    """The largest element of each window (TensorFlow); padding never wins. y has the type of x."""


@declare(x=(*FBD, i8))
class AvgPoolV2Op(PoolOp, AveragingOp):
    """The mean of each window; of int8 x, the exact int32 sum of `x - offset_x` over each window.

    With `exclusive` padding does not count, otherwise it counts as zeros. `divisor_override` must be 0 (unused).
    """

    DEVIATION: ClassVar[str] = _SUMS

    exclusive: Bool = prop_def(BOOL, default_value=TRUE)
    divisor_override: Int = prop_def(INT, default_value=integer(0))
    offset_x: Int = prop_def(INT, default_value=integer(0))

    @property
    def counts_padding(self) -> bool:
        return not self.exclusive.value.data

    @classmethod
    def like(cls, op: nn.PoolOp | nn.GlobalPoolOp) -> dict[str, Any]:
        counts = isinstance(op, nn.AveragePoolOp) and op.count_include_pad is not None
        return {**super().like(op), "exclusive": not counts}

    def derive(self) -> Sequence[Tensor]:
        if self.divisor_override.value.data:
            raise VerifyException("divisor_override must be 0")
        return super().derive()


@declare(x=(*FBD, i8))
class AvgPoolOp(SameOrValidOp, AveragingOp):
    """The mean of each window (TensorFlow), padding not counted; of int8 x, the exact int32 sum of `x - offset_x`."""

    DEVIATION: ClassVar[str] = _SUMS

    @property
    def counts_padding(self) -> bool:
        return False


@declare(x=(f16, f32, i8))
class PoolingOp(AveragingOp):
    """Pooling (Caffe): the largest element (`mode 0`) or the mean (1) of each window of x `[N, C, H, W]`.

    `window` and `stride` are along H and W, `pad` is top, bottom, left, right. `ceil_mode` 0 rounds output sizes **up** but drops
    a window that would begin after the padded input; 1 rounds down. Padding is never the largest element. A mean counts padding
    as zeros, but not the elements that rounding up adds. int8 x (`mode 1`) gives the exact int32 sum of `x - offset_x`.
    """

    FORMATS: ClassVar[tuple[str, ...]] = ("NCHW",)
    DEVIATION: ClassVar[str] = (
        "has the attribute offset_x; of int8 x it gives the exact int32 sum of each window (padding contributes 0), 1/count goes "
        "into deq_scale, so the count must be constant"
    )

    mode: Int = prop_def(INT, default_value=integer(0))
    global_pooling: Bool = prop_def(BOOL, default_value=FALSE)
    window: Ints = prop_def(INTS, default_value=int_list(1, 1))
    stride: Ints = prop_def(INTS, default_value=int_list(1, 1))
    pad: Ints = prop_def(INTS, default_value=int_list(0, 0, 0, 0))
    dilation: Ints = prop_def(INTS, default_value=int_list(1, 1, 1, 1))
    ceil_mode: Int = prop_def(INT, default_value=integer(0))

    @property
    def is_average(self) -> bool:
        return self.mode.value.data == 1

    @property
    def counts_padding(self) -> bool:
        return True

    @property
    def is_global(self) -> bool:
        return bool(self.global_pooling.value.data)

    @property
    def rounds_up(self) -> bool:
        return self.ceil_mode.value.data == 0

    @property
    def is_same(self) -> bool:
        return False

    @property
    def window_shape(self) -> Shape:
        return _pair("window", self.window)

    @property
    def stride_list(self) -> Shape:
        return _pair("stride", self.stride)

    @property
    def given_pads(self) -> tuple[tuple[int, int], ...]:
        return self.pad_pairs(self.pad)

    @classmethod
    def like(cls, op: nn.PoolOp | nn.GlobalPoolOp) -> dict[str, Any]:
        if isinstance(op, nn.GlobalPoolOp):
            return {"mode": int(isinstance(op, nn.GlobalAveragePoolOp)), "global_pooling": True}
        return {
            "mode": int(isinstance(op, nn.AveragePoolOp)),
            "window": op.kernel_shape,
            "stride": op.stride_list,
            "pad": pads_of(op),
            "ceil_mode": int(op.ceil_mode is None),
        }

    def derive(self) -> Sequence[Tensor]:
        check_range("mode", [self.mode.value.data], 0, 1)
        check_range("ceil_mode", [self.ceil_mode.value.data], 0, 1)
        if any(d != 1 for d in ints(self.dilation)):
            raise VerifyException(f"dilation {list(ints(self.dilation))} must be 1")
        if element_of(self.x) == i8 and not self.is_average:
            raise VerifyException("int8 x is for mode 1, the mean")
        return super().derive()

    def meaning(self) -> Meaning:
        return AveragingOp.meaning(self) if self.is_average else WindowOp.meaning(self)


def _pair(what: str, attribute: Ints) -> Shape:
    values = ints(attribute)
    if len(values) != 2:
        raise VerifyException(f"{what} has {len(values)} entries, expected 2 (H, W)")
    return values


def axis_count(
    size: int, kernel: int, stride: int, pads: tuple[int, int], counts_padding: bool, ceil: bool
) -> int | None:
    """The number of elements that every window covers along one axis; None if windows differ, or it depends on the size."""
    if (counts_padding or not any(pads)) and (stride == 1 or not ceil):
        return kernel
    counts = set(axis_counts(size, kernel, stride, pads, counts_padding, ceil)) if known(size) else set[int]()
    return counts.pop() if len(counts) == 1 else None


def axis_counts(
    size: int, kernel: int, stride: int, pads: tuple[int, int], counts_padding: bool, ceil: bool
) -> list[int]:
    """The number of elements that each window covers along one axis; elements that `ceil` adds never count."""
    (outputs,) = window_sizes([size], [kernel], [stride], [1], [pads], ceil)
    begin, end = pads
    low, high = (-begin, size + end) if counts_padding else (0, size)
    starts = [i * stride - begin for i in range(outputs)]
    return [min(s + kernel, high) - max(s, low) for s in starts]


__all__ = ["AveragingOp", "AvgPoolOp", "AvgPoolV2Op", "MaxPoolOp", "MaxPoolV3Op", "PoolOp", "PoolingOp", "WindowOp"]
