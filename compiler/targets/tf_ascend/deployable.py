"""The form of a module for files: channels last, layers on int8 in `ascend`, weights as in AMCT's files. Same numbers."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from ...dialects import ascend
from ...lowering.ascend import LowerIntegersPass
from ...rewriting import erase_dead_constants
from ...session import Session
from ..deployed import Made, turn_weight
from ..graph import in_layout


def deployable(module: ModuleOp, session: Session) -> ModuleOp:
    """A copy of an `nn` or `ascend` module in the form of the file; float operations stay in their dialect."""
    module = in_layout(module, "NHWC", session).clone()
    LowerIntegersPass().apply(session, module)
    made: Made = {}
    for op in list(module.walk()):
        if isinstance(op, ascend.MatMulV2Op | ascend.BatchMatMulV2Op):
            turn_weight(op, made)
    erase_dead_constants(module)
    return module
