"""The layout that a format has for all operations."""

from __future__ import annotations

from typing import Literal

from xdsl.dialects.builtin import ModuleOp

from ..dialects import nn
from ..session import Session
from ..transforms.convert_layout import ConvertLayoutPass


def in_layout(module: ModuleOp, to: Literal["NCHW", "NHWC"], session: Session) -> ModuleOp:
    """A module with this layout only: itself, or a converted copy, whose inputs and outputs are as they were."""
    last = to == "NHWC"
    if all(op.channels_last == last for op in module.walk() if isinstance(op, nn.LayoutOp)):
        return module
    copy = module.clone()
    ConvertLayoutPass(to).apply(session, copy)
    return copy
