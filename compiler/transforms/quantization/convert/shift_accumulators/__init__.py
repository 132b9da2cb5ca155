"""`--shift-accumulators`: how far the sums of quantized layers are shifted right in chips that keep 16 bits (AMCT)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from .....diagnostics import op_error
from .....dialects.nn import (
    ConvolutionOp,
    DequantizeOp,
    MatMulOp,
    NNOp,
    OriginAttr,
    QParams,
    QParamsAttr,
    ShiftAccumulatorOp,
    plan_of,
    set_plan,
)
from .....dialects.nn.shapes import shape_of
from .....rewriting import Remarks, layer_of
from .....runtime.data import Samples
from .....runtime.executor import Executable
from .....session import Session, session_of
from ...data_options import DataOptions
from ...decide.sites import Site, sites
from .shift import LARGEST, best_shift, shift_errors

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class ShiftAccumulatorsPass(DataOptions, ModulePass):
    """Let quantized layers keep 16 bits of their sums if the plan says so, with its shifts or those of least error.

    Plans come from `--insert-observers='joint-quant=true shift=true'` or a record with shifts.
    """

    name = "shift-accumulators"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        session = session_of(ctx)
        if not any(plan.shift for each in op.walk() if (plan := plan_of(each)) is not None):
            hint = "--insert-observers='joint-quant=true shift=true' before it plans shifts"
            session.warn(f"--shift-accumulators has nothing to do: {hint}")
        shift_accumulators(op, lambda: self.load(op, session), session)


class Sums(NamedTuple):
    """The sums of a quantized layer."""

    compute: ConvolutionOp | MatMulOp
    scales: Array
    """float32, [] or one for each output channel."""

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


def shift_accumulators(module: ModuleOp, samples: Callable[[], Samples], session: Session) -> None:
    """Shift the sums of the quantized layers whose plans say so.

    All of the data runs through the quantized model once, and squared errors of all of it count. Raises CompileError, located
    at a layer, for NaN or Inf in its results, and unless there is one shift or one per channel.
    """
    remarks = Remarks(session, ShiftAccumulatorsPass.name)
    planned = [
        (site, plan.shift) for site in sites(module, (ConvolutionOp, MatMulOp)) if (plan := plan_of(site.compute))
    ]
    layers = [(sums, shift) for site, shift in planned if shift and (sums := _sums(site, remarks)) is not None]
    found = iter(_searched(module, [sums for sums, shift in layers if shift is True], samples, session))
    for sums, shift in layers:
        shifts, source = (shift, "from the record") if isinstance(shift, tuple) else (next(found), "of least error")
        channels = sums.compute.output_channels
        if len(shifts) not in (1, channels):
            raise op_error(sums.compute, f"has a plan with {len(shifts)} shifts for {channels} channels")
        _shift(sums, shifts)
        span = f"{min(shifts)}" if len(set(shifts)) == 1 else f"{min(shifts)} to {max(shifts)}"
        remarks.applied(sums.compute, "shifted", f"its sums are shifted right by {span}, {source}")
        set_plan(sums.compute, None)
    remarks.flush()


def _sums(site: Site, remarks: Remarks) -> Sums | None:
    """The sums of a layer; None for float layers, with a remark if necessary."""
    compute, params = site.compute, _params_of(site.activation)
    if params is None or not isinstance(compute, ConvolutionOp | MatMulOp):
        return None
    weight = _params_of(site.operand(1))
    if weight is None:
        remarks.missed(compute, "integer-weight", "its weight is not quantized")
        return None
    return Sums(compute, np.asarray(params.scales() * weight.scales(), np.float32))


def _params_of(value: SSAValue | None) -> QParams | None:
    """The parameters that a value was dequantized with."""
    return value.op.qparams.data if isinstance(value, OpResult) and isinstance(value.op, DequantizeOp) else None


def shift_of(compute: NNOp) -> ShiftAccumulatorOp | None:
    """The operation that shifts a layer's sums."""
    users = (use.operation for use in compute.results[0].uses)
    return next((op for op in users if isinstance(op, ShiftAccumulatorOp)), None)


def _searched(
    module: ModuleOp, layers: Sequence[Sums], samples: Callable[[], Samples], session: Session
) -> list[Sequence[int]]:
    """Every layer's shifts of least error. The quantized model's results are its sums, times their scale."""
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
    """The sums behind a result, int64 [..., shifts]: quotients in float32, halves rounded away from zero (AMCT)."""
    quotients = (np.moveaxis(result.astype(np.float32), sums.axis, -1) / sums.scales).astype(np.float64)
    return np.trunc(quotients + np.copysign(0.5, quotients)).astype(np.int64).reshape(-1, sums.shifts)


def _shift(sums: Sums, shifts: Sequence[int]) -> None:
    """Insert the operation after the layer, inside its region if it has one."""
    scales = sums.scales
    if len(shifts) > 1 and scales.ndim == 0:
        scales = np.full(len(shifts), scales)
    axis = sums.axis if scales.ndim else None
    op, result = sums.compute, sums.result
    shift = ShiftAccumulatorOp.make(
        result,
        qparams=QParamsAttr.of(i32, scales, axis=axis, key=f"{layer_of(op)}.sums.scale"),
        shifts=shifts,
        origin=_origin(op),
        location=op.location,
        name=f"{result.name_hint}.shifted" if result.name_hint else None,
    )
    result.replace_uses_with_if(shift.result, lambda use: use.operation is not shift)
    Rewriter.insert_op(shift, InsertPoint.after(op))


def _origin(op: NNOp) -> OriginAttr:
    framework = op.origin.framework.data if isinstance(op.origin, OriginAttr) else "onnx"
    return OriginAttr.of(framework, "ShiftN", f"{layer_of(op)}.shift")
