"""`--fuse-mul`: what multiplies the result of a computing operation goes into its weight and bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, OpResult, SSAValue

from ...dialects.nn import BiasAddOp, DivOp, MulOp, NNOp, constant_of
from ...dialects.nn.shapes import shape_of
from ...rewriting import Array, FusionPattern, Remarks, condition, constant, used_once
from .computing import (
    Computing,
    ConstantSpec,
    along_channels,
    channel_axis,
    computing,
    constant_numbers,
    parameter_names,
    scaled_weight,
    summed,
    weight_of,
    with_parameters,
)
from .fusion_pass import FusionPass, report_unmatched


@dataclass(frozen=True)
class ComputeMul:
    compute: Computing
    bias_add: BiasAddOp | None
    mul: NNOp
    operand: SSAValue
    """The constant that multiplies or divides."""


class FuseComputeMul(FusionPattern[ComputeMul]):
    """(op(x, w, b) [+ c]) * k = op(x, w * k, (b [+ c]) * k), k a scalar or per output channel; also division by k. op is conv,
    conv_transpose or matmul (AMCT's OP+(BiasAdd)+Mul with a scalar; channels and division go beyond)
    """

    name = "compute-mul"

    result_used_once = used_once("compute")
    bias_constant = constant("compute.bias")

    @condition
    def bias_add_folds(self, m: ComputeMul) -> str | None:
        """the BiasAdd between, where there is one, adds a constant along the output channels and is used once"""
        if m.bias_add is None:
            return None
        if not m.bias_add.result.has_one_use():
            return f"the result of the BiasAdd has {m.bias_add.result.uses.get_length()} uses"
        if constant_of(m.bias_add.bias) is None:
            return "the BiasAdd's bias is computed at run time"
        axis, channels = m.bias_add.channel_axis(len(shape_of(m.bias_add.input))), channel_axis(m.compute)
        return (
            None if axis == channels else f"the BiasAdd adds along axis {axis}, the output channels are axis {channels}"
        )

    @condition
    def weight_constant(self, m: ComputeMul) -> str | None:
        """the weight is constant"""
        return None if constant_of(weight_of(m.compute)) is not None else "the weight is computed at run time"

    @condition
    def runs_along_channels(self, m: ComputeMul) -> str | None:
        """the factor broadcasts along the output channels only"""
        found = along_channels(m.compute, constant_numbers(m.operand))
        return found if isinstance(found, str) else None

    def match(self, op: Operation) -> ComputeMul | None:
        if not isinstance(op, MulOp | DivOp):
            return None
        value, factor = op.operands
        if isinstance(op, MulOp) and constant_of(value) is not None:
            value, factor = factor, value
        if constant_of(factor) is None:
            return None
        between = value.op if isinstance(value, OpResult) and isinstance(value.op, BiasAddOp) else None
        compute = computing(value if between is None else between.input)
        return None if compute is None else ComputeMul(compute, between, op, factor)

    def constants(self, m: ComputeMul) -> Sequence[ConstantSpec]:
        weight, bias = parameter_names(m.compute, m.mul)
        return (weight, bias) if self._bias(m) is not None else (weight,)

    def fold(self, m: ComputeMul) -> Sequence[Array]:
        numbers = constant_numbers(m.operand).reshape(-1)
        factor = np.broadcast_to(1 / numbers if isinstance(m.mul, DivOp) else numbers, (m.compute.output_channels,))
        weight = scaled_weight(m.compute, constant_numbers(weight_of(m.compute)), factor)
        bias = self._bias(m)
        return (weight,) if bias is None else (weight, bias * factor)

    def _bias(self, m: ComputeMul) -> Array | None:
        added = None if m.bias_add is None else m.bias_add.bias
        return summed([self.values(m.compute.bias), self.values(added)])

    def rewrite(self, m: ComputeMul, folded: Sequence[SSAValue]) -> Operation:
        weight, *bias = folded
        return with_parameters(m.compute, weight, bias[0] if bias else None, m.mul.results[0].type)


@dataclass(frozen=True)
class FuseMulPass(FusionPass):
    """Fold a constant factor behind a convolution or matrix product (also behind its BiasAdd) into weight and bias."""

    name = "fuse-mul"

    PATTERNS = (FuseComputeMul,)

    def report(self, module: ModuleOp, remarks: Remarks) -> None:
        report_unmatched(module, remarks, MulOp, DivOp)
