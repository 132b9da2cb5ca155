"""The layout that a format has for all operations."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from ..dialects import nn
from ..session import Session
from ..transforms.convert_layout import ConvertLayoutPass


def channels_second(module: ModuleOp, session: Session) -> ModuleOp:
    """A module with all channels second: itself, or a converted copy, whose inputs and outputs are as they were."""
    if not any(isinstance(op, nn.LayoutOp) and op.channels_last for op in module.walk()):
        return module
    copy = module.clone()
    ConvertLayoutPass("NCHW").apply(session, copy)
    return copy
