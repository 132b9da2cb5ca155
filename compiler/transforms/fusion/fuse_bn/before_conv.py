"""Batch norm in front of a computing operation: its factors go to the input channels, its shifts into the bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import Operation, SSAValue

from ....dialects.nn import BatchNormOp, ConvolutionOp, ConvTransposeOp, MatMulOp, WeightedOp, constant_of
from ....dialects.nn.shapes import shape_of
from ....rewriting import Array, Condition, Folded, FusionPattern, Roots, condition, used_once
from ..amct_rules import amct
from ..computing import COMPUTING, constant_numbers, folded_parameters, summed, weight_of, with_parameters
from .compute import NormConditions, factor_and_shift


@dataclass(frozen=True)
class NormCompute:
    """A batch norm and the convolution or matrix product after it."""

    bn: BatchNormOp
    compute: WeightedOp


class FuseNormCompute(NormConditions, FusionPattern[NormCompute]):
    """op(batch_norm(x), w, b) = op(x, w * k, b + sum(w * shift)), k and shift per input channel; op is conv, matmul, or
    conv_transpose with a window of one element (AMCT's BN+Scale+Conv for Caffe; matrix products and groups go beyond)
    """

    name = "batch-norm-compute"
    roots: ClassVar[Roots] = COMPUTING

    norm_used_once: Condition[Any] = used_once("bn")

    @amct
    def before_of_amct(self, m: NormCompute) -> str | None:
        """none: AMCT has this fusion for Caffe"""
        return "AMCT fuses it for Caffe, not for TensorFlow"

    @condition
    def weights_constant(self, m: NormCompute) -> str | None:
        """weight and bias are constant"""
        for name, value in (("weight", weight_of(m.compute)), ("bias", m.compute.bias)):
            if value is not None and constant_of(value) is None:
                return f"the {name} is computed at run time"
        return None

    @condition
    def normalizes_input_channels(self, m: NormCompute) -> str | None:
        """the batch norm works on the axis that is summed over: the input channels, the columns of the left matrix"""
        rank = len(shape_of(m.bn.result))
        axis, channels = m.bn.channel_axis(rank), m.compute.input_axis
        return None if axis == channels else f"it normalizes axis {axis}, the input channels are axis {channels}"

    @condition
    def one_matrix(self, m: NormCompute) -> str | None:
        """the right operand of a matrix product is one matrix, so that the shifts make one bias"""
        if not isinstance(m.compute, MatMulOp):
            return None
        shape = shape_of(weight_of(m.compute))
        return None if len(shape) == 2 else f"the right operand is of rank {len(shape)}"

    @condition
    def shift_meets_no_border(self, m: NormCompute) -> str | None:
        """the shifts are zero, or every result sums all weights: no padding, and a transposed convolution takes one element"""
        op = m.compute
        if op.sums_all or not isinstance(op, ConvolutionOp) or not factor_and_shift(m.bn)[1].any():
            return None
        if isinstance(op, ConvTransposeOp):
            return "the windows of a transposed convolution differ at its borders"
        pads = op.resolved_pads(op.spatial(shape_of(op.input)))
        if pads is None:
            return "the padding is not known before run time"
        return f"it pads by {list(pads)} with zeros, which the shift would have to move"

    def match(self, op: Operation) -> NormCompute | None:
        bn = op.operands[0].owner
        return NormCompute(bn, op) if isinstance(op, WeightedOp) and isinstance(bn, BatchNormOp) else None

    def fold(self, m: NormCompute) -> Sequence[Folded]:
        k, shift = factor_and_shift(m.bn)
        weight = constant_numbers(weight_of(m.compute))
        inputs = m.compute.weight_inputs()
        bias = _by_output(m.compute, weight * shift[inputs]) if shift.any() else None
        return folded_parameters(m.compute, m.compute, weight * k[inputs], summed([self.values(m.compute.bias), bias]))

    def rewrite(self, m: NormCompute, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        weight, *bias = folded
        copy = with_parameters(m.compute, weight, bias[0] if bias else None, m.compute.result.type)
        copy.operands[0] = m.bn.input
        return [copy]


def _by_output(op: WeightedOp, products: Array) -> Array:
    """The sum of products of the weight for each output channel, `[C]`."""
    if isinstance(op, MatMulOp):
        return products.sum(axis=1 if op.transpose_b is not None else 0)
    if not isinstance(op, ConvTransposeOp):
        return products.reshape(len(products), -1).sum(axis=1)
    groups, (inputs, per_group) = op.group_count, products.shape[:2]
    return products.reshape(groups, inputs // groups, per_group).sum(axis=1).reshape(-1)
