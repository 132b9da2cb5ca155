"""Writes a reduced model in both forms: ONNX and the text of a module."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from onnx import ModelProto

from ...frontends.onnx import from_model
from ...ir.text import write_module
from ...ir.verification import verify
from ...session import Session
from ...support.diagnostics import CompileError
from ...support.files import filling
from ...targets.onnx import OnnxTarget
from ...targets.onnx_ascend import OnnxAscendTarget
from .candidates import Model


def save(model: Model, stem: Path, session: Session, write: Callable[[Model, Path], Path]) -> list[Path]:
    """Write `<stem>.onnx` and `<stem>.mlir`, all at once. A form that the model does not have is left out, with a note.

    The model's own form is written as it is. Returns the files. Raises CompileError for a file that cannot be written.
    """
    with filling(stem.parent) as folder:
        onnx, text = (folder / f"{stem.name}{ending}" for ending in (".onnx", ".mlir"))
        own, other = (onnx, text) if isinstance(model, ModelProto) else (text, onnx)
        files = [write(model, own)]
        try:
            if isinstance(model, ModelProto):
                module = from_model(model, session.silent())
                verify(module)
                files += [each for each in write_module(module, text) if each.exists()]
            else:
                ascend = any(op.name.startswith("ascend.") for op in model.walk())
                target = OnnxAscendTarget() if ascend else OnnxTarget()
                files += target.write(model, onnx, session.silent())
        except CompileError as e:
            if isinstance(e.__context__, OSError):  # it has the form, which cannot be stored
                raise
            session.note(f"{stem.with_name(other.name)} is not written: {e.message}")
    return [stem.with_name(each.name) for each in files]
