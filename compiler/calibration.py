"""AMCT's `calibration`: a model and its data in, AMCT's set of files for the model's framework out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from xdsl.dialects.builtin import ModuleOp

from . import frontends
from .configuration.settings import IFMR
from .diagnostics import CompileError, verify
from .files import filling, refuse_overwriting
from .functions import main_function
from .pipelines import run_passes
from .ptq import fusion
from .runtime.data import Samples, input_types
from .session import Session
from .summary import Layers, describe_layers, source_files
from .targets import Target
from .transforms.canonicalization import CanonicalizePass
from .transforms.quantization.quantize import QuantizePass
from .universe import SAVED_MODEL, target_named

BATCH_NUM = 1
"""How many runs calibrate where neither an option nor the configuration says it."""


class Output(NamedTuple):
    """A file of the result: the ending of its name behind the prefix, and what writes it."""

    ending: str
    target: str
    options: Mapping[str, Any]


_EVERY = (Output("_quant.json", "fusion-info", {}),)
OUTPUTS: Mapping[str, tuple[Output, ...]] = {
    "onnx": (
        Output("_fake_quant_model.onnx", "onnx", {}),
        Output("_deploy_model.onnx", "onnx-ascend", {}),
        Output("_record.txt", "record", {"flavour": "onnx"}),
        *_EVERY,
    ),
    "tensorflow": (
        Output("_quantized.pb", "tf-fakequant", {}),
        Output("_record.txt", "record", {"flavour": "tensorflow"}),
        *_EVERY,
    ),
    "caffe": (
        Output(".prototxt", "caffe", {"form": "fake-quant"}),
        Output(".prototxt", "caffe", {"form": "deploy"}),
        Output("_record.txt", "record", {"flavour": "caffe"}),
        *_EVERY,
    ),
}
"""By framework. The caffe target appends to the names what AMCT does."""

_FRAMEWORKS = {
    ".onnx": "onnx",
    ".mlir": "onnx",
    ".prototxt": "caffe",
    ".caffemodel": "caffe",
}
"""By file ending; all others are TensorFlow's."""


@dataclass(frozen=True)
class Calibrated:
    """What was made of a model: the files, and what became of its layers."""

    files: tuple[Path, ...]
    layers: Layers
    samples: int


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
) -> Calibrated:
    """Import, fuse, calibrate and quantize `model`, by AMCT's defaults where `config` says nothing else.

    `save_path` is a folder, made when missing, and the prefix of the files' names; without a prefix they begin with no
    underscore. All or none are written, over those of an earlier run, but over nothing that was read, `reads` among it.
    `shapes` are those of the data: a model takes them where its framework lets a run choose them.
    Raises CompileError, located, for anything that cannot be done.
    """
    folder, slash, prefix = save_path.rpartition("/")
    path = Path(folder or (slash or "."))
    if path.exists() and not path.is_dir():
        raise CompileError("cannot be written: it is no folder", where=str(path))
    outputs = [
        (target_named(o.target)(**o.options), path / _name(prefix, o.ending)) for o in OUTPUTS[framework_of(model)]
    ]
    module = _read(model, shapes or {}, session)
    verify(module)
    written = [path / _final(f.name, prefix) for target, file in outputs for f in target.files(file)]
    sources = {*frontends.files_of(model, session.imports), *source_files(module)}
    given = reads if config is None else reads | {Path(config)}
    refuse_overwriting(written, sources | given)
    samples = _quantize(module, data, session, config, batch_num)
    layers = describe_layers(module, session.remarks)
    return Calibrated(_write(module, outputs, path, prefix, session), layers, samples)


def framework_of(model: Path) -> str:
    """Whose files are written for a model: onnx, tensorflow or caffe."""
    ending = SAVED_MODEL if model.is_dir() else model.suffix.lower()
    return _FRAMEWORKS.get(ending, "tensorflow")


def _read(model: Path, shapes: Shapes, session: Session) -> ModuleOp:
    """A model as it is; for batches of any size where it cannot be read without shapes, or is a net of Caffe with another batch."""
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


def _quantize(module: ModuleOp, data: Data, session: Session, config: str | None, batch_num: int | None) -> int:
    """Quantize a module in place; how many samples calibrated."""
    asked = QuantizePass(config=config, observer=None if config is not None else IFMR)
    runs = batch_num or asked.settings().batch_num or BATCH_NUM
    samples = data(module, runs)
    quantize = QuantizePass(samples, config=config, observer=asked.observer, batch_num=runs)
    run_passes(module, [CanonicalizePass()], session)
    run_passes(module, [fusion(quantize, module, session), quantize], session)
    return samples.count


def _name(prefix: str, ending: str) -> str:
    """The name of a file; the caffe target needs a bare ending as one."""
    return f"{prefix}{ending}" if prefix or ending.startswith(".") else ending.removeprefix("_")


def _final(name: str, prefix: str) -> str:
    return name if prefix else name.removeprefix("_")


def _write(
    module: ModuleOp, outputs: list[tuple[Target, Path]], folder: Path, prefix: str, session: Session
) -> tuple[Path, ...]:
    names: list[str] = []
    with filling(folder) as temporary:
        for target, file in outputs:
            for written in target.write(module, temporary / file.name, session):
                final = written.with_name(_final(written.name, prefix))
                written.replace(final)
                names.append(final.name)
    return tuple(folder / name for name in names)
