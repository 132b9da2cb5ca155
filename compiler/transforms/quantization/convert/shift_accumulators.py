"""`--shift-accumulators`: computes how far the sums of quantized layers are shifted right in chips that keep 16 bits (AMCT)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from ....data import Samples
from ....dialects.nn import (
    ConvolutionOp,
    NNOp,
    OriginAttr,
    Plan,
    QParamsAttr,
    ShiftAccumulatorOp,
    WeightedOp,
    dequantize_of,
    plan_of,
    set_plan,
)
from ....dialects.nn.shapes import shape_of
from ....ir.array import Array
from ....pipelines.options import Parts
from ....rewriting import Remarks, Roots, StepPattern, condition, layer_of, rewrite, strict
from ....runtime.executor import Executable
from ....session import Session, session_of
from ....support.diagnostics import op_error
from ..data import load
from ..decide.sites import Site, sites
from ..numbers.parameters import sum_scales
from ..options import DataOptions

Shifted = WeightedOp
"""The layers whose sums can be shifted."""


@dataclass(frozen=True)
class Sums:
    """The sums of a layer with a quantized input."""

    site: Site
    compute: Shifted
    plan: Plan

    @property
    def scales(self) -> Array:
        """float32, [] or one for each output channel."""
        data, weight = (dequantize_of(self.site.operand(i)) for i in (0, 1))
        assert data is not None
        assert weight is not None, "integer-weight has asked for it"
        return sum_scales(weight.qparams.data.scales(), data.qparams.data.scales())

    @property
    def result(self) -> SSAValue:
        return self.compute.result

    @property
    def axis(self) -> int:
        """The axis of the result's output channels."""
        rank = len(shape_of(self.result))
        return self.compute.channel_axis(rank) if isinstance(self.compute, ConvolutionOp) else rank - 1

    @property
    def shifts(self) -> int:
        """The number of shifts: one per output channel for convolutions, one for matrix products (AMCT)."""
        return self.compute.output_channels if isinstance(self.compute, ConvolutionOp) else 1


class ShiftSums(StepPattern[Sums]):
    """a layer whose sums are to be shifted, with `nn.shift_accumulator` after it, by the shifts of its plan"""

    name = "shift"
    roots: ClassVar[Roots] = (WeightedOp,)

    def __init__(self, remarks: Remarks, layers: Mapping[Operation, Site], searched: Collection[Operation]):
        super().__init__(remarks)
        self.sites = layers
        self.searched = searched
        """The layers whose shifts come from data."""

    @condition
    def integer_weight(self, m: Sums) -> str | None:
        """its weight is quantized"""
        return None if dequantize_of(m.site.operand(1)) is not None else "its weight is not quantized"

    @condition
    def per_tensor_data(self, m: Sums) -> str | None:
        """its input has one scale"""
        data = dequantize_of(m.site.activation)
        return "its input has more than one scale" if data is not None and data.qparams.data.axis is not None else None

    @strict()
    def shift_count(self, m: Sums) -> str | None:
        """its plan has one shift, or one for each output channel"""
        shift, channels = m.plan.shift, m.compute.output_channels
        if not isinstance(shift, tuple) or len(shift) in (1, channels):
            return None
        return f"has a plan with {len(shift)} shifts for {channels} channels"

    def needs_data(self, m: Sums) -> bool:
        """Whether its shifts are to be searched."""
        return m.plan.shift is True and self.refusal(m) is None

    def match(self, op: Operation) -> Sums | None:
        """The sums of a layer; None if its input is float."""
        site, plan = self.sites.get(op), plan_of(op)
        if site is None or plan is None or not plan.shift or not isinstance(op, Shifted):
            return None
        return Sums(site, op, plan) if dequantize_of(site.activation) is not None else None

    def rewrite(self, m: Sums, rewriter: PatternRewriter) -> None:
        op, result, scales, shifts = m.compute, m.result, m.scales, m.plan.shift
        assert isinstance(shifts, tuple), "shifts are searched before"
        if len(shifts) > 1 and scales.ndim == 0:
            scales = np.full(len(shifts), scales)
        shift = ShiftAccumulatorOp.make(
            result,
            qparams=QParamsAttr.of(i32, scales, axis=m.axis if scales.ndim else None, key=f"{layer_of(op)}.sums.scale"),
            shifts=shifts,
            origin=_origin(op),
            location=op.location,
            name=f"{result.name_hint}.shifted" if result.name_hint else None,
        )
        result.replace_uses_with_if(shift.result, lambda use: use.operation is not shift)
        rewriter.insert(shift, InsertPoint.after(op))
        source = "of least error" if op in self.searched else "from the record"
        span = f"{min(shifts)}" if len(set(shifts)) == 1 else f"{min(shifts)} to {max(shifts)}"
        self.remarks.applied(op, "shifted", f"its sums are shifted right by {span}, {source}")
        set_plan(op, None)


