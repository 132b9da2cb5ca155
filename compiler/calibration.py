"""AMCT's `calibration`: a model and its data in, AMCT's set of files for the model's framework out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from . import frontends
from .configuration.settings import IFMR
from .diagnostics import CompileError, verify
from .files import refuse_overwriting
from .functions import main_function
from .pipelines import run_passes
from .ptq import fusion
from .runtime.data import Samples, input_types
from .saving import Files, files_of, framework_of
from .session import Session
from .summary import Layers, describe_layers, source_files
from .transforms.quantization.backend_options import AUTOMATIC, BackendOptions
from .transforms.quantization.quantize import QuantizePass
from .transforms.simplification import SIMPLIFY

BATCH_NUM = 1
"""How many runs calibrate where neither an option nor the configuration says it."""


@dataclass(frozen=True)
class Calibrated:
    """What was made of a model: the files, and what became of its layers."""

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
    module = _read(model, shapes or {}, session)
    verify(module)
    sources = {*frontends.files_of(model, session.imports), *source_files(module)}
    given = reads if config is None else reads | {Path(config)}
    refuse_overwriting(files.paths(), sources | given)
    runs = _quantize(module, data, session, config, batch_num, running, files)
    layers = describe_layers(module, session.remarks)
    return Calibrated(files.write(module, session), layers, runs)


def _read(model: Path, shapes: Shapes, session: Session) -> ModuleOp:
    """A model as it is; for batches of any size where it needs shapes, or is a net of Caffe with another batch."""
    try:
        module = frontends.read(model, session)
        if framework_of(model) != "caffe" or not _other_batch(module, shapes):
            return module
    except CompileError:
        if not shapes:
            raise
    session.remarks.clear()
    free = {name: (-1, *shape[1:]) for name, shape in shapes.items()}
    session.imports = replace(session.imports, shapes=free)
    return frontends.read(model, session)


def _other_batch(module: ModuleOp, shapes: Shapes) -> bool:
    """Whether data differs from the inputs in the size of its batch, and in nothing else."""
    declared = {name: tuple(t.get_shape()) for name, t in input_types(main_function(module)).items()}
    given = {name: shape for name, shape in shapes.items() if declared.get(name) != shape}
    return bool(given) and all(declared.get(name, ())[1:] == shape[1:] for name, shape in given.items())


def _quantize(
    module: ModuleOp,
    data: Data,
    session: Session,
    config: str | None,
    batch_num: int | None,
    running: BackendOptions,
    files: Files,
) -> int:
    """Quantize a module in place, once it is known that `files` can hold it; how many runs calibrated."""
    asked = QuantizePass(config=config, observer=None if config is not None else IFMR)
    runs = batch_num or asked.settings().batch_num or BATCH_NUM
    samples = data(module, runs)
    quantize = QuantizePass(
        samples,
        config=config,
        observer=asked.observer,
        batch_num=runs,
        backend=running.backend,
        threads=running.threads,
    )
    run_passes(module, SIMPLIFY, session)
    run_passes(module, [fusion(quantize, module, session)], session)
    files.check(module, session)
    run_passes(module, [quantize], session)
    return runs
