"""A fusion: `FusionPattern` counts uses, copies what is shared, checks the numbers, keeps locations and leaves the remarks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, OpResult, SSAValue

from amct_opt import FusionPattern
from amct_opt.dialects.nn import MatMulOp
from amct_opt.rewriting import Folded, Remarks, constant, used_once
from amct_opt.transforms.fusion.fusion_pass import FusionPass, report_unmatched

from .dialect import GainOp


@dataclass(frozen=True)
class Match:
    matmul: MatMulOp
    gain: GainOp


class FoldGain(FusionPattern[Match]):
    """gain(matmul(x, w, b)) = matmul(x, w * factor, b * factor)"""

    name = "matmul-gain"
    roots = (GainOp,)

    product_used_once = used_once("matmul")
    weights_constant = constant("matmul.rhs", "matmul.bias")

    def match(self, op: Operation) -> Match | None:
        match op:
            case GainOp(input=OpResult(op=MatMulOp() as matmul)):
                return Match(matmul, op)
            case _:
                return None

    def fold(self, m: Match) -> Sequence[Folded]:
        layer, factor = m.matmul.result.name_hint, m.gain.factor.value.data
        parts = {"weight": self.values(m.matmul.rhs), "bias": self.values(m.matmul.bias)}
        return [
            Folded(f"{layer}.{k}.folded", np.dtype(np.float32), v * factor) for k, v in parts.items() if v is not None
        ]

    def rewrite(self, m: Match, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        weight, bias = [*folded, None][:2]
        return [m.matmul.with_operands(rhs=weight, bias=bias, result_type=m.gain.result.type)]


@dataclass(frozen=True)
class FoldGainPass(FusionPass):
    """Fold toy.gain into the weights before it."""

    name = "toy-fold-gain"

    PATTERNS = (FoldGain,)

    def report(self, module: ModuleOp, remarks: Remarks) -> None:
        report_unmatched(module, remarks, GainOp)
