"""Windows over `[N, *spatial, C]`: the padding of the operator itself, and the padding before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...dialects import nn
from ...dialects.nn.attributes import AutoPad
from ...dialects.nn.shapes import Shape, same_pads, shape_of, static
from .layer import TensorFlowLayer
from .movement import pad_all


@dataclass(frozen=True)
class Window:
    """The geometry of a window; unknown sizes of the input are DYNAMIC."""

    batch: int
    spatial: Shape
    kernel: Shape
    strides: Shape
    dilations: Shape
    pads: Shape | None
    """The pads; None if they depend on unknown sizes."""
    upper: bool
    """Whether padding is SAME_UPPER, if `pads` is None."""
    ceil: bool
    """Whether the last window may be beyond the padding."""

    @staticmethod
    def of(op: nn.WindowOp) -> Window:
        shape = shape_of(op.operands[0])
        spatial = op.spatial(shape)
        fixed = op.auto_pad is None or static(op.kernel_shape)
        ceil = isinstance(op, nn.PoolOp) and op.ceil_mode is not None and op.auto_pad is None
        return Window(
            batch=shape[0],
            spatial=spatial,
            kernel=op.kernel_shape,
            strides=op.stride_list,
            dilations=op.dilation_list,
            pads=op.resolved_pads(spatial) if fixed else None,
            upper=op.auto_pad is not None and op.auto_pad.data is AutoPad.SAME_UPPER,
            ceil=ceil and not (static(spatial) and op.window_output(spatial, ceil=True) == op.window_output(spatial)),
        )

    @property
    def rank(self) -> int:
        return len(self.kernel)

    @property
    def extents(self) -> Shape:
        """The extent of the kernel on each axis."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    @property
    def begins(self) -> Shape:
        return (self.pads or ())[: self.rank]

    @property
    def ends(self) -> Shape:
        return (self.pads or ())[self.rank :]

    def lifted(self) -> Window:
        """Adds a leading axis of size 1, so that operators for two axes work for one. Some require equal strides."""
        return replace(
            self,
            spatial=(1, *self.spatial),
            kernel=(1, *self.kernel),
            strides=(*self.strides, *self.strides),
            dilations=(1, *self.dilations),
            pads=None if self.pads is None else (0, *self.begins, 0, *self.ends),
        )

    def dense(self) -> Window:
        """The window of a kernel with zeros in place of dilation."""
        return replace(self, kernel=self.extents, dilations=(1,) * self.rank)

    def without_strides(self) -> Window:
        return replace(self, strides=(1,) * self.rank)

    def padding(self, explicit: bool = False) -> dict[str, Any] | None:
        """The attributes with which an operator pads itself; None if it cannot, even with explicit pads."""
        if self.pads is None:
            return {"padding": "SAME"} if self.upper else None
        if self.ceil:
            return None
        if not any(self.pads):
            return {"padding": "VALID"}
        if self._is_same():
            return {"padding": "SAME"}
        pairs = [p for pair in zip(self.begins, self.ends, strict=True) for p in pair]
        return {"padding": "EXPLICIT", "explicit_paddings": [0, 0, *pairs, 0, 0]} if explicit else None

    def _is_same(self) -> bool:
        if not static(self.spatial) or not static(self.kernel):
            return False
        rows = zip(self.spatial, self.kernel, self.strides, self.dilations, strict=True)
        return tuple(zip(self.begins, self.ends, strict=True)) == tuple(same_pads(*row, True) for row in rows)

    def sliding(self) -> dict[str, Any]:
        """Strides, and dilations if there are any, for all axes."""
        dilations = [1, *self.dilations, 1] if set(self.dilations) - {1} else None
        return {"strides": [1, *self.strides, 1], "dilations": dilations}


def lifted(layer: TensorFlowLayer, window: Window, x: str, write: Callable[[str, Window], str]) -> str:
    """The result of `write` for a tensor of two or more spatial axes; a single axis gets a leading axis of size 1."""
    if window.rank != 1:
        return write(x, window)
    inner = write(layer.helper("ExpandDims", x, layer.int(1, "axis")), window.lifted())
    return layer.helper("Squeeze", inner, squeeze_dims=[1])


