"""Pooling over windows, and over all of space. Caffe's layers are Pooling, TensorFlow's AvgPool and MaxPool.

Windows over one axis get a second axis of size 1, like convolutions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.ascend.base import same_pad_pairs
from ...dialects.ascend.convolution import full_rank
from ...dialects.nn import AutoPad
from ...dialects.nn.shapes import shape_of, static
from ...runtime.affine import are_normal
from ..refusal import NotLowered, require
from .quantized import Activation, dequantized, lowers_quantized
from .rules import Builder, lowers

CAFFE = (("caffe", "Pooling"),)
AVERAGE, LARGEST = (("tensorflow", "AvgPool"),), (("tensorflow", "MaxPool"), ("tensorflow", "MaxPoolV2"))


def _check_window(op: nn.PoolOp) -> None:
    rank = op.spatial_rank
    require(rank <= 2, "spatial-rank", f"it pools over {rank} spatial axes, Ascend IR over at most 2")
    require(all(d == 1 for d in op.dilation_list), "no-dilation", "Ascend IR has no pooling with dilations")


def _front(op: nn.PoolOp, neutral: int) -> tuple[int, ...]:
    """The entries for an axis of size 1 in front of the only spatial axis."""
    return (neutral,) if op.spatial_rank == 1 else ()


def _known_pads(op: nn.PoolOp) -> list[int]:
    """Top, bottom, left, right."""
    if (pads := op.resolved_pads(op.spatial(shape_of(op.input)))) is None:
        raise NotLowered("known-pads", "its auto_pad depends on sizes that are not known")
    rank = op.spatial_rank
    pairs = zip(pads[:rank], pads[rank:], strict=True)
    return [*_front(op, 0), *_front(op, 0), *(p for pair in pairs for p in pair)]


def _format(op: nn.PoolOp) -> str:
    return "NHWC" if op.channels_last else "NCHW"


def _sizes(op: nn.PoolOp) -> dict[str, Any]:
    data_format = _format(op)
    return {
        "ksize": full_rank(data_format, (*_front(op, 1), *op.kernel_shape)),
        "strides": full_rank(data_format, (*_front(op, 1), *op.stride_list)),
        "data_format": data_format,
    }


def _window(op: nn.PoolOp) -> dict[str, Any]:
    """A window's properties in the form of ONNX's pools. Raises NotLowered if Ascend IR cannot express them."""
    _check_window(op)
    properties = {**_sizes(op), "ceil_mode": op.ceil_mode is not None}
    upper = op.auto_pad is not None and op.auto_pad.data is AutoPad.SAME_UPPER
    if upper and not static(op.spatial(shape_of(op.input))):
        return {**properties, "padding_mode": "SAME"}
    return {**properties, "pads": _known_pads(op)}


def _same_or_valid(op: nn.PoolOp, kind: str) -> dict[str, Any]:
    """A window's properties in the form of TensorFlow's pools. Raises NotLowered for padding of another kind."""
    _check_window(op)
    require(op.ceil_mode is None, "same-or-valid", f"{kind} does not round sizes up")
    if not any(op.pad_list) and op.auto_pad is None:
        return {**_sizes(op), "padding": "VALID"}
    require(_is_same(op), "same-or-valid", f"{kind} pads as SAME or VALID do, not by {list(op.pad_list)}")
    counts = isinstance(op, nn.AveragePoolOp) and op.count_include_pad is not None
    require(not counts, "same-or-valid", f"{kind} does not count the padding")
    return {**_sizes(op), "padding": "SAME"}


def _is_same(op: nn.PoolOp) -> bool:
    if op.auto_pad is not None:
        return op.auto_pad.data is AutoPad.SAME_UPPER
    sizes, n = op.spatial(shape_of(op.input)), op.spatial_rank
    pairs = tuple(zip(op.pad_list[:n], op.pad_list[n:], strict=True))
    return static(sizes) and pairs == same_pad_pairs(sizes, op.kernel_shape, op.stride_list)


def _caffe(op: nn.PoolOp) -> dict[str, Any]:
    """A window's properties in the form of Caffe's Pooling: ceil_mode 0 rounds up. Raises NotLowered."""
    _check_window(op)
    require(op.spatial_rank == 2, "spatial-rank", "Pooling has two spatial axes")
    require(not op.channels_last, "channels-second", "Pooling has its channels on axis 1")
    pad = _known_pads(op)
    counted = not isinstance(op, nn.AveragePoolOp) or op.count_include_pad is not None or not any(pad)
    require(counted, "counted-padding", "Pooling counts the padding of a mean as zeros")
    return {
        "mode": int(isinstance(op, nn.AveragePoolOp)),
        "window": op.kernel_shape,
        "stride": op.stride_list,
        "pad": pad,
        "ceil_mode": int(op.ceil_mode is None),
    }


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


def _pooled(build: Builder, op: nn.PoolOp, kind: type[ascend.WindowOp], **properties: Any) -> Sequence[SSAValue]:
    pool = build.add(kind, _widened(build, op, op.input), **properties)
    return [_narrowed(build, op, pool.y)]


@lowers(nn.MaxPoolOp)
def max_pool(build: Builder, op: nn.MaxPoolOp) -> Sequence[SSAValue]:
    return _pooled(build, op, ascend.MaxPoolV3Op, **_window(op))


@lowers(nn.MaxPoolOp, sources=LARGEST)
def tensorflow_max_pool(build: Builder, op: nn.MaxPoolOp) -> Sequence[SSAValue]:
    return _pooled(build, op, ascend.MaxPoolOp, **_same_or_valid(op, "MaxPool"))


@lowers(nn.AveragePoolOp)
def average_pool(build: Builder, op: nn.AveragePoolOp) -> Sequence[SSAValue]:
    return _pooled(build, op, ascend.AvgPoolV2Op, exclusive=_excludes(op), **_window(op))


@lowers(nn.AveragePoolOp, sources=AVERAGE)
def tensorflow_average_pool(build: Builder, op: nn.AveragePoolOp) -> Sequence[SSAValue]:
    return _pooled(build, op, ascend.AvgPoolOp, **_same_or_valid(op, "AvgPool"))


@lowers(nn.MaxPoolOp, nn.AveragePoolOp, sources=CAFFE)
def caffe_pool(build: Builder, op: nn.MaxPoolOp | nn.AveragePoolOp) -> Sequence[SSAValue]:
    return _pooled(build, op, ascend.PoolingOp, **_caffe(op))


def _excludes(op: nn.AveragePoolOp) -> bool:
    return op.count_include_pad is None


@lowers_quantized(nn.AveragePoolOp)
def quantized_average_pool(build: Builder, op: nn.AveragePoolOp, activation: Activation) -> Sequence[SSAValue]:
    return _averaged(build, op, activation, ascend.AvgPoolV2Op, exclusive=_excludes(op), **_window(op))


@lowers_quantized(nn.AveragePoolOp, sources=AVERAGE)
def tensorflow_quantized_pool(build: Builder, op: nn.AveragePoolOp, activation: Activation) -> Sequence[SSAValue]:
    return _averaged(build, op, activation, ascend.AvgPoolOp, **_same_or_valid(op, "AvgPool"))


@lowers_quantized(nn.AveragePoolOp, sources=CAFFE)
def caffe_quantized_pool(build: Builder, op: nn.AveragePoolOp, activation: Activation) -> Sequence[SSAValue]:
    return _averaged(build, op, activation, ascend.PoolingOp, **_caffe(op))


def _averaged(
    build: Builder,
    op: nn.AveragePoolOp,
    activation: Activation,
    kind: type[ascend.AveragingOp],
    **properties: Any,
) -> Sequence[SSAValue]:
    """The exact int32 sum of each window; the dequantization divides by the count."""
    name, offset = f"{build.hint}_sum", activation.zero_point
    pool = build.add(kind, _widened(build, op, activation.value), name=name, offset_x=offset, **properties)
    if (count := pool.constant_count()) is None:
        raise NotLowered("constant-count", "its windows do not all count the same number of elements")
    scale = np.asarray(activation.scale / np.float32(count))
    require(are_normal(scale), "scale-range", "its scale divided by the count leaves the normal range of float32")
    return [_narrowed(build, op, dequantized(build, pool.y, scale.reshape(1)))]


def _reduce_space(
    build: Builder, op: nn.GlobalPoolOp, kind: type[ascend.ReduceMeanOp] | type[ascend.ReduceMaxOp]
) -> Sequence[SSAValue]:
    rank = len(shape_of(op.input))
    require(rank > 2, "spatial-rank", "there are no spatial axes to reduce")
    axes = build.ints(op.spatial(range(rank)), "axes")
    return [build.add(kind, op.input, axes, keep_dims=True).y]


@lowers(nn.GlobalAveragePoolOp)
def global_average_pool(build: Builder, op: nn.GlobalAveragePoolOp) -> Sequence[SSAValue]:
    return _reduce_space(build, op, ascend.ReduceMeanOp)


@lowers(nn.GlobalMaxPoolOp)
def global_max_pool(build: Builder, op: nn.GlobalMaxPoolOp) -> Sequence[SSAValue]:
    return _reduce_space(build, op, ascend.ReduceMaxOp)


@lowers(nn.GlobalAveragePoolOp, nn.GlobalMaxPoolOp, sources=CAFFE)
def caffe_global_pool(build: Builder, op: nn.GlobalPoolOp) -> Sequence[SSAValue]:
    require(not op.channels_last, "channels-second", "Pooling has its channels on axis 1")
    average = isinstance(op, nn.GlobalAveragePoolOp)
    return [build.add(ascend.PoolingOp, op.input, mode=int(average), global_pooling=True).y]
