"""`--fuse-bias`: additions after a computing operation become its bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ...dialects.nn import AddOp, BiasAddOp, NNOp, SubOp, WeightedOp
from ...rewriting import Folded, FusionPattern, Remarks, Roots
from .computing import ChainConditions, chain_bias, folded_parameters, rebuilt, summed, weight_of
from .fusion_pass import FusionPass, Patterns, report_unmatched
from .parameter import ParameterConditions, operand_along, parameter_of


@dataclass(frozen=True)
class ComputeAdd:
    """A convolution or matrix product, and a parameter added to its result, or subtracted from it."""

    compute: WeightedOp
    between: tuple[NNOp, ...]
    arithmetic: BiasAddOp | AddOp | SubOp
    parameter: SSAValue


class FuseComputeAdd(ChainConditions, ParameterConditions, FusionPattern[ComputeAdd]):
    """op(x, w, b) + c = op(x, w, b + c), c per output channel; op is conv, conv_transpose or matmul; operations that move
    elements may be between, as the squeeze with which TensorFlow writes Conv1D (AMCT's OP+Add, PPQ)
    """

    name = "compute-add"
    roots: ClassVar[Roots] = (BiasAddOp, AddOp, SubOp)

    def match(self, op: Operation) -> ComputeAdd | None:
        if not isinstance(op, BiasAddOp | AddOp | SubOp) or (found := parameter_of(op)) is None:
            return None
        return ComputeAdd(found.compute, found.between, op, found.parameter)

    def fold(self, m: ComputeAdd) -> Sequence[Folded]:
        added = -operand_along(m) if isinstance(m.arithmetic, SubOp) else operand_along(m)
        return folded_parameters(m.compute, m.arithmetic, None, summed([chain_bias(m), added]))

    def rewrite(self, m: ComputeAdd, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        return rebuilt(m, weight_of(m.compute), folded[0], m.arithmetic.result.type)


@dataclass(frozen=True)
class FuseBiasPass(FusionPass):
    """Turns an addition after a convolution or matrix product (BiasAdd, Add, Sub of a constant) into its bias."""

    name = "fuse-bias"

    PATTERNS: ClassVar[Patterns] = (FuseComputeAdd,)

    def report(self, module: ModuleOp, remarks: Remarks) -> None:
        report_unmatched(module, remarks, BiasAddOp, AddOp, SubOp)
