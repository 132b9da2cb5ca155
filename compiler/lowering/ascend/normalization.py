"""Normalizations and softmax."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from .rules import Builder, lowers, require


@lowers(nn.BatchNormOp)
def batch_norm(build: Builder, op: nn.BatchNormOp) -> Sequence[SSAValue]:
    require(not op.channels_last, "channels-second", "BNInfer normalizes axis 1")
    return [build.add(ascend.BNInferOp, *op.operands, epsilon=op.epsilon).y]


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
