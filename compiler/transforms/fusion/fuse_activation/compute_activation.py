"""A computing operation and its activation."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation

from ....dialects.nn import BiasAddOp
from ..computing import Computing
from ..regions import compute_kind
from .activations import ROOTS, Activation, activation_of
from .pattern import ActivationConditions, RegionPattern, compute_before


@dataclass(frozen=True)
class ComputeActivation:
    """A convolution or matrix product and the activation behind it."""

    compute: Computing
    bias_add: BiasAddOp | None
    activation: Activation


class FuseComputeActivation(ActivationConditions, RegionPattern[ComputeActivation]):
    """act(op(x, w, b)) is one operation, op conv, conv_transpose or matmul: Horizon's ConvReLU2d, ConvReLU62d,
    ConvTransposeReLU2d, LinearReLU and their like; PPQ's activation fusion with the target's activations, Swish, Mish and
    GELU in small operations included. A BiasAdd may be between
    """

    name = "compute-activation"
    roots = ROOTS

    def match(self, op: Operation) -> ComputeActivation | None:
        if (activation := activation_of(op)) is None:
            return None
        chain = compute_before(activation.input, self.rules)
        return None if chain is None else ComputeActivation(*chain, activation)

    def kind(self, m: ComputeActivation) -> str:
        return compute_kind(m.compute, m.activation.suffix)
