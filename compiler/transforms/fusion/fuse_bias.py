"""`--fuse-bias`: additions behind a computing operation become its bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ...dialects.nn import AddOp, BiasAddOp, NNOp, SqueezeOp, SubOp, constant_of
from ...dialects.nn.shapes import shape_of
from ...rewriting import Condition, Folded, FusionPattern, Remarks, Roots, condition, constant, used_once
from .computing import (
    Computing,
    along_channels,
    channel_axis,
    computing,
    constant_numbers,
    folded_parameters,
    summed,
    weight_of,
    with_parameters,
)
from .fusion_pass import FusionPass, Patterns, report_unmatched
from .squeezed import SqueezedConditions, squeezed


@dataclass(frozen=True)
class ComputeAdd:
    """A convolution or matrix product, and a constant added to its result."""

    compute: Computing
    add: NNOp
    operand: SSAValue
    """The constant that is added or subtracted."""
    sign: int


class FuseComputeAdd(FusionPattern[ComputeAdd]):
    """op(x, w, b) + c = op(x, w, b + c), c per output channel; op is conv, conv_transpose or matmul (AMCT's OP+Add, PPQ)"""

    name = "compute-add"
    roots: ClassVar[Roots] = (BiasAddOp, AddOp, SubOp)

    result_used_once: Condition[Any] = used_once("compute")
    bias_constant: Condition[Any] = constant("compute.bias")

    @condition
    def runs_along_channels(self, m: ComputeAdd) -> str | None:
        """the constant broadcasts along the output channels only"""
        if isinstance(m.add, BiasAddOp):
            axis = m.add.channel_axis(len(shape_of(m.add.input)))
            channels = channel_axis(m.compute)
            return None if axis == channels else f"it adds along axis {axis}, the output channels are axis {channels}"
        found = along_channels(m.compute, constant_numbers(m.operand))
        return found if isinstance(found, str) else None

    def match(self, op: Operation) -> ComputeAdd | None:
        match op:
            case BiasAddOp() | AddOp() | SubOp():
                first, second = op.operands
            case _:
                return None
        if isinstance(op, AddOp) and constant_of(first) is not None:
            first, second = second, first
        if (compute := computing(first)) is None or constant_of(second) is None:
            return None
        return ComputeAdd(compute, op, second, -1 if isinstance(op, SubOp) else 1)

    def fold(self, m: ComputeAdd) -> Sequence[Folded]:
        added = np.broadcast_to(constant_numbers(m.operand).reshape(-1), (m.compute.output_channels,))
        bias = summed([self.values(m.compute.bias), m.sign * added])
        return folded_parameters(m.compute, m.add, None, bias)

    def rewrite(self, m: ComputeAdd, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        return [with_parameters(m.compute, weight_of(m.compute), folded[0], m.add.results[0].type)]


@dataclass(frozen=True)
class SqueezedAdd:
    """A convolution, the squeeze behind it, and the bias that follows."""

    compute: Computing
    squeeze: SqueezeOp
    add: BiasAddOp

    @property
    def per_channel(self) -> BiasAddOp:
        return self.add


class FuseSqueezedAdd(SqueezedConditions, FusionPattern[SqueezedAdd]):
    """squeeze(op(x, w, b)) + c = squeeze(op(x, w, b + c)): how TensorFlow writes Conv1D"""

    name = "squeeze-add"
    roots: ClassVar[Roots] = (BiasAddOp,)

    result_used_once: Condition[Any] = used_once("compute")
    constants: Condition[Any] = constant("compute.bias", "add.bias")

    def match(self, op: Operation) -> SqueezedAdd | None:
        if not isinstance(op, BiasAddOp) or (found := squeezed(op.input)) is None:
            return None
        return SqueezedAdd(*found, op)

    def fold(self, m: SqueezedAdd) -> Sequence[Folded]:
        return folded_parameters(m.compute, m.add, None, summed([self.values(m.compute.bias), self.values(m.add.bias)]))

    def rewrite(self, m: SqueezedAdd, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        compute = with_parameters(m.compute, weight_of(m.compute), folded[0], m.squeeze.input.type)
        return [compute, m.squeeze.with_operands(input=compute.result, result_type=m.add.result.type)]


@dataclass(frozen=True)
class FuseBiasPass(FusionPass):
    """Turns an addition behind a convolution or matrix product (BiasAdd, Add, Sub of a constant) into its bias."""

    name = "fuse-bias"

    PATTERNS: ClassVar[Patterns] = (FuseComputeAdd, FuseSqueezedAdd)

    def report(self, module: ModuleOp, remarks: Remarks) -> None:
        report_unmatched(module, remarks, BiasAddOp, AddOp, SubOp)
