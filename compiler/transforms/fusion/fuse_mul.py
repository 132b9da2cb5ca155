"""`--fuse-mul`: folds factors of the result of a computing operation into its weight and bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ...dialects.nn import BiasAddOp, DivOp, MulOp, constant_of
from ...rewriting import Folded, FusionPattern, Remarks, Roots, condition
from .computing import (
    ChainConditions,
    Computing,
    along_channels,
    chain_of,
    constant_numbers,
    folded_affine,
    trained_weight,
    with_parameters,
)
from .fusion_pass import FusionPass, Patterns, report_unmatched


@dataclass(frozen=True)
class ComputeMul:
    """A convolution or matrix product, and a product or quotient with a constant behind it."""

    compute: Computing
    bias_add: BiasAddOp | None
    mul: MulOp | DivOp
    factor: SSAValue
    """The constant factor or divisor."""


class FuseComputeMul(ChainConditions, FusionPattern[ComputeMul]):
    """(op(x, w, b) [+ c]) * k = op(x, w * k, (b [+ c]) * k), k a scalar or per output channel; also division by k. op is conv,
    conv_transpose or matmul (AMCT's OP+(BiasAdd)+Mul with a scalar; channels and division go beyond)
    """

    name = "compute-mul"
    roots: ClassVar[Roots] = (MulOp, DivOp)

    @condition
    def runs_along_channels(self, m: ComputeMul) -> str | None:
        """the factor broadcasts along the output channels only"""
        found = along_channels(m.compute, constant_numbers(m.factor))
        return found if isinstance(found, str) else None

    def match(self, op: Operation) -> ComputeMul | None:
        if not isinstance(op, MulOp | DivOp):
            return None
        value, factor = op.operands
        if isinstance(op, MulOp) and constant_of(value) is not None:
            value, factor = factor, value
        if constant_of(factor) is None or (chain := chain_of(value)) is None or trained_weight(chain[0]):
            return None
        return ComputeMul(*chain, op, factor)

    def fold(self, m: ComputeMul) -> Sequence[Folded]:
        numbers = constant_numbers(m.factor).reshape(-1)
        factor = np.broadcast_to(1 / numbers if isinstance(m.mul, DivOp) else numbers, (m.compute.output_channels,))
        return folded_affine(m, m.mul, factor, None)

    def rewrite(self, m: ComputeMul, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        weight, *bias = folded
        return [with_parameters(m.compute, weight, bias[0] if bias else None, m.mul.result.type)]


@dataclass(frozen=True)
class FuseMulPass(FusionPass):
    """Folds a constant factor behind a convolution or matrix product (also behind its BiasAdd) into weight and bias."""

    name = "fuse-mul"

    PATTERNS: ClassVar[Patterns] = (FuseComputeMul,)

    def report(self, module: ModuleOp, remarks: Remarks) -> None:
        report_unmatched(module, remarks, MulOp, DivOp)
