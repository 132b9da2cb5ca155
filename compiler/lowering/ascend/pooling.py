"""Pooling over windows, and over all of space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.ascend.convolution import full_rank
from ...dialects.nn import AutoPad
from ...dialects.nn.shapes import shape_of
from .quantized import Activation, dequantized, in_range, lowers_quantized
from .rules import Builder, NotLowered, lowers, require


def _window(op: nn.PoolOp) -> dict[str, Any]:
    """A window's properties in Ascend's terms. Raises NotLowered for one that Ascend IR cannot say."""
    rank = op.spatial_rank
    require(rank == 2, "spatial-rank", f"there is no pooling with {rank} spatial axes")
    require(all(d == 1 for d in op.dilation_list), "no-dilation", "Ascend IR has no pooling with dilations")
    data_format = "NHWC" if op.channels_last else "NCHW"
    properties: dict[str, Any] = {
        "ksize": full_rank(data_format, op.kernel_shape),
        "strides": full_rank(data_format, op.stride_list),
        "data_format": data_format,
        "ceil_mode": op.ceil_mode is not None,
    }
    pads = op.resolved_pads(op.spatial(shape_of(op.input)))
    if pads is not None:
        return {**properties, "pads": [pads[0], pads[2], pads[1], pads[3]]}
    assert op.auto_pad is not None
    if op.auto_pad.data is AutoPad.SAME_UPPER:
        return {**properties, "padding_mode": "SAME"}
    raise NotLowered("known-pads", "its auto_pad depends on sizes that are not known")


@lowers(nn.MaxPoolOp)
def max_pool(build: Builder, op: nn.MaxPoolOp) -> Sequence[SSAValue]:
    return [build.add(ascend.MaxPoolV3Op, op.input, **_window(op)).y]


@lowers(nn.AveragePoolOp)
def average_pool(build: Builder, op: nn.AveragePoolOp) -> Sequence[SSAValue]:
    exclusive = op.count_include_pad is None
    return [build.add(ascend.AvgPoolV2Op, op.input, exclusive=exclusive, **_window(op)).y]


@lowers_quantized(nn.AveragePoolOp)
def quantized_average_pool(build: Builder, op: nn.AveragePoolOp, activation: Activation) -> Sequence[SSAValue]:
    """The exact int32 sum of each window; dividing by the count is part of the dequantization."""
    pool = build.add(
        ascend.AvgPoolV2Op,
        activation.value,
        exclusive=op.count_include_pad is None,
        offset_x=activation.zero_point,
        name=f"{build.hint}_sum",
        **_window(op),
    )
    if (count := pool.constant_count()) is None:
        raise NotLowered("constant-count", "its windows do not all count the same number of elements")
    scale = np.asarray(activation.scale / np.float32(count))
    require(in_range(scale), "scale-range", "its scale divided by the count leaves the normal range of float32")
    return [dequantized(build, pool.y, scale.reshape(1))]


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
