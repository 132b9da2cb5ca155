"""A computing operation and the residual that is added to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Operation, SSAValue

from ....dialects.nn import AddOp, BiasAddOp
from ....rewriting import Roots
from ..computing import Computing
from ..regions import compute_kind
from .pattern import RegionPattern, ResidualConditions, residual_before


@dataclass(frozen=True)
class ComputeResidual:
    """A convolution or matrix product and the residual add behind it."""

    compute: Computing
    bias_add: BiasAddOp | None
    add: AddOp
    residual: SSAValue


class FuseComputeResidual(ResidualConditions, RegionPattern[ComputeResidual]):
    """op(x, w, b) + y is one operation, op conv, conv_transpose or matmul as either operand: Horizon's ConvAdd2d,
    ConvTransposeAdd2d, LinearAdd. The residual goes into the 32-bit accumulator
    """

    name = "compute-residual"
    roots: ClassVar[Roots] = (AddOp,)

    def match(self, op: Operation) -> ComputeResidual | None:
        found = residual_before(op, self.rules)
        return None if found is None else ComputeResidual(*found)

    def kind(self, m: ComputeResidual) -> str:
        return compute_kind(m.compute, "Add")
