"""`--legalize-ascend`: checks that lowering is complete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ...dialects.ascend import AscendOp
from ...dialects.nn import ConstantOp, NNOp
from ...rewriting import Remarks, layer_of, rewrite
from ...session import Session
from ...support.diagnostics import CompileError, CompileErrors, op_error
from .chips.kernels import take_kernels
from .lower import LowerToAscendPass

LEGAL = (ModuleOp, FuncOp, ReturnOp, ConstantOp, AscendOp)
"""The operations of a model that is fully lowered. Constants are `nn.constant` throughout."""


@dataclass(frozen=True)
class LegalizeAscendPass(ModulePass):
    """An analysis whether only `ascend`, constants and functions are left. Raises CompileErrors, one per other operation.

    With `--chip` operations take the types of the chip's kernels: float16, with a Cast on either side, where there is none of
    float32. One without a kernel is an error, too.
    """

    name = "legalize-ascend"

    PATTERNS: ClassVar[tuple[type[Any], ...]] = ()
    """None of its own: those of plugins are tried before it checks."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        remarks = Remarks(ctx, self.name)
        session = remarks.session
        rewrite(op, *(kind(remarks) for kind in session.patterns_of(self.name)))
        remarks.flush()
        errors = [_error(each, session) for each in op.walk() if not isinstance(each, LEGAL)]
        errors += [op_error(each, refusal.reason) for each, refusal in take_kernels(op, session, self.name)]
        if errors:
            raise CompileErrors(errors)


def _error(op: Operation, session: Session) -> CompileError:
    """The error, with the lowering's remark about the operation, if it has run."""
    said = [
        remark.reason
        for remark in session.remarks
        if (remark.pass_name, remark.kind) == (LowerToAscendPass.name, "missed")
        and (remark.layer, remark.op) == (layer_of(op), op.name)
    ]
    hint = f"run --{LowerToAscendPass.name} first" if isinstance(op, NNOp) else _FOREIGN
    return op_error(op, "is not of the ascend dialect", said[-1] if said else hint)


_FOREIGN = "register a pattern that lowers it: session.register_pattern('legalize-ascend', PATTERN)"
