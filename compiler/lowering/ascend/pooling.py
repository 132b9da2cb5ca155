"""Pooling over windows, and over all of space. Caffe's layers are Pooling, TensorFlow's AvgPool and MaxPool.

Windows over one axis get a second axis of size 1, like convolutions.
"""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.ascend.base import same_pad_pairs
from ...dialects.ascend.pooling import axis_count, is_same
from ...dialects.nn.shapes import shape_of, static
from ...rewriting import Condition, Roots, condition, requires
from ...runtime.affine import are_normal
from .quantized import InIntegers, dequantized
from .rules import Builder, Lowering, Source, Values

CAFFE = (("caffe", "Pooling"),)
Pool = TypeVar("Pool", bound=nn.PoolOp)


class Window(Lowering[Pool], Generic[Pool]):
    """A pool over windows in floats. Subclasses name the operation of Ascend IR."""

    def kind(self, op: Pool) -> type[ascend.WindowOp]:
        """The operation of Ascend IR."""
        raise NotImplementedError

    spatial_rank: Condition[Any] = requires(
        lambda op: op.spatial_rank <= 2,
        "there are one or two spatial axes",
        lambda op: f"it pools over {op.spatial_rank} spatial axes, Ascend IR over at most 2",
    )

    no_dilation: Condition[Any] = requires(
        lambda op: all(d == 1 for d in op.dilation_list),
        "windows have no gaps",
        "Ascend IR has no pooling with dilations",
    )

    def rewrite(self, build: Builder, op: Pool) -> Values:
        pool = build.add(self.kind(op), _widened(build, op, op.input), **self.kind(op).like(op))
        return [_narrowed(build, op, pool.y)]


def _widened(build: Builder, op: nn.PoolOp, x: SSAValue) -> SSAValue:
    """x with two axes of space."""
    if op.spatial_rank != 1:
        return x
    return build.add(ascend.UnsqueezeOp, x, axes=[_added_axis(op)], name=f"{build.hint}_x").y


def _narrowed(build: Builder, op: nn.PoolOp, y: SSAValue) -> SSAValue:
    """y without the axis that `_widened` has added."""
    return y if op.spatial_rank != 1 else build.add(ascend.SqueezeOp, y, axis=[_added_axis(op)]).y


def _added_axis(op: nn.PoolOp) -> int:
    return 1 if op.channels_last else 2


def _pads(op: nn.PoolOp) -> tuple[int, ...] | None:
    """The pads; None if they depend on sizes that are not known."""
    return op.resolved_pads(op.spatial(shape_of(op.input)))


class WindowPool(Window[nn.PoolOp]):
    """MaxPoolV3 or AvgPoolV2"""

    roots: ClassVar[Roots] = (nn.MaxPoolOp, nn.AveragePoolOp)

    known_pads: Condition[Any] = requires(
        lambda op: is_same(op) or _pads(op) is not None,
        "the padding does not depend on sizes that are not known, except that of SAME",
        "its auto_pad depends on sizes that are not known",
    )

    def kind(self, op: nn.PoolOp) -> type[ascend.WindowOp]:
        return ascend.AvgPoolV2Op if isinstance(op, nn.AveragePoolOp) else ascend.MaxPoolV3Op


class SameOrValidPool(Window[nn.PoolOp]):
    """MaxPool or AvgPool"""

    roots: ClassVar[Roots] = (nn.MaxPoolOp, nn.AveragePoolOp)
    sources: ClassVar[tuple[Source, ...]] = (
        ("tensorflow", "AvgPool"),
        ("tensorflow", "MaxPool"),
        ("tensorflow", "MaxPoolV2"),
    )

    @condition
    def same_or_valid(self, op: nn.PoolOp) -> str | None:
        """the padding is that of SAME or VALID, not counted, and sizes are rounded down"""
        kind = self.kind(op).name.removeprefix("ascend.")
        if op.ceil_mode is not None:
            return f"{kind} does not round sizes up"
        if not any(op.pad_list) and op.auto_pad is None:
            return None
        if not _pads_as_same(op):
            return f"{kind} pads as SAME or VALID do, not by {list(op.pad_list)}"
        counts = isinstance(op, nn.AveragePoolOp) and op.count_include_pad is not None
        return f"{kind} does not count the padding" if counts else None

    def kind(self, op: nn.PoolOp) -> type[ascend.WindowOp]:
        return ascend.AvgPoolOp if isinstance(op, nn.AveragePoolOp) else ascend.MaxPoolOp


def _pads_as_same(op: nn.PoolOp) -> bool:
    if op.auto_pad is not None:
        return is_same(op)
    sizes, n = op.spatial(shape_of(op.input)), op.spatial_rank
    pairs = tuple(zip(op.pad_list[:n], op.pad_list[n:], strict=True))
    return static(sizes) and pairs == same_pad_pairs(sizes, op.kernel_shape, op.stride_list)


