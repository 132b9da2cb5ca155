"""`--fuse-mul`: folds factors of the result of a computing operation into its weight and bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ...dialects.nn import DivOp, MulOp, NNOp, WeightedOp
from ...dialects.nn.shapes import shape_of, text
from ...rewriting import Folded, FusionPattern, Remarks, Roots
from .amct_rules import amct, apart, unlisted
from .computing import ChainConditions, WeightCondition, folded_affine, rebuilt, trained_weight
from .fusion_pass import FusionPass, Patterns, report_unmatched
from .parameter import ParameterConditions, operand_along, parameter_of

_MULTIPLIED = ("Conv2D", "MatMul", "DepthwiseConv2dNative", "Conv2DBackpropInput")


@dataclass(frozen=True)
class ComputeMul:
    """A convolution or matrix product, and a product or quotient with a parameter after it."""

    compute: WeightedOp
    between: tuple[NNOp, ...]
    arithmetic: MulOp | DivOp
    parameter: SSAValue
    """The factor or divisor."""


class FuseComputeMul(ChainConditions, ParameterConditions, WeightCondition, FusionPattern[ComputeMul]):
    """(op(x, w, b) [+ c]) * k = op(x, w * k, (b [+ c]) * k), k a scalar or per output channel; also division by k. op is conv,
    conv_transpose or matmul; operations that move elements may be between (AMCT's OP+(BiasAdd)+Mul with a scalar; channels,
    moves and division go beyond)
    """

    name = "compute-mul"
    roots: ClassVar[Roots] = (MulOp, DivOp)

    @amct
    def mul_of_amct(self, m: ComputeMul) -> str | None:
        """Mul after Conv2D, MatMul, DepthwiseConv2dNative or Conv2DBackpropInput, with nothing but a BiasAdd between"""
        return unlisted(("Mul",), m.arithmetic) or unlisted(_MULTIPLIED, m.compute) or apart(m.between)

    @amct
    def empty_shape(self, m: ComputeMul) -> str | None:
        """the factor is a Const of empty shape"""
        shape = shape_of(m.parameter)
        return f"the factor has the shape {text(shape)}, AMCT fuses an empty one" if shape else None

    def match(self, op: Operation) -> ComputeMul | None:
        if not isinstance(op, MulOp | DivOp) or (found := parameter_of(op)) is None or trained_weight(found.compute):
            return None
        return ComputeMul(found.compute, found.between, op, found.parameter)

    def fold(self, m: ComputeMul) -> Sequence[Folded]:
        numbers = operand_along(m)
        return folded_affine(m, m.arithmetic, 1 / numbers if isinstance(m.arithmetic, DivOp) else numbers, None)

    def rewrite(self, m: ComputeMul, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        weight, *bias = folded
        return rebuilt(m, weight, bias[0] if bias else None, m.arithmetic.result.type)


@dataclass(frozen=True)
class FuseMulPass(FusionPass):
    """Folds a constant factor after a convolution or matrix product (also after its BiasAdd) into weight and bias."""

    name = "fuse-mul"

    PATTERNS: ClassVar[Patterns] = (FuseComputeMul,)

    def report(self, module: ModuleOp, remarks: Remarks) -> None:
        report_unmatched(module, remarks, MulOp, DivOp)
