"""Frontends: a model in, a module in `nn` out, folded and shape-inferred. One package or file per format."""

from __future__ import annotations

from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ..session import Frontend as Frontend, ImportOptions, Session
from .folders import model_in

_WEIGHTS = (
    "it is not a graph: torch.export.save(torch.export.export(module, inputs), 'model.pt2') writes the whole model"
)
_ADVICE = {".pth": _WEIGHTS, ".pt": _WEIGHTS, ".ckpt": _WEIGHTS}
"""Hints for files that are not models, by ending."""


def read(path: Path, session: Session) -> ModuleOp:
    """Reads a model or module: a file, by its ending, or a folder, which is a SavedModel or has a model (`folders`).

    Raises CompileError for an unknown ending, an unreadable model, and options in `session.imports` that do not apply.
    """
    from ..session.catalogue import SAVED_MODEL
    from ..support.diagnostics import CompileError
    from ..support.files import reading, refuse_pipe
    from ..support.limits import locating

    path = model_in(path)
    ending = SAVED_MODEL if path.is_dir() else path.suffix.lower()
    if not ending and not path.exists():
        raise CompileError("there is no such file or folder", where=str(path))
    if ending not in session.frontends:
        known = f"known are {', '.join(session.frontends)}, and folders that are a SavedModel"
        raise CompileError(f"unknown file ending '{ending}'", where=str(path), hint=_ADVICE.get(ending, known))
    if not path.exists():  # said before a library is loaded that reads it
        raise CompileError("cannot be read: No such file or directory", where=str(path))
    refuse_pipe(path)
    if session.imports.weights is not None:
        refuse_pipe(session.imports.weights)
    with locating(str(path)), reading(path.parent):
        return session.frontends[ending](path, session)


def stem(model: Path) -> str:
    """The name of a model: its file without the ending, or its folder."""
    return model.resolve().name if model.is_dir() else model.stem


def files_of(model: Path, options: ImportOptions) -> set[Path]:
    """The files that a model is read from: the external data of ONNX and the variables of a SavedModel are among them.

    Raises CompileError for a file that is not a model of ONNX.
    """
    model = model_in(model)
    files = {model} if options.weights is None else {model, options.weights}
    folder = model if model.is_dir() else model.parent
    if model.is_dir() or model.stem == "saved_model":
        files.update(folder.glob("saved_model.*"), folder.glob("variables/variables.*"))
    if model.suffix.lower() == ".onnx" and model.is_file():
        from .onnx.source import external_files

        files.update(external_files(model).values())
    return {file for file in files if not file.is_dir()}
