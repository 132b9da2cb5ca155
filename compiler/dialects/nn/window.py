"""The common part of convolutions and pooling: a window that slides over the spatial axes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from xdsl.irdl import opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from .attributes import AutoPad, AutoPadAttr, Layout, LayoutAttr
from .base import INTS, Ints, NNOp, ints
from .constant import constant_of
from .fused import outside
from .shapes import DYNAMIC, Shape, known, same_pads, same_size, window_size


class LayoutOp(NNOp):
    """An operation with a `layout`: the position of the channels of its first operand."""

    layout: LayoutAttr = prop_def(LayoutAttr, default_value=LayoutAttr(Layout.NCHW))

    @property
    def acts_by_sample(self) -> bool:
        return all(constant_of(outside(v)) is not None for v in self.operands[1:])

    @property
    def channels_last(self) -> bool:
        return self.layout.data is Layout.NHWC

    def channel_axis(self, rank: int) -> int:
        return rank - 1 if self.channels_last else 1

    def spatial(self, shape: Sequence[int]) -> Shape:
        """The spatial sizes of a shape in this operation's layout."""
        return tuple(shape[1:-1] if self.channels_last else shape[2:])

    def arrange(self, batch: int, channels: int, spatial: Sequence[int]) -> Shape:
        """A shape in this operation's layout."""
        return (batch, *spatial, channels) if self.channels_last else (batch, channels, *spatial)


class WindowOp(LayoutOp):
    """A sliding window. `strides`, `dilations` absent mean ones, `pads` zeros.

    `pads` lists all begins, then all ends (ONNX order). `auto_pad` replaces pads while sizes are not known.
    """

    strides: Ints | None = opt_prop_def(INTS)
    pads: Ints | None = opt_prop_def(INTS)
    dilations: Ints | None = opt_prop_def(INTS)
    auto_pad: AutoPadAttr | None = opt_prop_def(AutoPadAttr)

    @property
    @abstractmethod
    def kernel_shape(self) -> Shape:
        """The window's size on each spatial axis."""

    @property
    def spatial_rank(self) -> int:
        return len(self.kernel_shape)

    @property
    def stride_list(self) -> Shape:
        return ints(self.strides, (1,) * self.spatial_rank)

    @property
    def dilation_list(self) -> Shape:
        return ints(self.dilations, (1,) * self.spatial_rank)

    @property
    def pad_list(self) -> Shape:
        return ints(self.pads, (0,) * (2 * self.spatial_rank))

    def resolved_pads(self, spatial: Sequence[int]) -> Shape | None:
        """The pads for inputs of these spatial sizes; None if `auto_pad` needs an unknown size."""
        if self.auto_pad is None:
            return self.pad_list
        if not all(map(known, spatial)):
            return None
        upper = self.auto_pad.data is AutoPad.SAME_UPPER
        geometry = zip(spatial, self.kernel_shape, self.stride_list, self.dilation_list, strict=True)
        pairs = [same_pads(s, k, stride, d, upper) for s, k, stride, d in geometry]
        return (*(b for b, _ in pairs), *(e for _, e in pairs))

    def check_window(self) -> None:
        """Raises VerifyException if a list does not have one entry per spatial axis, or a number is out of range."""
        n = self.spatial_rank
        for name, values, length, least in (
            ("strides", self.stride_list, n, 1),
            ("dilations", self.dilation_list, n, 1),
            ("pads", self.pad_list, 2 * n, 0),
        ):
            if len(values) != length:
                raise VerifyException(f"{name} has {len(values)} entries, expected {length} for {n} spatial axes")
            if any(v < least for v in values):
                raise VerifyException(f"{name} {list(values)} must be at least {least}")
        if any(k < 1 for k in self.kernel_shape if k != DYNAMIC):
            raise VerifyException(f"kernel {list(self.kernel_shape)} must be at least 1")
        if self.auto_pad is not None and self.pads is not None:
            raise VerifyException("pads and auto_pad exclude each other")

    def window_output(self, spatial: Sequence[int], ceil: bool = False) -> Shape:
        """Output sizes for these spatial sizes; unknown if the input size is."""
        if self.auto_pad is not None:
            return tuple(same_size(s, stride) for s, stride in zip(spatial, self.stride_list, strict=True))
        n = self.spatial_rank
        begins, ends = self.pad_list[:n], self.pad_list[n:]
        rows = zip(spatial, self.kernel_shape, self.stride_list, self.dilation_list, begins, ends, strict=True)
        return tuple(DYNAMIC if k == DYNAMIC else window_size(s, k, st, d, b, e, ceil) for s, k, st, d, b, e in rows)


__all__ = ["LayoutOp", "WindowOp"]
