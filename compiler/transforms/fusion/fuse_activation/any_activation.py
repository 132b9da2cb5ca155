"""Relu and clip behind operations without weights."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation

from ....dialects import nn
from ....rewriting import condition
from .activations import LINEAR, ROOTS, Activation, activation_of
from .pattern import ActivationConditions, RegionPattern, owner_of

FOLLOWED: tuple[type[nn.NNOp], ...] = (
    nn.AddOp,
    nn.SubOp,
    nn.MulOp,
    nn.DivOp,
    nn.MinOp,
    nn.MaxOp,
    nn.BiasAddOp,
    nn.ConcatOp,
    nn.MaxPoolOp,
    nn.AveragePoolOp,
    nn.GlobalAveragePoolOp,
    nn.GlobalMaxPoolOp,
    nn.InstanceNormOp,
    nn.GroupNormOp,
    nn.LayerNormOp,
    nn.ResizeOp,
    nn.ReduceMeanOp,
    nn.ReduceSumOp,
    nn.ReduceMaxOp,
    nn.ReduceMinOp,
)
"""Operations that compute values. Batch norms are folded first; operations that only move data have no point to save."""


@dataclass(frozen=True)
class AnyActivation:
    """An operation and the activation behind it."""

    op: nn.NNOp
    activation: Activation


class FuseAnyActivation(ActivationConditions, RegionPattern[AnyActivation]):
    """relu(op(x, ...)), relu6(...) or clip(...) is one operation with one quantization point behind it; op is any
    operation that computes values: Add, Concat, pooling, ... (PPQ's relu and clip fusion)
    """

    name = "any-activation"
    roots = ROOTS

    @condition
    def activation_linear(self, m: AnyActivation) -> str | None:
        """the activation is relu, relu6 or clip"""
        if m.activation.kind in LINEAR:
            return None
        return f"{m.activation.kind} is fused behind convolutions and matrix products only"

    def match(self, op: Operation) -> AnyActivation | None:
        if (activation := activation_of(op)) is None or not isinstance(before := owner_of(activation.input), FOLLOWED):
            return None
        return AnyActivation(before, activation)

    def kind(self, m: AnyActivation) -> str:
        return f"{type(m.op).__name__.removesuffix('Op')}{m.activation.suffix}"