def padded(layer: TensorFlowLayer, x: str, window: Window, fill: float) -> str:
    """The padded input, at least up to the end of the last window, so that a window without padding computes the same."""
    if window.pads is not None and not window.ceil:
        return pad_all(layer, x, _around(window.begins), _around(window.ends), fill)
    if window.pads is not None and static(window.spatial):
        return pad_all(layer, x, _around(window.begins), _around(ceil_ends(window)), fill)
    pairs = _ceil_pairs(layer, x, window) if window.pads is not None else _same_pairs(layer, x, window)
    paddings = layer.helper("PadV2", pairs, layer.pairs([(1, 1), (0, 0)], "rows"), layer.int(0, "zero"))
    return layer.helper("PadV2", x, paddings, layer.scalar(fill, x, "fill"))


def _around(amounts: Sequence[int]) -> list[int]:
    """Amounts per spatial axis as amounts per axis."""
    return [0, *amounts, 0]


def ceil_ends(window: Window) -> list[int]:
    """The padding after each axis, to the end of the last window."""
    ends: list[int] = []
    rows = zip(window.spatial, window.extents, window.strides, window.begins, window.ends, strict=True)
    for size, extent, stride, begin, end in rows:
        count = -(-(size + begin + end - extent) // stride) + 1
        count -= (count - 1) * stride >= size + begin
        ends.append(max((count - 1) * stride + extent - size - begin, 0))
    return ends


def _same_pairs(layer: TensorFlowLayer, x: str, window: Window) -> str:
    """The begin and end of SAME padding for each spatial axis, for sizes that are known at run time."""
    sizes, strides = _spatial_sizes(layer, x, window), layer.ints(window.strides, "strides")
    rest = layer.ints([s - 1 for s in window.strides], "rest")
    counts = layer.helper("FloorDiv", layer.helper("AddV2", sizes, rest), strides)
    total = _beyond(layer, counts, sizes, window, [0] * window.rank)
    less = layer.helper("FloorDiv", total, layer.int(2, "two"))
    more = layer.helper("Sub", total, less)
    return _pairs(layer, less, more) if window.upper else _pairs(layer, more, less)


def _ceil_pairs(layer: TensorFlowLayer, x: str, window: Window) -> str:
    """Like `ceil_ends`, for sizes that are known only at run time."""
    sizes, strides = _spatial_sizes(layer, x, window), layer.ints(window.strides, "strides")
    rows = zip(window.begins, window.ends, window.extents, window.strides, strict=True)
    room = layer.helper("AddV2", sizes, layer.ints([b + e - k + s - 1 for b, e, k, s in rows], "room"))
    last = layer.helper("FloorDiv", room, strides)
    inside = layer.helper("AddV2", sizes, layer.ints(window.begins, "begins"))
    late = layer.helper("GreaterEqual", layer.helper("Mul", last, strides), inside)
    counts = layer.helper("Sub", layer.helper("AddV2", last, layer.int(1, "one")), layer.cast(late, "int32"))
    return _pairs(layer, layer.ints(window.begins, "begins"), _beyond(layer, counts, sizes, window, window.begins))


def _beyond(layer: TensorFlowLayer, counts: str, sizes: str, window: Window, begins: Sequence[int]) -> str:
    """The excess of these windows over `sizes` after `begins`, at least 0."""
    rows = zip(window.extents, window.strides, begins, strict=True)
    reach = layer.helper("Mul", counts, layer.ints(window.strides, "strides"))
    reach = layer.helper("AddV2", reach, layer.ints([k - s - b for k, s, b in rows], "reach"))
    return layer.helper("Maximum", layer.helper("Sub", reach, sizes), layer.int(0, "zero"))


def _spatial_sizes(layer: TensorFlowLayer, x: str, window: Window) -> str:
    bounds = layer.ints([1], "first"), layer.ints([window.rank + 1], "last")
    return layer.helper("StridedSlice", layer.sizes(x), *bounds, layer.ints([1], "step"))


def _pairs(layer: TensorFlowLayer, begins: str, ends: str) -> str:
    axis = layer.int(1, "axis")
    columns = [layer.helper("ExpandDims", v, axis) for v in (begins, ends)]
    return layer.helper("ConcatV2", *columns, axis)
