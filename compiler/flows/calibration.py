"""AMCT's `calibration`: a model and its data in, AMCT's set of files for the model's framework out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from .. import frontends
from ..configuration.files import read_settings
from ..configuration.layer_settings import settings_for
from ..configuration.settings import IFMR
from ..diagnostics import CompileError
from ..files import refuse_overwriting
from ..ir.functions import main_function
from ..ir.verification import verify
from ..pipelines.passes import run_passes
from ..runtime.data import Samples, input_types
from ..session import Session
from ..transforms.quantization.backend_options import AUTOMATIC, BackendOptions
from ..transforms.quantization.layers import checked, quantizable_layers
from ..transforms.quantization.profiles import profile_of
from ..transforms.quantization.quantize import QuantizePass
from ..transforms.quantization.skipped import SKIPPED
from ..transforms.simplification import SIMPLIFY
from .quantization import fuse
from .saving import Files, files_of, framework_of
from .summary import Layers, describe_layers, source_files

BATCH_NUM = 1
"""How many runs calibrate where neither an option nor the configuration says it."""


@dataclass(frozen=True)
class Calibrated:
    """The result for a model: the files, and what became of its layers."""

    files: tuple[Path, ...]
    layers: Layers
    runs: int
    """How many calibrated."""


Shapes = Mapping[str, tuple[int, ...]]
Data = Callable[[ModuleOp, int], Samples]
"""The samples for a module and a number of runs."""


def calibrate_file(
    model: Path,
    save_path: str,
    data: Data,
    session: Session,
    config: str | None = None,
    batch_num: int | None = None,
    reads: frozenset[Path] = frozenset(),
    shapes: Shapes | None = None,
    running: BackendOptions = AUTOMATIC,
) -> Calibrated:
    """Import, fuse, calibrate and quantize `model`, by AMCT's defaults where `config` says nothing else.

    `save_path` is a folder, made when missing, and the prefix of the files' names; without a prefix they begin with no
    underscore. All or none are written, over those of an earlier run, but over nothing that was read, `reads` among it.
    `shapes` are those of the data: a model takes them where its framework lets a run choose them. `running` is how it is run.
    Raises CompileError, located, for anything that cannot be done.
    """
    files = files_of(model, save_path)
    module = read_for(model, shapes or {}, session)
    verify(module)
    sources = {*frontends.files_of(model, session.imports), *source_files(module)}
    given = reads if config is None else reads | {Path(config)}
    refuse_overwriting(files.paths(), sources | given)
    runs = quantize_runs(module, data, session, config, batch_num, running, files, model)
    written = files.write(module, session)
    return Calibrated(written, describe_layers(module, session.remarks), runs)


def read_for(model: Path, shapes: Shapes, session: Session) -> ModuleOp:
    """A model as it is; for batches of any size where it needs shapes, or is a net of Caffe with another batch."""
    try:
        module = frontends.read(model, session)
        if framework_of(model) != "caffe" or not other_batch(module, shapes):
            return module
    except CompileError:
        if not shapes:
            raise
    session.remarks.clear()
    free = {name: (-1, *shape[1:]) for name, shape in shapes.items()}
    session.imports = replace(session.imports, shapes=free)
    return frontends.read(model, session)


def other_batch(module: ModuleOp, shapes: Shapes) -> bool:
    """Whether data differs from the inputs in the size of its batch, and in nothing else."""
    declared = {name: tuple(t.get_shape()) for name, t in input_types(main_function(module)).items()}
    given = {name: shape for name, shape in shapes.items() if declared.get(name) != shape}
    return bool(given) and all(declared.get(name, ())[1:] == shape[1:] for name, shape in given.items())


def quantize_runs(
    module: ModuleOp,
    data: Data,
    session: Session,
    config: str | None,
    batch_num: int | None,
    running: BackendOptions,
    files: Files,
    model: Path,
) -> int:
    """Quantize a module in place, once it is known that `files` can hold it; how many runs calibrated."""
    asked = QuantizePass(
        config=None if config is None else read_settings(Path(config)), observer=None if config is not None else IFMR
    )
    runs = batch_num or asked.settings().batch_num or BATCH_NUM
    samples = data(module, runs)
    quantize = QuantizePass(
        samples,
        config=asked.config,
        observer=asked.observer,
        batch_num=runs,
        backend=running.backend,
        threads=running.threads,
    )
    run_passes(module, SIMPLIFY, session)
    fuse(quantize, module, session)
    check_wanted(quantize, module, session, files, model)
    run_passes(module, [quantize], session)
    return runs


def check_wanted(quantize: QuantizePass, module: ModuleOp, session: Session, files: Files, model: Path) -> None:
    """Raise CompileError, located, if nothing in a fused module would be quantized or the files could not hold the result.

    Asked before data runs through the module.
    """
    files.check(module, session)
    profile = profile_of(session)
    settings = checked(quantize.settings(), module, profile)
    layers = quantizable_layers(module, profile, settings)
    wanted = {layer.name: settings_for(settings, layer) for layer in layers}
    bits = {name: held.bits for name, held in wanted.items() if held.quantize and not held.weight_compress_only}
    bits.update((f"{t.layer_name}:{t.input_index}", t.activation.bits) for t in settings.tensor_quantize)
    for name, each in bits.items():
        files.check_bits(name, each, settings.where)
    if settings.tensor_quantize or any(held.quantize for held in wanted.values()):
        return
    if not wanted:
        raise CompileError("contains no layer that can be quantized", where=str(model), hint="amct support says why")
    name, skipped = next((name, held.skipped) for name, held in wanted.items() if held.skipped is not None)
    raise CompileError(f"leaves every layer in float, '{name}' because {SKIPPED[skipped]}", where=settings.where)
