"""A check of the whole module: members of one group have equal parameters."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from ...support.diagnostics import CompileError, describe, op_error
from .quantization import DequantizeOp, ObserveOp, QuantizeOp


def check_groups(module: ModuleOp) -> None:
    """Checks that members of each group have equal parameters, and so do their dequantizations; uncalibrated points have none.

    Raises CompileError, located at one of the two points that differ, that names both.
    """
    groups: dict[str, ObserveOp | QuantizeOp] = {}
    for op in module.walk():
        if not isinstance(op, ObserveOp | QuantizeOp) or op.group is None or op.qparams is None:
            continue
        first = groups.setdefault(op.group.data, op)
        if op.qparams != first.qparams:
            raise _differ(op, first, op.group.data)
        for use in op.result.uses:
            back = use.operation
            if isinstance(back, DequantizeOp) and back.qparams != op.qparams:
                raise op_error(
                    back, f"carries other parameters than {_name(op)} of group '{op.group.data}', which it reads"
                )


def _differ(op: ObserveOp | QuantizeOp, first: ObserveOp | QuantizeOp, group: str) -> CompileError:
    message = f"gives {_name(op)} other parameters than {_name(first)} ({describe(first.location)}) of its group '{group}' has"
    return op_error(op, message, "members of a group share scale and zero point")


def _name(op: ObserveOp | QuantizeOp) -> str:
    """The name of a point in messages."""
    if isinstance(op, ObserveOp):
        return f"'{op.point.data}'"
    return f"'{op.result.name_hint or op.input.name_hint or op.name}'"
