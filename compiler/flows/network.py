"""The steps of every flow: a model file is read, and protected from being overwritten, fused, evened out and quantized."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from .. import frontends
from ..configuration.record import Record
from ..configuration.settings import tensor_parts
from ..dialects.nn import NNOp, weights_of
from ..frontends.folders import DECODERS, model_in
from ..ir.verification import verify
from ..ir.weights import reclaim
from ..lowering.ascend import LowerToAscendPass
from ..lowering.ascend.chips.kernels import take_kernels
from ..lowering.ascend.fuse_requant import without_relu6
from ..lowering.ascend.profiles import like_amct
from ..lowering.ascend.weight_only import check_weights
from ..pipelines.passes import run_on_verified, run_passes, step
from ..rewriting import layer_of
from ..session import Session
from ..support.files import refuse_overwriting
from ..transforms.canonicalization import SIMPLIFY
from ..transforms.fusion.fuse_all import FuseAllPass
from ..transforms.inline_fused import inline_fused
from ..transforms.quantization.data import Split, load, split, within
from ..transforms.quantization.decide.layers import resolve
from ..transforms.quantization.options import DataOptions, EngineOptions
from ..transforms.quantization.profiles import profile_of
from ..transforms.quantization.quantize import quantize
from ..transforms.quantization.recover.even_out import even_out
from ..transforms.quantization.request import Request, Wanted
from ..transforms.quantization.running import runner_of
from .summary import weight_bytes

_LARGE = 1 << 26
"""Bytes of weights from which on memory is given back after each step, and the stages are measured one after the other."""


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
    """The other files in a model's folder, such as its configuration and tokenizer; empty for a file.

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


def fuse(module: ModuleOp, request: Request, session: Session) -> None:
    """Run `--fuse-all` on a simplified module in place, according to the settings and the record of a request.

    Afterwards `session.skip_fusion` lists all layers that must not be fused; written records repeat that per layer.
    """
    resolved = resolve(request.settings, module, request.profile).settings
    layers = (request.record or Record()).layers
    skipped = {name for name, layer in layers.items() if layer.skip_fusion}
    # the inputs of these stay values of their own
    tensors = {layer for layer, index in map(tensor_parts, layers) if index >= 0}
    session.skip_fusion = session.skip_fusion.union(skipped, tensors)
    alone = set(resolved.skip_fusion_layers)
    if not resolved.do_fusion:
        alone.update(layer_of(each) for each in module.walk() if isinstance(each, NNOp))
    run_on_verified(module, [FuseAllPass(config=request.settings)], session)
    session.skip_fusion = session.skip_fusion.union(alone)


def simplify_and_fuse(request: Request, module: ModuleOp, session: Session) -> None:
    """Simplify and fuse a verified module in place, according to a request."""
    run_on_verified(module, SIMPLIFY, session)
    fuse(module, request, session)


@dataclass(frozen=True)
class Network:
    """A network on its way from a file to integers. Each step gives another one, with a module of its own."""

    model: Path
    """The file that it was read from."""
    original: ModuleOp
    """The module as it was read."""
    module: ModuleOp
    """The module so far."""
    reference: ModuleOp
    """A float module whose layers read what the layers of `module` read: after equalization it is not the original."""
    request: Request
    samples: Split
    running: EngineOptions
    session: Session

    @staticmethod
    def of(
        model: Path, module: ModuleOp, request: Request, samples: Split, running: EngineOptions, session: Session
    ) -> Network:
        """A network that was read as this module."""
        return Network(model, module, module, module, request, samples, running, session)

    @property
    def quiet(self) -> Network:
        """The network in a session that reports and prints nothing."""
        return replace(self, session=self.session.silent())

    def asking(self, request: Request) -> Network:
        """The network with another request."""
        return replace(self, request=request)

    def after(self, *passes: ModulePass) -> Network:
        """The network after these passes."""
        module = self.module.clone()
        run_on_verified(module, passes, self.session)
        return self._settled(module)

    def fused(self) -> Network:
        """The network simplified and fused."""
        module = self.module.clone()
        simplify_and_fuse(self.request, module, self.session)
        return self._settled(module)

    def evened(self) -> Network:
        """The network with channels rotated and equalized, as far as the request has it; the new request asks for neither."""
        module, request, session = self.module.clone(), self.request, self.session
        data = within(self.samples.calibrating, self.request.settings)
        samples, runner = cache(lambda: load(data, module, session)), runner_of(self.running)
        changed = even_out(module, request, samples, session, runner, lambda name: step(name, module, session))
        result = replace(self._settled(module), request=request.equalized)
        return replace(result, reference=module.clone()) if changed else result

    def quantized(self, request: Request | None = None) -> Network:
        """The network quantized, by another request if one is given."""
        module, request = self.module.clone(), request or self.request
        with step("quantize", module, self.session):
            quantize(module, request, self.samples.calibrating, self.running, self.session)
        return self._settled(module)

    def deployed(self) -> tuple[ModuleOp, ModuleOp]:
        """The deployable module, with Relu in place of Relu6 where that is exact, and the same lowered to Ascend's operators.

        Raises CompileError for a weight that is quantized by itself and would become floats.
        """
        check_weights(self.module, self.session.silent())  # the writer of the file reports
        deployable = without_relu6(self.module, self.session)
        ascend = deployable.clone()
        run_passes(ascend, [LowerToAscendPass()], self.session)
        take_kernels(ascend, self.session.silent(), LowerToAscendPass.name)
        return deployable, ascend

    def inlined(self) -> Network:
        """The network with the operations inside fused regions."""
        module = self.module.clone()
        inline_fused(module)
        return self._settled(module)

    @property
    def large(self) -> bool:
        """Whether its weights are so large that what is not used any more is to leave memory at once."""
        return weight_bytes(self.original) > _LARGE

    def settle(self) -> None:
        """Give memory back that a large network leaves behind."""
        if self.large:
            reclaim()

    def _settled(self, module: ModuleOp) -> Network:
        self.settle()
        return replace(self, module=module)


def read_network(
    model: Path,
    wanted: Wanted,
    data: DataOptions,
    running: EngineOptions,
    session: Session,
    writes: Iterable[Path] = (),
    given: Iterable[str | Path | None] = (),
) -> Network:
    """Read a model, what is asked of it, and its data. No path in `writes` may be a file that is read.

    Raises CompileError, located in the model, the settings or the data.
    """
    module = read_model(model, session, writes, [*wanted.options.settings.files(), *data.files(), *given])
    if wanted.settings.where:
        like_amct(module, session)
    request = wanted.request(profile_of(session))
    return Network.of(model, module, request, split(data, request.settings, module, session), running, session)
