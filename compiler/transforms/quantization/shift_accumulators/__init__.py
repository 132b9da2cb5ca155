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

from ....configuration.record import Record
from ....configuration.settings import Settings
from ....diagnostics import CompileError, op_error
from ....dialects.nn import (
    AveragePoolOp,
    ConvolutionOp,
    DequantizeOp,
    GlobalAveragePoolOp,
    MatMulOp,
    NNOp,
    OriginAttr,
    QParams,
    QParamsAttr,
    ShiftAccumulatorOp,
)
from ....dialects.nn.shapes import shape_of
from ....rewriting import Remarks, layer_of
from ....runtime.data import Samples
from ....runtime.executor import Executable
from ....session import Session, session_of
from ..data_options import DataOptions
from ..options import SettingsOptions
from ..profiles import Row, profile_of
from ..sites import Site, sites
from .shift import LARGEST, best_shift, shift_errors

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class ShiftAccumulatorsPass(SettingsOptions, DataOptions, ModulePass):
    """Let quantized layers keep 16 bits of their sums: those that the record shifts, else all, by the shifts of least error."""

    name = "shift-accumulators"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        settings, session = self.settings(), session_of(ctx)
        data = self.within(settings)
        shift_accumulators(op, settings, self.records(settings), lambda: data.load(op, session), session)


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
        """How many: convolutions have one for each output channel, matrix products have one (AMCT)."""
        return self.compute.output_channels if isinstance(self.compute, ConvolutionOp) else 1


def shift_accumulators(
    module: ModuleOp, settings: Settings, record: Record | None, samples: Callable[[], Samples], session: Session
) -> None:
    """Shift the sums of quantized layers: with a record of those that it has a `shift_bit` of, else of all, by data.

    All of the data runs through the quantized model once, and squared errors of all of it count. Raises CompileError where
    joint_quant is off, and, located in the record's file or at a layer, for shifts that do not fit and for NaN or Inf.
    """
    if record is None and not settings.joint_quant:
        raise CompileError("shifts require joint_quant", where=settings.where)
    remarks = Remarks(session, ShiftAccumulatorsPass.name)
    rows = profile_of(session).rows
    layers = [s for site in sites(module, rows) if (s := _sums(site, rows[type(site.compute)], remarks)) is not None]
    if record is not None:
        found, source = [_recorded(sums, record) for sums in layers], "from the record"
    else:
        found, source = _searched(module, layers, samples, session), "of least error"
    for sums, shifts in zip(layers, found, strict=True):
        if not shifts:
            remarks.missed(sums.compute, "record", "the record does not shift it")
            continue
        _shift(sums, shifts)
        span = f"{min(shifts)}" if len(set(shifts)) == 1 else f"{min(shifts)} to {max(shifts)}"
        remarks.applied(sums.compute, "shifted", f"its sums are shifted right by {span}, {source}")
    remarks.flush()


def _sums(site: Site, row: Row, remarks: Remarks) -> Sums | None:
    """The sums of a layer; None, with a remark where that needs one, for layers that are float, shifted already, or
    pools.
    """
    compute, params = site.compute, _params_of(site.activation)
    if params is None:
        return None
    if isinstance(compute, AveragePoolOp | GlobalAveragePoolOp):
        remarks.missed(compute, "pool", "the sums of pools are not shifted (AMCT)")
    if not isinstance(compute, ConvolutionOp | MatMulOp) or shift_of(compute) is not None:
        return None
    assert row.weight is not None, "convolutions and products have one"
    weight = _params_of(site.operand(row.weight))
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


def _recorded(sums: Sums, record: Record) -> Sequence[int]:
    """The record's shifts, none for 0. Raises CompileError, located in its file, for another number of them than channels."""
    name = layer_of(sums.compute)
    given = record.layers[name].shift_bit if name in record.layers else ()
    if not any(given):
        return ()
    if len(given) not in (1, sums.compute.output_channels):
        takes = f"one or {sums.compute.output_channels}"
        raise record.error(name, f"shift_bit has {len(given)} numbers, the layer takes {takes}")
    return given


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
    """The sums behind a result: int64 [..., shifts]."""
    channels_last = np.moveaxis(result.astype(np.float64), sums.axis, -1)
    return np.rint(channels_last / sums.scales.astype(np.float64)).astype(np.int64).reshape(-1, sums.shifts)


def _shift(sums: Sums, shifts: Sequence[int]) -> None:
    """Put the operation behind the layer, inside its region where it has one."""
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
