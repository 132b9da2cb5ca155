"""Convolutions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ....dialects import nn
from ....dialects.nn.shapes import DYNAMIC, known, same_size, static, window_size
from ....formats.tensorflow.attributes import GROUPS
from ....transforms.partial_shapes import Dimension, Linear
from ...shapes import normalized, with_pads
from ..node import Converted, Node, Unmapped, converter
from .filters import depthwise_filter, transposed_filter
from .window import geometry


@converter("Conv2D", "Conv3D")
def conv(node: Node) -> Converted:
    """Filter `[*kernel, C/groups, M]`."""
    rank = _rank(node, 0)
    filters = transposed_filter(node, 1, (rank - 1, rank - 2, *range(rank - 2)))
    groups = groups_of(node, channels_of(node))
    return with_pads(node.emit(nn.ConvOp, node.value(0), filters, groups=groups, **geometry(node))).result


@converter("DepthwiseConv2dNative")
def depthwise(node: Node) -> Converted:
    """Filter `[h, w, C, M]`; channel c of the input makes channels c*M to c*M + M - 1 of the output."""
    if (rank := _rank(node, 0)) != 4:
        raise node.error(f"needs an input of rank 4, not {rank}")
    groups = node.shape(1)[2] if known(node.shape(1)[2]) else channels_of(node)
    if not known(groups):
        raise Unmapped("its number of channels is not known")
    filters = depthwise_filter(node, 1)
    return with_pads(node.emit(nn.ConvOp, node.value(0), filters, groups=groups, **geometry(node))).result


@converter("Conv2DBackpropInput", "Conv3DBackpropInputV2")
def conv_transpose(node: Node) -> Converted:
    """Filter `[*kernel, M/groups, C]`. Input 0 is the shape of the result, input 2 the data.

    The operator is the gradient of a convolution from the result to input 2; the padding of that convolution is cut off.
    """
    rank, window = _rank(node, 2), transposed_window(node)
    cuts, groups = window.cuts, window.groups
    properties = geometry(node) | {"auto_pad": None, "pads": [*(c.begin for c in cuts), *(c.end for c in cuts)]}
    filters = transposed_filter(node, 1, (rank - 1, rank - 2, *range(rank - 2)))
    extra = [c.extra for c in cuts]
    made = node.emit(nn.ConvTransposeOp, node.value(2), filters, groups=groups, output_padding=extra, **properties)
    return normalized(made).result


def _rank(node: Node, data: int) -> int:
    """The common rank of data and filter. Raises CompileError if they differ."""
    rank, filter_rank = len(node.shape(data)), len(node.shape(1))
    if rank != filter_rank or rank < 3:
        raise node.error(f"does not fit together: an input of rank {rank}, a filter of rank {filter_rank}")
    return rank


def channels_of(node: Node) -> int:
    """The number of input channels of a convolution."""
    return node.shape(0)[1 if node.layout == "nchw" else -1]


def groups_of(node: Node, channels: int) -> int:
    """The number of groups: the channels divided by those that a filter takes, or as deployable files say. Raises
    Unmapped if that is not known, CompileError if it does not divide.
    """
    per_group = node.shape(1)[-2]
    if not static([channels, per_group]):
        if (written := node.int(GROUPS, 0)) > 0:
            return written
        raise Unmapped("its number of channels is not known, and so whether it has groups")
    if not per_group or channels % per_group:
        raise node.error(f"does not fit together: {channels} channels, a filter for {per_group}")
    return channels // per_group


def _wanted(node: Node, rank: int) -> tuple[int, list[int | Linear]]:
    """Channels and spatial sizes of the result of a transposed convolution. Its shape may consist of the latter alone."""
    shape = node.known_ints(0) if node.array(0) is not None else node.sink.shapes.linear(node.value(0))
    if shape is None:
        raise Unmapped("its size is computed at run time")
    if len(shape) == rank - 2:
        return node.shape(1)[-2], [*shape]
    if len(shape) != rank:
        raise node.error(f"does not fit together: an input of rank {rank}, a result of rank {len(shape)}")
    channels, sizes = (shape[1], shape[2:]) if node.layout == "nchw" else (shape[-1], shape[1:-1])
    return channels if isinstance(channels, int) else DYNAMIC, [*sizes]


class Cut(NamedTuple):
    """The sizes to cut off both ends of an axis of a transposed convolution, and the size to add at the end."""

    begin: int
    end: int
    extra: int


class TransposedWindow(NamedTuple):
    """The geometry of a transposed convolution along its axes of space."""

    strides: list[int]
    dilations: list[int]
    cuts: list[Cut]
    groups: int


def transposed_window(node: Node) -> TransposedWindow:
    """Raises Unmapped if required sizes are unknown, CompileError if sizes contradict each other."""
    channels, sizes = _wanted(node, _rank(node, 2))
    cuts = [axis.cut(_surplus(node, axis, size)) for axis, size in zip(_axes(node), sizes, strict=True)]
    window = geometry(node)
    return TransposedWindow(window["strides"], window["dilations"], cuts, groups_of(node, channels))


class _Axis(NamedTuple):
    """A spatial axis of the convolution that is transposed: its place, and the windows on it, `reach` elements long.

    `pads` is None where SAME decides.
    """

    axis: int
    reach: int
    stride: int
    pads: tuple[int, int] | None

    def windows(self, size: int) -> int:
        """The number of windows on an axis of this size."""
        if self.pads is None:
            return same_size(size, self.stride)
        return window_size(size, self.reach, self.stride, 1, *self.pads)

    def cut(self, surplus: int) -> Cut:
        """The padding for windows that cover this much more than the axis; negative if they cover less."""
        begin = max(surplus, 0) // 2 if self.pads is None else self.pads[0]
        return Cut(begin, max(surplus - begin, 0), max(begin - surplus, 0))


def _axes(node: Node) -> Iterator[_Axis]:
    window = geometry(node)
    kernel = node.shape(1)[:-2]
    if not static(kernel):
        raise Unmapped("the sizes of its filter are not known")
    n, first = len(kernel), 2 if node.layout == "nchw" else 1
    dilations, pads = window["dilations"], window["pads"] or [0] * 2 * n
    if len(pads) != 2 * n:
        raise node.error(f"has explicit_paddings for {len(pads) // 2} axes of space, not {n}")
    for i, (k, d, stride, *pair) in enumerate(
        zip(kernel, dilations, window["strides"], pads[:n], pads[n:], strict=True)
    ):
        yield _Axis(first + i, d * (k - 1) + 1, stride, None if window["auto_pad"] else (pair[0], pair[1]))


def _surplus(node: Node, axis: _Axis, size: int | Linear) -> int:
    """The excess of the windows over `size`: known if `size` is, or if it is stride * input plus a known number."""
    if isinstance(size, int):
        count, given = axis.windows(size), node.shape(2)[axis.axis]
        if known(given) and given != count:
            raise node.error(f"does not fit together: {count} windows on {size} elements, an input of {given}")
        return axis.stride * (count - 1) + axis.reach - size
    given = isinstance(size.base, Dimension) and node.same(size.base, Dimension(node.value(2), axis.axis))
    if not given or size.factor != axis.stride:
        raise Unmapped("its size is computed at run time")
    return axis.reach - axis.stride - size.offset
