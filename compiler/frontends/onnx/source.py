"""From a file to a checked model: it is ONNX, of a known opset, and without functions of its own left."""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, defs, inliner

from ...diagnostics import CompileError

OLDEST_OPSET = 7
NEWEST_OPSET = min(26, defs.onnx_opset_version())
STANDARD = ""
"""The domain of ONNX's own operators, also written `ai.onnx`."""


def load(path: Path) -> ModelProto:
    """The model in a file, model-local functions inlined. Raises CompileError for anything that is no such model."""
    where = str(path)
    model = _parse(path)
    if not model.HasField("graph") or not (model.opset_import or model.ir_version):
        raise CompileError("is no ONNX model", where=where, hint="the file parses, but holds no graph")
    opset = opsets(model).get(STANDARD)
    if opset is None and any(_domain(n.domain) == STANDARD for n in model.graph.node):
        raise CompileError("names no opset of the standard operators", where=where)
    if opset is not None and not OLDEST_OPSET <= opset <= NEWEST_OPSET:
        raise CompileError(
            f"is of opset {opset}; {OLDEST_OPSET} to {NEWEST_OPSET} are read",
            where=where,
            hint="onnx.version_converter converts between opsets",
        )
    return _inlined(model, where)


def _parse(path: Path) -> ModelProto:
    where = str(path)
    try:
        if path.is_dir():
            raise CompileError("is a directory", where=where, hint="name the .onnx file inside it")
        data = path.read_bytes()
    except OSError as e:
        raise CompileError(f"cannot be read: {e.strerror}", where=where) from None
    if not data:
        raise CompileError("is empty", where=where)
    try:
        return ModelProto.FromString(data)
    except DecodeError:
        hint = "the file is damaged or truncated, or of another format"
        if data.startswith(b"version https://git-lfs"):
            hint = "this is a Git LFS pointer: run `git lfs pull` to get the file itself"
        raise CompileError("is no ONNX model", where=where, hint=hint) from None


def opsets(model: ModelProto) -> dict[str, int]:
    """The opset of each domain that the model imports."""
    return {_domain(o.domain): o.version for o in model.opset_import}


def _domain(domain: str) -> str:
    return STANDARD if domain == "ai.onnx" else domain


def _inlined(model: ModelProto, where: str) -> ModelProto:
    if not model.functions:
        return model
    try:
        return inliner.inline_local_functions(model)
    except (onnx.checker.ValidationError, RuntimeError, ValueError) as e:
        reason = str(e).strip().splitlines()[0]
        raise CompileError(f"the functions of the model cannot be inlined: {reason}", where=where) from None
