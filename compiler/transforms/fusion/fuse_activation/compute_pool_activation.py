"""A computing operation, a max pool, and the activation behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

from xdsl.ir import Operation, SSAValue

from ....dialects.nn import BiasAddOp, BoundOp, FusedOp, GlobalMaxPoolOp, MaxPoolOp, kinds
from ....rewriting import Roots, layer_of
from ..computing import Computing
from ..regions import compute_kind, region
from .activations import Activation, activation_of
from .pattern import ActivationConditions, RegionPattern, compute_before, owner_of

_Pool = MaxPoolOp | GlobalMaxPoolOp


@dataclass(frozen=True)
class ComputePoolActivation:
    """A convolution or matrix product, the max pool that reads it, and the relu, relu6 or clip behind that."""

    compute: Computing
    bias_add: BiasAddOp | None
    pool: _Pool
    activation: Activation


class FuseComputePoolActivation(ActivationConditions, RegionPattern[ComputePoolActivation]):
    """act(max_pool(op(x, w, b))) is max_pool(act(op(x, w, b))) with op and act as one operation: relu, relu6 and clip do not
    change which element is the largest. The operand of the pool then needs no levels for numbers that the activation cuts
    off.
    """

    name = "compute-pool-activation"
    roots: ClassVar[Roots] = kinds(BoundOp)

    def match(self, op: Operation) -> ComputePoolActivation | None:
        activation = activation_of(op)
        if activation is None or not isinstance(pool := owner_of(activation.input), MaxPoolOp | GlobalMaxPoolOp):
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