class CaffePool(Window[nn.PoolOp]):
    """Pooling, whose ceil_mode 0 rounds up"""

    roots: ClassVar[Roots] = (nn.MaxPoolOp, nn.AveragePoolOp)
    sources: ClassVar[tuple[Source, ...]] = CAFFE

    @condition
    def spatial_rank(self, op: nn.PoolOp) -> str | None:
        """there are two spatial axes"""
        return Window.spatial_rank.holds(self, op) or (None if op.spatial_rank == 2 else "Pooling has two spatial axes")

    channels_second: Condition[Any] = requires(
        lambda op: not op.channels_last, "the channels are axis 1", "Pooling has its channels on axis 1"
    )

    known_pads: Condition[Any] = requires(
        lambda op: _pads(op) is not None,
        "the padding does not depend on sizes that are not known",
        "its auto_pad depends on sizes that are not known",
    )

    counted_padding: Condition[Any] = requires(
        lambda op: (
            not isinstance(op, nn.AveragePoolOp) or op.count_include_pad is not None or (not any(_pads(op) or ()))
        ),
        "a mean counts its padding as zeros",
        "Pooling counts the padding of a mean as zeros",
    )

    def kind(self, op: nn.PoolOp) -> type[ascend.WindowOp]:
        return ascend.PoolingOp


def window_count(op: nn.AveragePoolOp) -> int | None:
    """The number of elements that divides every window's sum; None if windows differ."""
    space, n = op.spatial(shape_of(op.input)), op.spatial_rank
    if (pads := op.resolved_pads(space)) is None:
        return None
    padding, ceil = op.count_include_pad is not None, op.ceil_mode is not None
    rows = zip(space, op.kernel_shape, op.stride_list, zip(pads[:n], pads[n:], strict=True), strict=True)
    counts = [axis_count(*row, padding, ceil) for row in rows]
    found = [count for count in counts if count is not None]
    return prod(found) if len(found) == len(counts) else None


class IntegerAverage(Window[Any], InIntegers[nn.AveragePoolOp]):
    """The exact int32 sum of each window; the dequantization divides by the count."""

    constant_count: Condition[Any] = requires(
        lambda op: window_count(op) is not None,
        "all windows count the same number of elements",
        "its windows do not all count the same number of elements",
    )

    @condition
    def scale_range(self, op: nn.AveragePoolOp) -> str | None:
        """the scale divided by the count is a normal float32 number"""
        normal = are_normal(self._scale(op))
        return None if normal else "its scale divided by the count leaves the normal range of float32"

    def _scale(self, op: nn.AveragePoolOp) -> np.ndarray[Any, np.dtype[np.float32]]:
        count = window_count(op)
        assert count is not None, "constant_count asks for it"
        return np.asarray(np.float32(self.params(op).scales()) / np.float32(count))

    def rewrite(self, build: Builder, op: nn.AveragePoolOp) -> Values:
        (activation,) = self.activations(build, op)
        name, offset = f"{build.hint}_sum", activation.zero_point
        x, kind = _widened(build, op, activation.value), self.kind(op)
        pool = build.add(kind, x, name=name, offset_x=offset, **kind.like(op))
        return [_narrowed(build, op, dequantized(build, pool.y, self._scale(op).reshape(1)))]


class IntegerWindowPool(WindowPool, IntegerAverage):
    """AvgPoolV2 of int8, then AscendDequant"""

    roots: ClassVar[Roots] = (nn.AveragePoolOp,)


class IntegerSameOrValidPool(SameOrValidPool, IntegerAverage):
    """AvgPool of int8, then AscendDequant"""

    roots: ClassVar[Roots] = (nn.AveragePoolOp,)


class IntegerCaffePool(CaffePool, IntegerAverage):
    """Pooling of int8, then AscendDequant"""

    roots: ClassVar[Roots] = (nn.AveragePoolOp,)


class SpaceReduction(Lowering[nn.GlobalPoolOp]):
    """ReduceMean or ReduceMax over all of space"""

    roots: ClassVar[Roots] = (nn.GlobalAveragePoolOp, nn.GlobalMaxPoolOp)

    spatial_rank: Condition[Any] = requires(
        lambda op: len(shape_of(op.input)) > 2, "there are spatial axes", "there are no spatial axes to reduce"
    )

    def rewrite(self, build: Builder, op: nn.GlobalPoolOp) -> Values:
        kind = ascend.ReduceMeanOp if isinstance(op, nn.GlobalAveragePoolOp) else ascend.ReduceMaxOp
        axes = build.ints(op.spatial(range(len(shape_of(op.input)))), "axes")
        return [build.add(kind, op.input, axes, keep_dims=True).y]


class CaffeGlobalPool(Lowering[nn.GlobalPoolOp]):
    """Pooling with global_pooling"""

    roots: ClassVar[Roots] = (nn.GlobalAveragePoolOp, nn.GlobalMaxPoolOp)
    sources: ClassVar[tuple[Source, ...]] = CAFFE

    channels_second: Condition[Any] = requires(
        lambda op: not op.channels_last, "the channels are axis 1", "Pooling has its channels on axis 1"
    )

    def rewrite(self, build: Builder, op: nn.GlobalPoolOp) -> Values:
        return [build.add(ascend.PoolingOp, op.input, **ascend.PoolingOp.like(op)).y]


PATTERNS = (
    IntegerSameOrValidPool,
    IntegerCaffePool,
    IntegerWindowPool,
    SameOrValidPool,
    CaffePool,
    WindowPool,
    CaffeGlobalPool,
    SpaceReduction,
)
