"""A computing operation, the residual that is added to it, and the activation of the sum."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from ....dialects.nn import AddOp, BiasAddOp
from ..computing import Computing
from ..regions import compute_kind
from .activations import ROOTS, Activation, activation_of
from .pattern import ActivationConditions, RegionPattern, ResidualConditions, owner_of, residual_before


@dataclass(frozen=True)
class ComputeResidualActivation:
    """A convolution or matrix product, and residual add and activation behind it."""

    compute: Computing
    bias_add: BiasAddOp | None
    add: AddOp
    residual: SSAValue
    activation: Activation


class FuseComputeResidualActivation(ActivationConditions, ResidualConditions, RegionPattern[ComputeResidualActivation]):
    """act(op(x, w, b) + y) is one operation, op conv, conv_transpose or matmul as either operand: Horizon's ConvAddReLU2d,
    ConvAddReLU62d, ConvTransposeAddReLU2d, LinearAddReLU
    """

    name = "compute-residual-activation"
    roots = ROOTS

    def match(self, op: Operation) -> ComputeResidualActivation | None:
        if (activation := activation_of(op)) is None or (add := owner_of(activation.input)) is None:
            return None
        found = residual_before(add, self.rules)
        return None if found is None else ComputeResidualActivation(*found, activation)

    def kind(self, m: ComputeResidualActivation) -> str:
        return compute_kind(m.compute, "Add", m.activation.suffix)
