"""`--legalize-ascend`: checks that lowering is complete."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ...dialects.ascend import AscendOp
from ...dialects.nn import ConstantOp
from ...rewriting import layer_of
from ...session import Session, session_of
from ...support.diagnostics import CompileError, CompileErrors, op_error
from .lower import LowerToAscendPass

LEGAL = (ModuleOp, FuncOp, ReturnOp, ConstantOp, AscendOp)
"""The operations of a model that is fully lowered. Constants are `nn.constant` throughout."""


@dataclass(frozen=True)
class LegalizeAscendPass(ModulePass):
    """An analysis whether only `ascend`, constants and functions are left. Raises CompileErrors, one per other operation."""

    name = "legalize-ascend"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if illegal := [each for each in op.walk() if not isinstance(each, LEGAL)]:
            raise CompileErrors([_error(each, session_of(ctx)) for each in illegal])


def _error(op: Operation, session: Session) -> CompileError:
    """The error, with the lowering's remark about the operation, if it has run."""
    said = [
        remark.reason
        for remark in session.remarks
        if (remark.pass_name, remark.kind) == (LowerToAscendPass.name, "missed")
        and (remark.layer, remark.op) == (layer_of(op), op.name)
    ]
    hint = said[-1] if said else f"run --{LowerToAscendPass.name} first"
    return op_error(op, "is not of the ascend dialect", hint)
