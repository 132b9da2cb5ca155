"""Carried operators, run by the source framework's own reference: a module per framework."""

from __future__ import annotations

from importlib import import_module

from ...dialects import nn
from ...support.diagnostics import op_error
from . import Kernel, kernel

_FRAMEWORKS = ("onnx", "tensorflow")


@kernel(nn.OpaqueOp)
def opaque(op: nn.OpaqueOp) -> Kernel:
    framework = op.framework.data
    if framework not in _FRAMEWORKS:
        raise op_error(op, f"cannot be run: there is no reference for operators of framework '{framework}'")
    return import_module(f".opaque_{framework}", __package__).reference(op)
