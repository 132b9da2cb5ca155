"""The patterns of `--fuse-activation`: operations that a target computes in one, with a convolution or product or without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

from xdsl.ir import Operation, SSAValue

from ....dialects import nn
from ....dialects.nn import AddOp, BiasAddOp, BoundOp, FusedOp, GlobalMaxPoolOp, MaxPoolOp, WeightedOp, kinds
from ....ir.functions import producer_of
from ....rewriting import Roots, condition, layer_of
from ..regions import compute_kind, region
from .activations import LINEAR, ROOTS, Activation, activation_of
from .pattern import ActivationConditions, RegionPattern, ResidualConditions, compute_before, residual_before


@dataclass(frozen=True)
class ComputeResidualActivation:
    """A convolution or matrix product, and residual add and activation after it."""

    compute: WeightedOp
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
        if (activation := activation_of(op)) is None or (add := producer_of(activation.input)) is None:
            return None
        found = residual_before(add, self.rules)
        return None if found is None else ComputeResidualActivation(*found, activation)

    def kind(self, m: ComputeResidualActivation) -> str:
        return compute_kind(m.compute, "Add", m.activation.suffix)


@dataclass(frozen=True)
class ComputeActivation:
    """A convolution or matrix product and the activation after it."""

    compute: WeightedOp
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


_Pool = MaxPoolOp | GlobalMaxPoolOp


@dataclass(frozen=True)
class ComputePoolActivation:
    """A convolution or matrix product, the max pool that reads it, and the relu, relu6 or clip after that."""

    compute: WeightedOp
    bias_add: BiasAddOp | None
    pool: _Pool
    activation: Activation


class FuseComputePoolActivation(ActivationConditions, RegionPattern[ComputePoolActivation]):
    """act(max_pool(op(x, w, b))) is max_pool(act(op(x, w, b))) with op and act as one operation: relu, relu6 and clip do not
    change which element is the largest. The operand of the pool then needs no levels for numbers that the activation cuts off.
    """

    name = "compute-pool-activation"
    roots: ClassVar[Roots] = kinds(BoundOp)

    def match(self, op: Operation) -> ComputePoolActivation | None:
        activation = activation_of(op)
        if activation is None or not isinstance(pool := producer_of(activation.input), MaxPoolOp | GlobalMaxPoolOp):
            return None
        if isinstance(pool, MaxPoolOp) and not _reads_elements(pool):
            return None
        chain = compute_before(pool.input, self.rules)
        return None if chain is None else ComputePoolActivation(*chain, pool, activation)

    def kind(self, m: ComputePoolActivation) -> str:
        return compute_kind(m.compute, m.activation.suffix)

    def rewrite(self, m: ComputePoolActivation, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        before = m.compute if m.bias_add is None else m.bias_add
        (last,) = m.activation.ops
        activation = last.with_operands(input=before.result, result_type=before.result.type)
        computed = [m.compute, activation] if m.bias_add is None else [m.compute, m.bias_add, activation]
        fused = region(self.kind(m), computed)
        activation.drop_all_references()
        self.remarks.forget(last)
        return [fused, m.pool.with_operands(input=fused.result)]

    def outcome(self, built: Operation) -> str:
        fused = cast(FusedOp, built.operands[0].owner)
        return f"{super().outcome(fused)}, before {layer_of(built)}"


def _reads_elements(pool: MaxPoolOp) -> bool:
    """Whether no window is only padding, whose smallest number the activation would change."""
    fits = all(p < k for p, k in zip(pool.pad_list, pool.kernel_shape * 2, strict=True))
    return not any(pool.pad_list) or (fits and all(d == 1 for d in pool.dilation_list))


@dataclass(frozen=True)
class ComputeResidual:
    """A convolution or matrix product and the residual add after it."""

    compute: WeightedOp
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


FOLLOWED: tuple[type[nn.NNOp], ...] = (
    nn.ArithmeticOp,
    nn.MinOp,
    nn.MaxOp,
    nn.BiasAddOp,
    nn.ConcatOp,
    nn.PoolOp,
    nn.GlobalPoolOp,
    nn.MomentsOp,
    nn.ResizeOp,
    nn.ReduceMeanOp,
    nn.ReduceSumOp,
    nn.ReduceMaxOp,
    nn.ReduceMinOp,
)
"""Operations that compute values. Batch norms are folded first; operations that only move data have no point to save."""


@dataclass(frozen=True)
class AnyActivation:
    """An operation and the activation after it."""

    op: nn.NNOp
    activation: Activation


class FuseAnyActivation(ActivationConditions, RegionPattern[AnyActivation]):
    """relu(op(x, ...)), relu6(...) or clip(...) is one operation with one quantization point after it; op is any
    operation that computes values: Add, Concat, pooling, ... (PPQ's relu and clip fusion)
    """

    name = "any-activation"
    roots = ROOTS

    @condition
    def activation_linear(self, m: AnyActivation) -> str | None:
        """the activation is relu, relu6 or clip"""
        if m.activation.kind in LINEAR:
            return None
        return f"{m.activation.kind} is fused after convolutions and matrix products only"

    def match(self, op: Operation) -> AnyActivation | None:
        if (activation := activation_of(op)) is None or not isinstance(
            before := producer_of(activation.input), FOLLOWED
        ):
            return None
        return AnyActivation(before, activation)

    def kind(self, m: AnyActivation) -> str:
        return f"{type(m.op).__name__.removesuffix('Op')}{m.activation.suffix}"
