"""The first steps of every flow: read a model file, protect it from being overwritten, and fuse the module."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from .. import frontends
from ..configuration.record import Record
from ..configuration.settings import tensor_parts
from ..dialects.nn import NNOp, weights_of
from ..files import refuse_overwriting
from ..frontends.folders import DECODERS, model_in
from ..ir.verification import verify
from ..pipelines.passes import run_on_verified
from ..rewriting import layer_of
from ..session import Session, session_of
from ..transforms.canonicalization import SIMPLIFY
from ..transforms.fusion.fuse_all import FuseAllPass
from ..transforms.quantization.decide.layers import resolve
from ..transforms.quantization.request import Request


def read_model(
    model: Path,
    session: Session,
    writes: Iterable[Path],
    given: Iterable[str | Path | None] = (),
    read: Callable[[Path, Session], ModuleOp] = frontends.read,
) -> ModuleOp:
    """Read a model as a verified module. No path in `writes` may be a file of the model or one of the other `given` files.

    Raises CompileError, located in the model or in a file that would be overwritten.
    """
    module = read(model, session)
    verify(module)
    others = {Path(each) for each in given if each is not None}
    refuse_overwriting(writes, files_read(model, module, session) | others)
    return module


def files_read(model: Path, module: ModuleOp, session: Session) -> set[Path]:
    """The files that a module was read from, including those that its arrays are mapped from."""
    mapped = {file for weight in weights_of(module) if (file := weight.file) is not None}
    return {each.resolve() for each in (*frontends.files_of(model, session.imports), *mapped)}


def companions(folder: Path, read: Collection[Path], session: Session) -> list[Path]:
    """The files that a model's folder has next to it, such as its configuration and tokenizer; empty for a file.

    Without those that were `read`, other forms of the same decoder, weights of other frameworks, hidden files and, with a note,
    links to other folders than that of Hugging Face's cache (`blobs` above `snapshots/<revision>`).
    """
    if not folder.is_dir() or (model := model_in(folder)) == folder:
        return []
    forms = {*DECODERS} if model.name in DECODERS else {model.name}
    dropped = {f"{name}{ending}" for name in forms for ending in ("", ".data", "_data")}
    beside = [f for f in sorted(folder.iterdir()) if f.is_file() and not f.name.startswith(".")]
    wanted = [f for f in beside if f.name not in dropped and f.suffix not in _WEIGHTS and f.resolve() not in read]
    home = folder.resolve()
    homes = (home, home.parent.parent / "blobs")
    within = {f for f in wanted if any(f.resolve().is_relative_to(each) for each in homes)}
    for f in wanted:
        if f not in within:
            session.note(f"{f}: is not copied: it is a link to another folder, {f.resolve().parent}")
    return [f for f in wanted if f in within]


_WEIGHTS = frozenset({".safetensors", ".bin", ".pt", ".pth", ".h5", ".msgpack", ".gguf"})
"""Endings of the float weights that a network was exported from."""


def simplify_and_fuse(request: Request, module: ModuleOp, session: Session) -> None:
    """Simplify and fuse a verified module in place, according to a request."""
    run_on_verified(module, [*SIMPLIFY, Fuse(request)], session)


@dataclass(frozen=True)
class Fuse(ModulePass):
    """`--fuse-all` on a simplified module, according to the settings and the record of a request.

    Afterwards `session.skip_fusion` lists all layers that must not be fused; written records repeat that per layer.
    """

    name = "fuse-all"

    request: Request

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        session, request = session_of(ctx), self.request
        resolved = resolve(request.settings, op, request.profile).settings
        layers = (request.record or Record()).layers
        skipped = {name for name, layer in layers.items() if layer.skip_fusion}
        # the inputs of these stay values of their own
        tensors = {layer for layer, index in map(tensor_parts, layers) if index >= 0}
        session.skip_fusion = session.skip_fusion.union(skipped, tensors)
        alone = set(resolved.skip_fusion_layers)
        if not resolved.do_fusion:
            alone.update(layer_of(each) for each in op.walk() if isinstance(each, NNOp))
        FuseAllPass(config=request.settings).apply(session, op)
        session.skip_fusion = session.skip_fusion.union(alone)