@dataclass(frozen=True, init=False)
class ShiftAccumulatorsPass(Parts, ModulePass):
    """Let quantized layers keep 16 bits of their sums if the plan says so, with its shifts or those of least error.

    Plans come from `--insert-observers='joint-quant=true shift=true'` or a record with shifts.
    """

    name = "shift-accumulators"

    PATTERNS: ClassVar[tuple[type[ShiftSums], ...]] = (ShiftSums,)

    calibration: DataOptions

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        session = session_of(ctx)
        if not any(plan.shift for each in op.walk() if (plan := plan_of(each)) is not None):
            hint = "--insert-observers='joint-quant=true shift=true' before it plans shifts"
            session.warn(f"--shift-accumulators has nothing to do: {hint}")
        shift_accumulators(op, lambda: load(self.calibration, op, session), session)


def shift_accumulators(module: ModuleOp, samples: Callable[[], Samples], session: Session) -> None:
    """Shift the sums of the quantized layers whose plans ask for it.

    All of the data runs through the quantized model once, and squared errors of all of it count. Raises CompileError, located
    at a layer, for NaN or Inf in its results, and unless there is one shift or one per channel.
    """
    remarks = Remarks(session, ShiftAccumulatorsPass.name)
    found: dict[Operation, Site] = {site.compute: site for site in sites(module, (WeightedOp,))}
    searched: set[Operation] = set()
    kinds = (*session.patterns_of(ShiftAccumulatorsPass.name), *ShiftAccumulatorsPass.PATTERNS)
    patterns = [kind(remarks, found, searched) for kind in kinds]
    layers = [
        sums for op in found for each in patterns if (sums := each.match(op)) is not None and each.needs_data(sums)
    ]
    for sums, shifts in zip(layers, _searched(module, layers, samples, session), strict=True):
        set_plan(sums.compute, replace(sums.plan, shift=tuple(shifts)))
        searched.add(sums.compute)
    rewrite(module, *patterns, erase_dead=False)
    remarks.flush()


def _searched(
    module: ModuleOp, layers: Sequence[Sums], samples: Callable[[], Samples], session: Session
) -> list[Sequence[int]]:
    """The shifts of least error of every layer. The quantized model's results are its sums, times their scale."""
    if not layers:
        return []
    data = samples()
    errors = {sums.result: np.zeros((LARGEST, sums.shifts)) for sums in layers}
    of = {sums.result: sums for sums in layers}

    def watch(value: SSAValue, array: Array) -> None:
        if not np.isfinite(array).all():
            raise op_error(of[value].compute, "has NaN or Inf among its results", "look for an overflow in the data")
        errors[value] += shift_errors(_integers(of[value], array))

    executable = Executable(module, list(of))
    for i, batch in enumerate(data.batches()):
        executable.run(batch, watch)
        session.progress("shift", i + 1, data.runs)
    return [best_shift(errors[sums.result]).tolist() for sums in layers]


def _integers(sums: Sums, result: Array) -> Array:
    """The sums after a result, int64 [..., shifts]: quotients in float32, halves rounded away from zero (AMCT)."""
    quotients = (np.moveaxis(result.astype(np.float32), sums.axis, -1) / sums.scales).astype(np.float64)
    return np.trunc(quotients + np.copysign(0.5, quotients)).astype(np.int64).reshape(-1, sums.shifts)


def _origin(op: NNOp) -> OriginAttr:
    framework = op.origin.framework.data if isinstance(op.origin, OriginAttr) else "onnx"
    return OriginAttr.of(framework, "ShiftN", f"{layer_of(op)}.shift")


LARGEST = 16
_LEAST, _MOST = -(2**15), 2**15 - 1


def shift_errors(sums: Array) -> Array:
    """The squared error of every shift from 1 to 16, per channel: int64 sums [..., channels] to float64 [16, channels].

    Errors of several batches add up.
    """
    flat = sums.reshape(-1, sums.shape[-1]).astype(np.int64)
    errors = [np.square((shifted(flat, n) << n) - flat, dtype=np.float64).sum(0) for n in range(1, LARGEST + 1)]
    return np.stack(errors)


def shifted(sums: Array, bits: int) -> Array:
    """`floor(sums / 2^bits)`, saturated to int16, as int64."""
    return np.clip(sums >> bits, _LEAST, _MOST)


def best_shift(errors: Array) -> Array:
    """The shift with the least error per channel, the smallest one on ties: int64 [channels], 1 to 16."""
    return np.argmin(errors, 0) + 1
