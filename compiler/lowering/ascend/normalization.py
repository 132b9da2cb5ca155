"""Normalizations and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.nn.shapes import axis_of, element_of, known, shape_of
from ...ir.dtypes import numpy_dtype
from ...transforms.fusion.fuse_bn.norm import factor_and_shift
from ..refusal import require
from .rules import Builder, lowers


@lowers(nn.BatchNormOp)
def batch_norm(build: Builder, op: nn.BatchNormOp) -> Sequence[SSAValue]:
    """BNInfer, which supports axis 1 of rank 4; lower ranks get axes of size 1. A product and a sum if channels are last."""
    rank = len(shape_of(op.input))
    if op.channels_last:
        return _product_and_sum(build, op)
    if rank >= 4:
        return [build.add(ascend.BNInferOp, *op.operands, epsilon=op.epsilon).y]
    added, hint = [*range(rank, 4)], build.hint
    x = build.add(ascend.UnsqueezeOp, op.input, axes=added, name=f"{hint}_x").y
    y = build.add(ascend.BNInferOp, x, *op.operands[1:], epsilon=op.epsilon, name=f"{hint}_normalized").y
    return [build.add(ascend.SqueezeOp, y, axis=added).y]


def _product_and_sum(build: Builder, op: nn.BatchNormOp) -> Sequence[SSAValue]:
    constant = all(nn.constant_of(value) is not None for value in op.operands[1:])
    require(constant, "channels-second", "BNInfer normalizes axis 1, and its parameters are computed at run time")
    dtype = numpy_dtype(element_of(op.input))
    with np.errstate(over="ignore"):
        factor, shift = (np.asarray(each, dtype) for each in factor_and_shift(op))
    finite = bool(np.isfinite(factor).all() and np.isfinite(shift).all())
    require(finite, "finite-fold", "its factors or shifts are NaN or Inf")
    scaled = build.add(
        ascend.MulOp, op.input, build.constant(factor, f"{build.hint}_factor"), name=f"{build.hint}_scaled"
    )
    return [build.add(ascend.AddOp, scaled.y, build.constant(shift, f"{build.hint}_shift")).y]


@lowers(nn.LRNOp)
def lrn(build: Builder, op: nn.LRNOp) -> Sequence[SSAValue]:
    """ONNX divides alpha by the number of channels, Ascend (as TensorFlow) does not."""
    size = op.size.value.data
    require(not op.channels_last, "channels-second", "LRN normalizes across axis 1")
    require(size % 2 == 1, "odd-size", "LRN takes as many channels on either side")
    alpha = op.alpha.value.data / size
    return [build.add(ascend.LRNOp, op.input, depth_radius=size // 2, alpha=alpha, beta=op.beta, bias=op.bias).y]


@lowers(nn.SoftmaxOp)
def softmax(build: Builder, op: nn.SoftmaxOp) -> Sequence[SSAValue]:
    return [build.add(ascend.SoftmaxV2Op, op.input, axes=[op.axis.value.data]).y]


@lowers(nn.LogSoftmaxOp)
def log_softmax(build: Builder, op: nn.LogSoftmaxOp) -> Sequence[SSAValue]:
    return [build.add(ascend.LogSoftmaxV2Op, op.input, axes=[op.axis.value.data]).logsoftmax]


@lowers(nn.LayerNormOp)
def layer_norm(build: Builder, op: nn.LayerNormOp) -> Sequence[SSAValue]:
    """gamma and beta have the sizes of the last axes of x; without a bias beta is zeros."""
    shape, rank = shape_of(op.scale), len(shape_of(op.input))
    sizes = all(map(known, shape)) and shape == shape_of(op.input)[rank - len(shape) :]
    require(sizes, "equal-sizes", "LayerNorm has a scale of the sizes of the last axes, and its own broadcasts")
    beta = op.bias
    if beta is None:
        zeros = np.zeros(shape, numpy_dtype(element_of(op.scale)))
        beta = build.constant(zeros, f"{build.hint}_beta")
    return [
        build.add(
            ascend.LayerNormOp,
            op.input,
            op.scale,
            beta,
            begin_norm_axis=axis_of(op.axis.value.data, rank),
            begin_params_axis=rank - len(shape),
            epsilon=op.epsilon,
        ).y
    ]


_FORMATS = {4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}
"""Data formats by rank: channels second, channels last."""


@lowers(nn.InstanceNormOp)
def instance_norm(build: Builder, op: nn.InstanceNormOp) -> Sequence[SSAValue]:
    rank = len(shape_of(op.input))
    require(rank in (3, *_FORMATS), "spatial-rank", f"InstanceNorm takes rank 3 to 5, not {rank}")
    data_format = _FORMATS[max(rank, 4)][op.channels_last]
    return _over_space(build, op, ascend.InstanceNormOp, data_format=data_format, epsilon=op.epsilon)


@lowers(nn.GroupNormOp)
def group_norm(build: Builder, op: nn.GroupNormOp) -> Sequence[SSAValue]:
    rank = len(shape_of(op.input))
    require(rank in (3, 4), "spatial-rank", f"GroupNorm takes rank 3 or 4, not {rank}")
    return _over_space(
        build,
        op,
        ascend.GroupNormOp,
        num_groups=op.num_groups,
        data_format=_FORMATS[4][op.channels_last],
        eps=op.epsilon,
        is_training=False,
    )


def _over_space(
    build: Builder, op: nn.InstanceNormOp | nn.GroupNormOp, kind: type[ascend.MomentsOp], **properties: Any
) -> Sequence[SSAValue]:
    """Adds an axis of size 1 to a single axis of space."""
    if len(shape_of(op.input)) != 3:
        return [build.add(kind, *op.operands, **properties).y]
    added = 1 if op.channels_last else 2
    x = build.add(ascend.UnsqueezeOp, op.input, axes=[added], name=f"{build.hint}_x").y
    y = build.add(kind, x, *op.operands[1:], name=f"{build.hint}_normalized", **properties).y
    return [build.add(ascend.SqueezeOp, y, axis=[added]).y]
