"""Normalizations and softmax."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation

from ...dialects import ascend, nn
from ...dialects.nn.shapes import axis_of, element_of, known, shape_of
from ...ir.dtypes import numpy_dtype
from ...rewriting import Condition, condition, requires
from ...transforms.fusion.computing import constant_numbers
from .constants import Array
from .rules import Builder, Lowering, Values, lowers_each


class BNInfer(Lowering[nn.BatchNormOp]):
    """BNInfer, which supports axis 1 of rank 4; lower ranks get axes of size 1"""

    def match(self, op: Operation) -> nn.BatchNormOp | None:
        return op if isinstance(op, nn.BatchNormOp) and not op.channels_last else None

    def rewrite(self, build: Builder, op: nn.BatchNormOp) -> Values:
        rank = len(shape_of(op.input))
        if rank >= 4:
            return [build.add(ascend.BNInferOp, *op.operands, epsilon=op.epsilon).y]
        added, hint = [*range(rank, 4)], build.hint
        x = build.add(ascend.UnsqueezeOp, op.input, axes=added, name=f"{hint}_x").y
        y = build.add(ascend.BNInferOp, x, *op.operands[1:], epsilon=op.epsilon, name=f"{hint}_normalized").y
        return [build.add(ascend.SqueezeOp, y, axis=added).y]


class ProductAndSum(Lowering[nn.BatchNormOp]):
    """A product and a sum, if the channels are last"""

    def match(self, op: Operation) -> nn.BatchNormOp | None:
        return op if isinstance(op, nn.BatchNormOp) and op.channels_last else None

    channels_second: Condition[Any] = requires(
        lambda op: all(nn.constant_of(value) is not None for value in op.operands[1:]),
        "the parameters are constants",
        "BNInfer normalizes axis 1, and its parameters are computed at run time",
    )

    finite_fold: Condition[Any] = requires(
        lambda op: all(np.isfinite(each).all() for each in _factor_and_shift(op)),
        "the factors and shifts are finite",
        "its factors or shifts are NaN or Inf",
    )

    def rewrite(self, build: Builder, op: nn.BatchNormOp) -> Values:
        factor, shift = _factor_and_shift(op)
        by = build.constant(factor, f"{build.hint}_factor")
        scaled = build.add(ascend.MulOp, op.input, by, name=f"{build.hint}_scaled")
        return [build.add(ascend.AddOp, scaled.y, build.constant(shift, f"{build.hint}_shift")).y]


def _factor_and_shift(op: nn.BatchNormOp) -> list[Array]:
    """The factor and the summand of the operation, in its type."""
    with np.errstate(all="ignore"):
        terms = op.factor_and_summand(*map(constant_numbers, op.operands[1:]))
        return [np.asarray(each, numpy_dtype(element_of(op.input))) for each in terms]


class LRN(Lowering[nn.LRNOp]):
    """LRN; ONNX divides alpha by the number of channels, Ascend (as TensorFlow) does not"""

    channels_second: Condition[Any] = requires(
        lambda op: not op.channels_last, "the channels are axis 1", "LRN normalizes across axis 1"
    )

    odd_size: Condition[Any] = requires(
        lambda op: op.size.value.data % 2 == 1, "the size is odd", "LRN takes as many channels on either side"
    )

    def rewrite(self, build: Builder, op: nn.LRNOp) -> Values:
        size = op.size.value.data
        alpha = op.alpha.value.data / size
        return [build.add(ascend.LRNOp, op.input, depth_radius=size // 2, alpha=alpha, beta=op.beta, bias=op.bias).y]


lowers_each(
    {
        nn.SoftmaxOp: (ascend.SoftmaxV2Op, lambda op: {"axes": [op.axis.value.data]}),
        nn.LogSoftmaxOp: (ascend.LogSoftmaxV2Op, lambda op: {"axes": [op.axis.value.data]}),
    }
)


class LayerNorm(Lowering[nn.LayerNormOp]):
    """LayerNorm; without a bias beta is zeros"""

    @condition
    def equal_sizes(self, op: nn.LayerNormOp) -> str | None:
        """the scale has the sizes of the last axes, which are known"""
        shape, x = shape_of(op.scale), shape_of(op.input)
        equal = all(map(known, shape)) and shape == x[len(x) - len(shape) :]
        return None if equal else "LayerNorm has a scale of the sizes of the last axes, and its own broadcasts"

    def rewrite(self, build: Builder, op: nn.LayerNormOp) -> Values:
        shape, rank, beta = shape_of(op.scale), len(shape_of(op.input)), op.bias
        if beta is None:
            zeros = np.zeros(shape, numpy_dtype(element_of(op.scale)))
            beta = build.constant(zeros, f"{build.hint}_beta")
        axes: dict[str, Any] = {
            "begin_norm_axis": axis_of(op.axis.value.data, rank),
            "begin_params_axis": rank - len(shape),
        }
        return [build.add(ascend.LayerNormOp, op.input, op.scale, beta, **axes, epsilon=op.epsilon).y]


_FORMATS = {4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}
"""Data formats by rank: channels second, channels last."""


class InstanceNorm(Lowering[nn.InstanceNormOp]):
    """InstanceNorm"""

    spatial_rank: Condition[Any] = requires(
        lambda op: len(shape_of(op.input)) in (3, *_FORMATS),
        "the input is of rank 3 to 5",
        lambda op: f"InstanceNorm takes rank 3 to 5, not {len(shape_of(op.input))}",
    )

    def rewrite(self, build: Builder, op: nn.InstanceNormOp) -> Values:
        data_format = _FORMATS[max(len(shape_of(op.input)), 4)][op.channels_last]
        return _over_space(build, op, ascend.InstanceNormOp, data_format=data_format, epsilon=op.epsilon)


class GroupNorm(Lowering[nn.GroupNormOp]):
    """GroupNorm"""

    spatial_rank: Condition[Any] = requires(
        lambda op: len(shape_of(op.input)) in (3, 4),
        "the input is of rank 3 or 4",
        lambda op: f"GroupNorm takes rank 3 or 4, not {len(shape_of(op.input))}",
    )

    def rewrite(self, build: Builder, op: nn.GroupNormOp) -> Values:
        properties = {"data_format": _FORMATS[4][op.channels_last], "eps": op.epsilon, "is_training": False}
        return _over_space(build, op, ascend.GroupNormOp, num_groups=op.num_groups, **properties)


def _over_space(
    build: Builder, op: nn.InstanceNormOp | nn.GroupNormOp, kind: type[ascend.MomentsOp], **properties: Any
) -> Values:
    """Adds an axis of size 1 to a single axis of space."""
    if len(shape_of(op.input)) != 3:
        return [build.add(kind, *op.operands, **properties).y]
    added = 1 if op.channels_last else 2
    x = build.add(ascend.UnsqueezeOp, op.input, axes=[added], name=f"{build.hint}_x").y
    y = build.add(kind, x, *op.operands[1:], name=f"{build.hint}_normalized", **properties).y
    return [build.add(ascend.SqueezeOp, y, axis=[added]).y]


PATTERNS = (BNInfer, ProductAndSum, LRN, LayerNorm, InstanceNorm, GroupNorm)
