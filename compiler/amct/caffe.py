"""AMCT's functions for Caffe: `from amct_opt.amct import caffe as amct` in place of `import amct_caffe as amct`.

The module also replaces pycaffe (`from amct_opt.amct import caffe`): `Net` runs nets without Caffe, and passes its inputs to
calibration.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ..api import Loaded, PathLike, load
from ..data import input_types
from ..flows.auto_calibration import FEW_LEVELS
from ..flows.calibration import BATCH_NUM, Shapes, other_batch, read_for
from ..formats.caffe.file import Blob as FileBlob, read_weights
from ..ir.functions import main_function
from ..runtime.executor import Array, Executable
from ..session import ImportOptions
from ..support.diagnostics import CompileError
from ..support.files import made, refuse_overwriting, replacing_all
from ..targets.caffe import CaffeTarget
from ..transforms.quantization.options import SettingsOptions
from ..transforms.quantization.request import settings_of
from . import shared as steps
from .evaluators import RawEvaluator
from .shared import AutoCalibrationEvaluatorBase, AutoNuqEvaluatorBase, Inputs, set_logging_level

__all__ = [
    "TEST",
    "AutoCalibrationEvaluatorBase",
    "AutoNuqEvaluatorBase",
    "Blob",
    "Graph",
    "ModelEvaluator",
    "Net",
    "accuracy_based_auto_calibration",
    "auto_nuq",
    "convert_model",
    "create_quant_config",
    "init",
    "quantize_model",
    "save_model",
    "set_cpu_mode",
    "set_device",
    "set_gpu_mode",
    "set_logging_level",
    "set_mode_cpu",
    "set_mode_gpu",
]

TEST = 1
"""The phase of inference, the only one that nets run in."""


@steps.as_in_amct
def create_quant_config(
    config_file: PathLike,
    model_file: PathLike,
    weights_file: PathLike,
    skip_layers: list[str] | None = None,
    batch_num: int = 1,
    activation_offset: bool = True,
    config_defination: PathLike | None = None,
) -> None:
    """Write the configuration of a net, AMCT's JSON, to `config_file`, which must end in `.json`.

    If `config_defination`, a simplified configuration, is given, the three settings before it are ignored with a warning.
    Raises CompileError, located, for a net that cannot be read, bad settings, and layers that the net does not have.
    """
    loaded = load(model_file, steps.session_for(weights_file))
    steps.create_config(loaded, config_file, skip_layers, batch_num, activation_offset, config_defination, "caffe")


@dataclass(frozen=True)
class Graph:
    """A net to be quantized, and its files. `init` returns it; `quantize_model` and `save_model` take it."""

    config: Path
    model: Path
    weights: Path
    record: Path


@steps.as_in_amct
def init(config_file: PathLike, model_file: PathLike, weights_file: PathLike, record_file: PathLike) -> Graph:
    """Return a net to quantize. Removes the record of an earlier calibration.

    Raises CompileError, located, for a net that cannot be read, and for a configuration that does not fit it.
    """
    graph = Graph(Path(config_file), Path(model_file), Path(weights_file), Path(record_file))
    _calibration(graph, {})
    return graph


def _calibration(graph: Graph, shapes: Shapes) -> steps.Calibration:
    session = steps.session_for(graph.weights)
    loaded = Loaded(read_for(graph.model, shapes, session), session)
    return steps.Calibration(loaded, "caffe", graph.config, graph.record, graph.model)


@steps.as_in_amct
def quantize_model(graph: Graph, modified_model_file: PathLike, modified_weights_file: PathLike) -> None:
    """Begin a calibration: copy the net to the two files, and calibrate when a `Net` runs them.

    The first `batch_num` runs (of the configuration) calibrate; after the last one the record is written. Raises CompileError
    for files that cannot be written.
    """
    _copy(graph.model, graph.weights, Path(modified_model_file), Path(modified_weights_file))
    calibration: list[steps.Calibration] = []

    def see(inputs: Inputs) -> None:
        if not calibration:  # the first run gives the batch size
            calibration.append(_calibration(graph, {name: array.shape for name, array in inputs.items()}))
        calibration[0].see(inputs)

    steps.watch(modified_model_file, see)


def _copy(model: Path, weights: Path, to_model: Path, to_weights: Path) -> None:
    refuse_overwriting([to_model, to_weights], [model, weights])
    with made(to_model.parent), made(to_weights.parent), replacing_all(to_model, to_weights) as streams:
        for source, stream in zip((model, weights), streams, strict=True):
            with source.open("rb") as given:
                shutil.copyfileobj(given, stream)


@steps.as_in_amct
def save_model(graph: Graph, save_type: str, save_path: PathLike) -> tuple[Path, ...]:
    """Quantize the net with the factors of the record, and write AMCT's files: `save_path` is a folder and their prefix.

    `save_type` must be `Both`. Returns the files. Raises CompileError, located, if calibration is not complete, and for
    a record that does not fit.
    """
    if save_type != "Both":
        raise CompileError(f"save_type must be 'Both', not '{save_type}': all files are written")
    return steps.save(graph.model, graph.record, save_path, steps.session_for(graph.weights))


@steps.as_in_amct
def convert_model(
    model_file: PathLike, weights_file: PathLike, record_file: PathLike, save_path: PathLike
) -> tuple[Path, ...]:
    """Quantize a net with the factors of a record, without calibration, and write AMCT's files. Returns the files.

    Layers that the record does not list stay float. Raises CompileError, located, for a record that does not fit.
    """
    return steps.convert(model_file, record_file, save_path, steps.session_for(weights_file))


@steps.as_in_amct
def accuracy_based_auto_calibration(
    model_file: PathLike,
    weights_file: PathLike,
    evaluator: Any,
    config_file: PathLike,
    record_file: PathLike,
    save_dir: PathLike,
) -> tuple[Path, ...]:
    """Quantize a net with the fewest layers in float that the evaluator accepts, and write AMCT's files. Returns them.

    `evaluator` has `calibration(model_file, weights_file)`, `evaluate(model_file, weights_file) -> metric` and
    `metric_eval(original, metric) -> (ok, loss)`; what the first two are given must be run in a `Net`. `save_dir` is a folder and
    the prefix of the files. Raises CompileError, located, if the evaluator raises an error or accepts no quantization.
    """
    session = steps.session_for(weights_file)
    frame = _Frame(Path(model_file), Path(weights_file))
    return steps.auto_calibrate(model_file, evaluator, frame, config_file, record_file, save_dir, session)


@steps.as_in_amct
def auto_nuq(
    model_file: PathLike,
    weights_file: PathLike,
    nuq_evaluator: Any,
    config_file: PathLike,
    scale_offset_record_file: PathLike,
    save_dir: PathLike,
) -> tuple[Path, ...]:
    """Quantize a net with few levels in as many of the heaviest weights as the evaluator accepts, and write AMCT's files.

    `nuq_evaluator` has `eval_model(model_file, weights_file, batch_num) -> metric`, which must run a `Net`, and
    `is_satisfied(original, metric) -> bool`; or the methods of `accuracy_based_auto_calibration`'s. The candidates are the layers
    with `nuq_quantize` in the configuration, else all that may have few levels. `save_dir` is a folder and the prefix of
    the files. Returns them. Raises CompileError, located, if the evaluator raises an error or does not accept the uniformly
    quantized net.
    """
    evaluator = nuq_evaluator
    if not hasattr(evaluator, "metric_eval"):
        runs = settings_of(SettingsOptions(config=os.fspath(config_file))).batch_num or BATCH_NUM
        evaluator = steps.NuqEvaluator(evaluator, runs)
    session = steps.session_for(weights_file)
    frame = _Frame(Path(model_file), Path(weights_file))
    record = scale_offset_record_file
    return steps.auto_calibrate(model_file, evaluator, frame, config_file, record, save_dir, session, FEW_LEVELS)


class _Frame:
    def __init__(self, model: Path, weights: Path):
        self._model = model
        self._weights = weights

    def watched(self, folder: Path, see: Callable[[Inputs], object]) -> tuple[str, str]:
        model, weights = folder / "modified.prototxt", folder / "modified.caffemodel"
        _copy(self._model, self._weights, model, weights)
        steps.watch(model, see)
        return str(model), str(weights)

    def original(self) -> tuple[str, str]:
        return str(self._model), str(self._weights)

    def quantized(self, module: ModuleOp, folder: Path) -> tuple[str, str]:
        target = CaffeTarget(form="fake-quant")
        model, weights = target.write(module, folder / "P.prototxt", steps.session_for())
        return str(model), str(weights)


def set_cpu_mode() -> None:
    """Does nothing: everything is computed on the CPU."""


def set_gpu_mode() -> None:
    """Warns that everything is computed on the CPU."""
    steps.session_for().warn("set_gpu_mode is ignored: everything is computed on the CPU")


def set_mode_cpu() -> None:
    """`set_cpu_mode`, as pycaffe calls it."""
    set_cpu_mode()


def set_mode_gpu() -> None:
    """`set_gpu_mode`, as pycaffe calls it."""
    set_gpu_mode()


def set_device(device: int) -> None:
    """Warns that everything is computed on the CPU."""
    steps.session_for().warn(f"set_device({device}) is ignored: everything is computed on the CPU")


class ModelEvaluator(RawEvaluator):
    """Runs a net on raw binaries. The arguments are options of `amct calibration`. It gets the two files of a net."""

    def run(self, model: Sequence[Any], batches: Iterator[dict[str, Array]]) -> None:
        net = Net(*model)
        for batch in batches:
            net.forward(**batch)


def frame_for(model: Path, imports: ImportOptions) -> steps.Frame:
    """The frame in which an evaluator of a command gets a model: the paths of its two files."""
    return _Frame(model, imports.weights or model.with_suffix(".caffemodel"))


class Blob:
    """An input or output of a net, or a parameter: `data` is a float32 array, writable unless it is a parameter's."""

    def __init__(self, shape: tuple[int, ...]):
        self.data: Array = np.zeros(shape, np.float32)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the array."""
        return self.data.shape

    def reshape(self, *shape: int) -> None:
        """Replace the data by zeros of this shape."""
        self.data = np.zeros(shape, np.float32)


def _parameter(blob: FileBlob) -> Blob:
    parameter = Blob(())
    parameter.data = np.asarray(blob.numbers, np.float32).reshape(blob.dims)
    parameter.data.flags.writeable = False
    return parameter


class Net:
    """A Caffe net in our interpreter, used like pycaffe's `Net`. It calibrates if its model was written by `quantize_model`.

    `blobs` contains only its inputs and outputs, `params` the parameters of each layer, which cannot be changed. A run takes any
    number of samples.
    """

    def __init__(self, model_file: PathLike, weights_file: PathLike, phase: int = TEST):
        """Raises CompileError, located, for a net that cannot be read, and for a phase other than TEST."""
        if phase != TEST:
            raise CompileError(f"phase must be {TEST} (TEST), not {phase}", where=str(model_file))
        self._model = Path(model_file)
        self._session = steps.session_for(weights_file)
        self._see = steps.watcher(model_file)
        self._module = load(model_file, self._session).module
        self._executable = Executable(self._module)
        self._any_batch = False
        self.inputs: list[str] = list(self._executable.inputs)
        self.outputs: list[str] = list(self._executable.outputs)
        types = input_types(main_function(self._module))
        self.blobs: dict[str, Blob] = {name: Blob(tuple(t.get_shape())) for name, t in types.items()}
        self.blobs.update({name: Blob(()) for name in self.outputs})
        self.params: dict[str, list[Blob]] = {
            n: list(map(_parameter, b)) for n, b in read_weights(Path(weights_file)).items() if b
        }

    def reshape(self) -> None:
        """Does nothing: a run takes the shapes of its inputs."""

    def forward(self, **inputs: Any) -> dict[str, Array]:
        """Run the net on these arrays, and on `blobs` for inputs that are not given. Returns the outputs by name.

        Raises CompileError for arrays that do not fit.
        """
        for name, array in inputs.items():
            if name not in self.inputs:
                raise CompileError(
                    f"'{name}' is not an input: they are {', '.join(self.inputs)}", where=str(self._model)
                )
            self.blobs[name].data = np.asarray(array, np.float32)
        given = {name: self.blobs[name].data for name in self.inputs}
        outputs = self._fitting({name: array.shape for name, array in given.items()}).run(given)
        if self._see is not None:
            self._see(given)
        for name, array in outputs.items():
            self.blobs[name].data = array
        return outputs

    def _fitting(self, shapes: Shapes) -> Executable:
        """The net as declared; for any batch size once a run has a different one."""
        if not self._any_batch and other_batch(self._module, shapes):
            self._module = read_for(self._model, shapes, self._session)
            self._executable = Executable(self._module)
            self._any_batch = True
        return self._executable


def __getattr__(name: str) -> Any:
    raise steps.missing(__name__, name)
