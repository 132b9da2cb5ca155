"""AscendDequant -> Relu: a flag of AscendDequant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import Operation, OpResult, SSAValue

from ....dialects.ascend import AscendDequantOp, ReluOp
from ....rewriting import Condition, FusionPattern, Roots, used_once


@dataclass(frozen=True)
class DequantRelu:
    """A dequantization and the relu after it."""

    dequant: AscendDequantOp
    relu: ReluOp


class FuseReluFlag(FusionPattern[DequantRelu]):
    """Relu(AscendDequant(x)) = AscendDequant(x) with relu_flag"""

    name = "relu-flag"
    roots: ClassVar[Roots] = (ReluOp,)

    dequant_used_once: Condition[Any] = used_once("dequant")

    def match(self, op: Operation) -> DequantRelu | None:
        if not isinstance(op, ReluOp) or (dequant := dequant_of(op.x)) is None:
            return None
        return DequantRelu(dequant, op)

    def rewrite(self, m: DequantRelu, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        d = m.dequant
        made = AscendDequantOp.make(
            d.x,
            d.deq_scale,
            sqrt_mode=d.sqrt_mode,
            relu_flag=True,
            dtype=d.dtype,
            shift_n=d.shift_n,
            fakequant_precision_mode=d.fakequant_precision_mode,
            origin=d.origin,
            name=m.relu.y.name_hint,
        )
        return [made]


def dequant_of(value: SSAValue) -> AscendDequantOp | None:
    """The AscendDequant that produces a value."""
    return value.op if isinstance(value, OpResult) and isinstance(value.op, AscendDequantOp) else None
