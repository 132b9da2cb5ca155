"""AscendDequant -> Relu: a flag; AscendDequant -> AscendQuant: one step. Equal AscendQuants of one tensor are one (AMCT)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ....dialects.ascend import AscendDequantOp, AscendQuantOp, AscendRequantOp, ReluOp
from ....dialects.ascend.base import i8
from ....dialects.nn import constant_of
from ....rewriting import Condition, Folded, FusionPattern, Remarks, Roots, StepPattern, condition, layer_of, used_once
from ....runtime.affine import are_normal

_PARAMETERS = ("scale", "offset", "dst_type", "round_mode", "sqrt_mode", "fakequant_precision_mode")
_Pair = tuple[AscendQuantOp, AscendQuantOp]


class MergeQuants(StepPattern[_Pair]):
    """AscendQuant(x), AscendQuant(x) = the first of them"""

    name = "merge-quants"
    roots: ClassVar[Roots] = (AscendQuantOp,)

    def __init__(self, remarks: Remarks):
        super().__init__(remarks)
        self._kept: dict[tuple[Block | None, SSAValue], dict[tuple[Attribute, ...], AscendQuantOp]] = {}
        """The first AscendQuant by tensor and parameters."""

    @condition
    def equal_parameters(self, m: _Pair) -> str | None:
        """both have the same scale, offset, type, rounding and modes, bit for bit"""
        kept, quant = m
        apart = " and ".join(name for name in _PARAMETERS if getattr(kept, name) != getattr(quant, name))
        return f"{layer_of(kept)} quantizes the same tensor by another {apart}" if apart else None

    def match(self, op: Operation) -> _Pair | None:
        op = cast(AscendQuantOp, op)
        kept = self._kept.setdefault((op.parent, op.x), {})
        equal = kept.setdefault(tuple(getattr(op, name) for name in _PARAMETERS), op)
        first = next(iter(kept.values())) if equal is op else equal
        return None if first is op else (first, op)

    def rewrite(self, m: _Pair, rewriter: PatternRewriter) -> None:
        kept, quant = m
        self.remarks.applied(quant, self.name, f"{layer_of(kept)} gives the same integers")
        rewriter.replace(quant, [], [kept.y])


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
        properties: dict[str, Any] = {**m.dequant.properties, "relu_flag": True}
        return [AscendDequantOp.make(m.dequant.x, m.dequant.deq_scale, name=m.relu.y.name_hint, **properties)]


def dequant_of(value: SSAValue) -> AscendDequantOp | None:
    """The AscendDequant that produces a value."""
    return value.op if isinstance(value, OpResult) and isinstance(value.op, AscendDequantOp) else None


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
