"""`--print-quant-points`: lists every real value, whether it is quantized, and with which parameters (PPQ's states)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.passes import ModulePass

from ....dialects.nn import (
    ActivationOp,
    DequantizeOp,
    FusedOp,
    NNOp,
    ObserveOp,
    QParams,
    QuantizeOp,
    array_of,
    before_points,
    constant_of,
    is_layer,
)
from ....dialects.nn.shapes import element_of
from ....ir.dtypes import is_float
from ....ir.functions import input_names, main_function
from ....rewriting import layer_of
from ....session import session_of
from ....support.diagnostics import printable
from ..decide.grids import point_behind, point_on
from ..profiles import Profile, profile_of


class State(StrEnum):
    """PPQ's states of quantization."""

    ACTIVATED = "ACTIVATED"
    """A value with its own parameters."""
    OVERLAPPED = "OVERLAPPED"
    """A value without a point: the parameters of a value before or after it apply."""
    PASSIVE = "PASSIVE"
    """A value that has a point with parameters of other values: aligned values, biases."""
    FP32 = "FP32"
    """A value that is not quantized."""


class QuantPoint(NamedTuple):
    """A value of a layer, and how it is quantized."""

    layer: str
    value: str
    state: State
    parameters: str = ""


@dataclass(frozen=True)
class PrintQuantPointsPass(ModulePass):
    """An analysis that prints layer, value, state and parameters of every real value to stderr. The module does not change."""

    name = "print-quant-points"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rows = [("layer", "value", "state", "parameters"), *quant_points(op, profile_of(session_of(ctx)))]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        for *cells, last in rows:
            line = "  ".join([c.ljust(w) for c, w in zip(cells, widths, strict=True)] + [last]).rstrip()
            print(printable(line), file=sys.stderr)


def quant_points(module: ModuleOp, profile: Profile) -> list[QuantPoint]:
    """The values of a module that is observed or quantized, in program order: inputs, results, quantized weights and biases."""
    function = main_function(module)
    found = [
        _of_value(name, name, argument, profile)
        for name, argument in zip(input_names(function), function.body.block.args, strict=True)
        if is_float(element_of(argument))
    ]
    for op in function.body.block.ops:
        found.extend(_of_operation(op, profile))
    return found


def _of_operation(op: Operation, profile: Profile) -> Iterator[QuantPoint]:
    if isinstance(op, ObserveOp | QuantizeOp) and _is_second(op):
        yield _of_point(layer_of(next(_readers(op), op)), _name(before_points(op.input)), op)
    if not is_layer(op) and not isinstance(op, FusedOp):
        return
    for operand in op.operands:
        if isinstance(operand, OpResult) and isinstance(operand.op, DequantizeOp) and _is_constant(operand.op):
            yield _of_parameter(layer_of(op), operand.op)
    results = [_of_value(_layer(op), _name(v), v, profile) for v in op.results if is_float(element_of(v))]
    if isinstance(op, FusedOp):
        inner = State.FP32 if results[0].state is State.FP32 else State.OVERLAPPED
        *before, _ = [o for o in op.body.block.ops if isinstance(o, NNOp)]
        yield from (QuantPoint(layer_of(o), _name(v), inner) for o in before for v in o.results)
    yield from results


def _of_value(layer: str, name: str, value: SSAValue, profile: Profile) -> QuantPoint:
    point = point_on(value)
    if point is None:
        return QuantPoint(layer, name, *_without_point(value, profile))
    return _of_point(layer, name, point)


def _is_second(op: ObserveOp | QuantizeOp) -> bool:
    """Whether a point is not the first one on its value, or reads the result of another point."""
    behind = op.input.owner
    return point_on(op.input) is not op or isinstance(behind, ObserveOp | DequantizeOp)


def _readers(op: ObserveOp | QuantizeOp) -> Iterator[Operation]:
    """The operations that read a value through a point."""
    for use in op.result.uses:
        if isinstance(use.operation, DequantizeOp):
            yield from (each.operation for each in use.operation.result.uses)
        else:
            yield use.operation


def _of_point(layer: str, name: str, point: ObserveOp | QuantizeOp) -> QuantPoint:
    state = State.PASSIVE if _has_parameters_of_others(point) else State.ACTIVATED
    group = f"group {point.group.data}" if point.group is not None else ""
    given = point.qparams
    return QuantPoint(layer, name, state, " ".join(filter(None, (given and _text(given.data), group))))


def _has_parameters_of_others(point: ObserveOp | QuantizeOp) -> bool:
    """Whether it is in a group whose range includes other values."""
    if point.group is None or point.master is None:
        return point.group is not None
    block = point.parent
    assert block is not None
    points = (op for op in block.ops if isinstance(op, ObserveOp | QuantizeOp))
    return any(p.master is not None for p in points if p is not point and p.group == point.group)


def _without_point(value: SSAValue, profile: Profile) -> tuple[State, str]:
    """The point whose parameters apply: the one before passive operations, or the one of the following activation."""
    if not isinstance(value, OpResult):
        return State.FP32, ""
    if (before := point_behind(value, profile.rows)) is not None:
        return State.OVERLAPPED, _text(before.qparams.data) if before.qparams is not None else ""
    uses = list(value.uses)
    if (
        len(uses) != 1
        or not isinstance(activation := uses[0].operation, ActivationOp)
        or not _reads_grid(value.op, profile)
    ):
        return State.FP32, ""
    behind = point_on(activation.results[0])
    if behind is None:
        return State.FP32, ""
    return State.OVERLAPPED, _text(behind.qparams.data) if behind.qparams is not None else ""


def _reads_grid(op: Operation, profile: Profile) -> bool:
    return bool(op.operands) and point_behind(op.operands[0], profile.rows) is not None


def _is_constant(op: DequantizeOp) -> bool:
    return array_of(op.input) is not None


def _of_parameter(layer: str, op: DequantizeOp) -> QuantPoint:
    constant = constant_of(op.input)
    assert constant is not None
    state = State.PASSIVE if op.qparams.data.storage == i32 else State.ACTIVATED
    return QuantPoint(layer, constant.key, state, _text(op.qparams.data))


def _text(params: QParams) -> str:
    scales = params.scales()
    if scales.ndim:
        blocks = "" if params.block is None else f" in blocks of {params.block}"
        return f"{params.storage} {scales.size} scales along axis {params.axis}{blocks}"
    return f"{params.storage} scale {float(scales):.6g} zero point {params.zero_point[0]}"


def _layer(op: Operation) -> str:
    return layer_of(next(iter(op.body.block.ops))) if isinstance(op, FusedOp) else layer_of(op)


def _name(value: SSAValue) -> str:
    return value.name_hint or "-"
