"""AscendDequant -> AscendQuant: integers to integers in one step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from xdsl.ir import Operation, SSAValue

from ....dialects.ascend import AscendDequantOp, AscendQuantOp, AscendRequantOp
from ....dialects.ascend.base import i8
from ....dialects.nn import constant_of
from ....rewriting import Condition, Folded, FusionPattern, Roots, condition, layer_of, used_once
from ....runtime.affine import are_normal
from .relu_flag import dequant_of


@dataclass(frozen=True)
class DequantQuant:
    """A dequantization and the quantization after it."""

    dequant: AscendDequantOp
    quant: AscendQuantOp


class FuseRequant(FusionPattern[DequantQuant]):
    """AscendQuant(AscendDequant(x, deq_scale)) = AscendRequant(x, deq_scale * scale); what is in between, in float16 on a device,
    is no longer rounded, so that a result may differ by one step
    """

    name = "requant"
    roots: ClassVar[Roots] = (AscendQuantOp,)

    dequant_used_once: Condition[Any] = used_once("dequant")

    @condition
    def rounds_to_nearest(self, m: DequantQuant) -> str | None:
        """round_mode of AscendQuant is Round"""
        mode = m.quant.round_mode.data
        return None if mode == "Round" else f"{layer_of(m.quant)} has round_mode {mode}"

    @condition
    def no_sqrt_mode(self, m: DequantQuant) -> str | None:
        """sqrt_mode is off on both sides"""
        squared = m.dequant.sqrt_mode.value.data or m.quant.sqrt_mode.value.data
        return "a scale of it is a square root (sqrt_mode)" if squared else None

    @condition
    def no_shift(self, m: DequantQuant) -> str | None:
        """the accumulators are taken whole (no shift_n)"""
        return f"{layer_of(m.dequant)} has shift_n" if m.dequant.shifts else None

    @condition
    def gives_int8(self, m: DequantQuant) -> str | None:
        """AscendQuant gives int8, the only type that AscendRequant gives"""
        return None if m.quant.storage == i8 else f"{layer_of(m.quant)} gives {m.quant.storage}"

    @condition
    def scale_in_range(self, m: DequantQuant) -> str | None:
        """deq_scale * scale is a normal float32 number"""
        return None if are_normal(_scales(m)) else "deq_scale times scale leaves the normal range of float32"

    def match(self, op: Operation) -> DequantQuant | None:
        if not isinstance(op, AscendQuantOp) or (dequant := dequant_of(op.x)) is None:
            return None
        return DequantQuant(dequant, op)

    def fold(self, m: DequantQuant) -> Sequence[Folded]:
        constant = constant_of(m.dequant.deq_scale)
        assert constant is not None, "the verifier asks for one"
        key = f"{constant.key.removesuffix('_deq_scale')}_req_scale"
        return [Folded(key, np.dtype(np.float32), _scales(m))]

    def rewrite(self, m: DequantQuant, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        made = AscendRequantOp.make(
            m.dequant.x,
            *folded,
            offset=m.quant.offset,
            relu_flag=m.dequant.relu_flag,
            origin=m.dequant.origin,
            name=m.quant.y.name_hint,
        )
        return [made]


def _scales(m: DequantQuant) -> np.ndarray:
    """`deq_scale * scale` in float64, in the shape of deq_scale."""
    constant = constant_of(m.dequant.deq_scale)
    assert constant is not None, "the verifier asks for one"
    return constant.array.astype(np.float64) * m.quant.scale.value.data
