"""`--fuse-activation`: forms the regions that a target runs as one operation.

Between the operations of a region values keep full precision: no quantization point exists inside (Horizon, PPQ).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ....dialects.nn import ActivationOp, BatchNormOp, ClipOp, QuantizeOp, kinds
from ....dialects.nn.shapes import element_of
from ....ir.dtypes import is_float
from ....ir.functions import producer_of
from ....rewriting import QUANTIZATION_OPS, FusionPattern, Guard, Remarks, layer_of, nn_ops, rewrite
from ...quantization.profiles import Profile, profile_of
from ..computing import TrainedLayers, producer
from ..fusion_pass import FusionPass
from ..regions import in_region
from .activations import kinds_named
from .pattern import RegionPattern, Rules
from .patterns import (
    FuseAnyActivation,
    FuseComputeActivation,
    FuseComputePoolActivation,
    FuseComputeResidual,
    FuseComputeResidualActivation,
)


@dataclass(frozen=True)
class RegionOptions:
    """Options for regions."""

    activation_type: tuple[str, ...] = ()
    """The activations to fuse, `relu,leaky_relu,swish` or `Relu,LeakyRelu,Swish`; by default the profile's."""


@dataclass(frozen=True)
class FuseActivationPass(RegionOptions, FusionPass):
    """Fuses a convolution or matrix product with the residual add and the activation after it, possibly after
    a max pool, and any other operation with the relu or clip after it. Batch norms are folded before, by fuse-bn.
    """

    name = "fuse-activation"

    PATTERNS: ClassVar[tuple[type[RegionPattern[Any]], ...]] = (
        FuseComputeResidualActivation,
        FuseComputeActivation,
        FuseComputePoolActivation,
        FuseComputeResidual,
        FuseAnyActivation,
    )
    """The longest first: it is applied to the whole graph before the others, which are tried in this order."""

    def fuse(self, ctx: Context, op: ModuleOp) -> None:
        remarks = Remarks(ctx, self.name)
        longest, *others = self.patterns(op, remarks, self.guards(op, remarks.session))
        rewrite(op, longest)
        rewrite(op, *others)
        self.report(op, remarks)
        remarks.flush()

    def patterns(self, module: ModuleOp, remarks: Remarks, guards: Sequence[Guard]) -> list[FusionPattern[Any]]:
        rules = self._rules(profile_of(remarks.session))
        return [pattern(remarks, rules, guards) for pattern in self.PATTERNS]

    def report(self, module: ModuleOp, remarks: Remarks) -> None:
        trained = TrainedLayers()
        for op in nn_ops(module, *kinds(ActivationOp)):
            if in_region(op) or remarks.has(op):
                continue
            value = op.operands[0]
            if isinstance(op, ClipOp) and _bounds_integers(op):
                remarks.note(op, "bounds", "it bounds the integers of a quantization point")
            elif (layer := trained.behind(value)) is not None and producer_of(value) is not layer:
                reason = f"--adapt-qat makes {producer(value)} part of the scales of {layer_of(layer)}"
                remarks.note(op, "trained", f"{reason}; --fuse-activation after it fuses this")
            else:
                remarks.missed(op, *_why_alone(value))

    def _rules(self, target: Profile) -> Rules:
        if not self.activation_type:
            return Rules.of(f"profile {target.name}", target.activations, target.fuse_add)
        return Rules.of("option activation-type", kinds_named(self.activation_type), target.fuse_add)


def _bounds_integers(op: ClipOp) -> bool:
    """Whether a clip is not an activation: it narrows integers, or only quantization reads it."""
    return not is_float(element_of(op.result)) or all(isinstance(u.operation, QuantizeOp) for u in op.result.uses)


def _why_alone(value: SSAValue) -> tuple[str, str]:
    """Rule and reason for an activation whose operand's operation cannot be fused."""
    comes = f"its input comes from {producer(value)}"
    match producer_of(value):
        case op if isinstance(op, QUANTIZATION_OPS):
            return "quantization-point", f"{comes}, a quantization point, which cannot be part of a region"
        case BatchNormOp():
            return "no-producer", f"{comes}, which is to be folded first (--fuse-bn)"
        case _:
            return "no-producer", f"{comes}, into which no activation is fused"
