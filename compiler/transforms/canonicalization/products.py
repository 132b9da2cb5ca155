"""A product with a constant matrix on the left mixes channels, as a convolution with windows of 1 does."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ...dialects import nn
from ...dialects.nn.shapes import DYNAMIC, element_of, known, shape_of, tensor, text
from ...ir.dtypes import is_float
from ...rewriting import Roots, StepPattern, condition
from ..fusion.amct_rules import is_strict, of_tensorflow


class FormConvolution(StepPattern[nn.MatMulOp]):
    """`W @ x` with constant W `[M, K]` and x `[..., K, T]` is a convolution of K channels to M, each with a bias, and a scale of
    its weight: in a product both belong to the right operand.
    """

    name = "form-convolution"
    roots: ClassVar[Roots] = (nn.MatMulOp,)

    @condition
    def beyond_amct(self, m: nn.MatMulOp) -> str | None:
        """neither AMCT's rules are followed nor its configurations, records and commands, for which it is not a layer"""
        session = self.remarks.session
        if session.as_amct or (is_strict(session) and of_tensorflow(m)):
            return "AMCT does not quantize products with their constant on the left"
        return None

    @condition
    def one_matrix(self, m: nn.MatMulOp) -> str | None:
        """the left operand is one matrix, the same for the whole batch"""
        *batch, _, _ = shape_of(m.lhs)
        return None if prod(batch) == 1 else f"its constant left operand of {text(shape_of(m.lhs))} is several matrices"

    @condition
    def sums_channels(self, m: nn.MatMulOp) -> str | None:
        """it sums over two channels or more: an outer product, as of positions and frequencies, needs more than 8 bits"""
        channels = m.lhs_shape[-1]
        return None if channels > 1 else f"it sums over {channels} channel{'s' if channels == 0 else ''}"

    @condition
    def channels_before_space(self, m: nn.MatMulOp) -> str | None:
        """the right operand is not transposed: its last axis is not summed over"""
        return None if m.transpose_b is None else "its right operand is transposed"

    @condition
    def no_bias(self, m: nn.MatMulOp) -> str | None:
        """it has no bias, which would run along the last axis"""
        return None if m.bias is None else "its bias runs along the last axis, not along the rows of its constant"

    @condition
    def sizes_known(self, m: nn.MatMulOp) -> str | None:
        """operand and result are of rank 3, or can be reshaped to it: at most one of their sizes is unknown"""
        shape = shape_of(m.result)
        if len(shape_of(m.rhs)) == len(shape) == 3 or (sum(not known(size) for size in shape) < 2 and 0 not in shape):
            return None
        return f"its result of {text(shape)} has several unknown sizes, or no elements"

    def match(self, op: Operation) -> nn.MatMulOp | None:
        if not isinstance(op, nn.MatMulOp) or nn.constant_of(op.lhs) is None or nn.constant_of(op.rhs) is not None:
            return None
        if not is_float(element_of(op.result)) or min(len(shape_of(op.lhs)), len(shape_of(op.rhs))) < 2:
            return None
        return op

    def rewrite(self, m: nn.MatMulOp, rewriter: PatternRewriter) -> None:
        constant = nn.constant_of(m.lhs)
        assert constant is not None, "match"
        matrix = constant.array.reshape(shape_of(m.lhs)[-2:])
        matrix = matrix if m.transpose_a is None else matrix.T
        weight = nn.ConstantOp.of(matrix[..., None], constant.key, constant.location)
        made: list[Operation] = [weight]
        *batch, rows, space = shape_of(m.result)
        samples, value = prod(batch) if all(map(known, batch)) else DYNAMIC, m.rhs
        if len(shape_of(value)) != 3:
            made.append(_reshaped(value, (samples, matrix.shape[1], space), m))
            value = made[-1].results[0]
        result = tensor(element_of(m.result), (samples, rows, space))
        conv = nn.ConvOp.make(value, weight.result, result_types=[result], origin=m.origin, location=m.location)
        made.append(conv)
        if len(batch) != 1:
            made.append(_reshaped(conv.result, (*batch, rows, space), m))
        self.remarks.applied(m, "convolution", "its constant is the weight of a convolution with windows of 1")
        rewriter.replace(m, made)


def _reshaped(value: SSAValue, shape: Sequence[int], m: nn.MatMulOp) -> nn.ReshapeOp:
    to = [size if known(size) else -1 for size in shape]
    return nn.ReshapeOp.make(value, to=to, result_types=[tensor(element_of(value), shape)], location=m.location)
