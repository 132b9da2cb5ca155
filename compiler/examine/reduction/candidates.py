"""Reading models to reduce, and writing the candidates: ONNX models stay ONNX, everything else becomes a module."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import onnx
from onnx import ModelProto
from xdsl.dialects.builtin import ModuleOp

from ... import frontends
from ...ir.verification import verify
from ...session import ImportOptions, Session
from ...support.diagnostics import CompileError, first_line
from . import Form
from .module import ModuleForm
from .onnx_model import OnnxForm

Model = ModelProto | ModuleOp


def form_of(model: object) -> Form[Any]:
    """The form that cuts a model. Raises CompileError for something that is neither an ONNX model nor a module."""
    if isinstance(model, ModelProto):
        return OnnxForm()
    if isinstance(model, ModuleOp):
        return ModuleForm()
    raise CompileError(f"{type(model).__name__} is not a model", hint="give a path, an onnx.ModelProto or a module")


def read(path: Path, session: Session) -> Model:
    """An ONNX file as it is, with its external data; any other model as a module.

    Raises CompileError, also for options of how an ONNX file is read.
    """
    if path.suffix.lower() != ".onnx":
        module = frontends.read(path, session)
        verify(module)
        return module
    if session.imports != ImportOptions():
        hint = "give the options to the command that fails"
        raise CompileError(
            "an ONNX model is reduced as it is: it takes no options of how it is read", where=str(path), hint=hint
        )
    try:
        return cast(Any, onnx).load(path)
    except OSError as e:
        raise CompileError(f"cannot be read: {e.strerror}", where=str(path)) from None
    except Exception as e:  # protobuf's DecodeError, onnx's errors about external data
        raise CompileError(f"not an ONNX model: {first_line(e)}", where=str(path)) from None
