"""AMCT's functions for ONNX: `from amct_opt.amct import onnx as amct` in place of `import amct_onnx as amct`.

Scripts run the modified model in sessions of onnxruntime, which show their inputs to calibration from `quantize_model` on. The
names of onnxruntime are available from this module, too.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

from onnx import ModelProto, StringStringEntryProto
from xdsl.dialects.builtin import ModuleOp

from ..api import PathLike, load
from ..frontends.onnx import source
from ..session import ImportOptions
from ..support.diagnostics import CompileError
from ..support.files import made, refuse_overwriting, replacing_all
from ..targets.onnx import OnnxTarget
from . import shared as steps
from .evaluators import Array, RawEvaluator
from .shared import AutoCalibrationEvaluatorBase, Inputs, set_logging_level

__all__ = [
    "AutoCalibrationEvaluatorBase",
    "ModelEvaluator",
    "accuracy_based_auto_calibration",
    "convert_model",
    "convert_qat_model",
    "create_quant_config",
    "quantize_model",
    "save_model",
    "set_logging_level",
]


@steps.as_in_amct
def create_quant_config(
    config_file: PathLike,
    model_file: PathLike,
    skip_layers: Sequence[str] | None = None,
    batch_num: int = 1,
    activation_offset: bool = True,
    config_defination: PathLike | None = None,
) -> None:
    """Write the configuration of a model, AMCT's JSON, to `config_file`, which must end in `.json`.

    If `config_defination`, a simplified configuration, is given, the three settings before it are ignored with a warning.
    Raises CompileError, located, for a model that cannot be read, bad settings, and layers that the model does not have.
    """
    settings = skip_layers, batch_num, activation_offset, config_defination
    steps.create_config(load(model_file, steps.session_for()), config_file, *settings, "onnx")


@steps.as_in_amct
def quantize_model(
    config_file: PathLike, model_file: PathLike, modified_onnx_file: PathLike, record_file: PathLike
) -> None:
    """Begin a calibration: copy the model to `modified_onnx_file`, and calibrate when a session of onnxruntime runs it.

    The first `batch_num` runs (of the configuration) calibrate; after the last one the record is written. The record of an
    earlier calibration is removed first. Raises CompileError, located, for a configuration that does not fit the model.
    """
    model, modified = Path(model_file), Path(modified_onnx_file)
    if modified.suffix.lower() != ".onnx":
        raise CompileError("modified_onnx_file must end in .onnx", where=str(modified))
    calibration = steps.Calibration(load(model, steps.session_for()), "onnx", config_file, record_file, model)
    _watched_copy(model, modified, calibration.see)


def _watched_copy(model: Path, modified: Path, see: Callable[[Inputs], object]) -> None:
    """Copy a model and watch the copy, which has a mark of its own, so that a session of its bytes is recognized, too."""
    mark = uuid4().hex
    _watch_sessions()
    _copy(model, modified)
    with modified.open("ab") as stream:  # fields of messages may be written one after the other
        stream.write(ModelProto(metadata_props=[StringStringEntryProto(key=_MARK, value=mark)]).SerializeToString())
    steps.watch(modified, see)
    _MARKED[mark.encode()] = see


_MARK = "amct_opt.calibration"
_MARKED: dict[bytes, Callable[[Inputs], object]] = {}
"""The functions that watch the inputs of models under calibration, by the marks of their copies."""


def _watcher_of(model: Any) -> Callable[[Inputs], object] | None:
    """The watcher of a model's inputs, given its path or its bytes."""
    if not isinstance(model, bytes | bytearray):
        return steps.watcher(model)
    content = bytes(model)
    if _MARK.encode() not in content:
        return None
    return next((see for mark, see in _MARKED.items() if mark in content), None)


def _copy(model: Path, modified: Path) -> None:
    """Copy a model and the files of its large arrays, which keep their relative paths."""
    arrays = source.external_files(model)
    copies = {modified: model, **{modified.parent / location: file for location, file in arrays.items()}}
    refuse_overwriting(copies, copies.values())
    with ExitStack() as folders:
        for target in copies:
            folders.enter_context(made(target.parent))
        streams = folders.enter_context(replacing_all(*copies))
        for file, stream in zip(copies.values(), streams, strict=True):
            with file.open("rb") as given:
                shutil.copyfileobj(given, stream)


@cache
def _watch_sessions() -> None:
    """Makes sessions of onnxruntime show the inputs of their runs to the watcher of their model, if it has one.

    Scripts make sessions by names of their own, so the class itself is changed, once in a process.
    """
    sessions: Any = onnxruntime().InferenceSession
    begin, run = sessions.__init__, sessions.run

    @wraps(begin)
    def begin_watched(self: Any, path_or_bytes: Any, *arguments: Any, **options: Any) -> None:
        begin(self, path_or_bytes, *arguments, **options)
        self._amct_opt_sees = _watcher_of(path_or_bytes)

    @wraps(run)
    def run_watched(
        self: Any, output_names: Any, input_feed: Mapping[str, Any], *arguments: Any, **options: Any
    ) -> Any:
        outputs = run(self, output_names, input_feed, *arguments, **options)
        if (see := getattr(self, "_amct_opt_sees", None)) is not None:
            see(input_feed)
        return outputs

    sessions.__init__, sessions.run = begin_watched, run_watched


@steps.as_in_amct
def save_model(modified_onnx_file: PathLike, record_file: PathLike, save_path: PathLike) -> tuple[Path, ...]:
    """Quantize the model with the factors of the record, and write AMCT's files: `save_path` is a folder and their prefix.

    Returns the files. Raises CompileError, located, if calibration is not complete, and for a record that does not fit.
    """
    return steps.save(modified_onnx_file, record_file, save_path, steps.session_for())


@steps.as_in_amct
def convert_model(model_file: PathLike, record_file: PathLike, save_path: PathLike) -> tuple[Path, ...]:
    """Quantize a model with the factors of a record, without calibration, and write AMCT's files. Returns the files.

    Layers that the record does not list stay float. Raises CompileError, located, for a record that does not fit.
    """
    return steps.convert(model_file, record_file, save_path, steps.session_for())


@steps.as_in_amct
def convert_qat_model(
    model_file: PathLike, save_path: PathLike, record_file: PathLike | None = None
) -> tuple[Path, ...]:
    """Write AMCT's files for a model that was trained with QuantizeLinear and DequantizeLinear, and its record. Returns them.

    Raises CompileError, located, for a model without these.
    """
    return steps.convert_trained(model_file, save_path, record_file, steps.session_for())


@steps.as_in_amct
def accuracy_based_auto_calibration(
    model_file: PathLike,
    model_evaluator: Any,
    config_file: PathLike,
    record_file: PathLike,
    save_dir: PathLike,
    strategy: str = "BinarySearch",
    sensitivity: str = "CosineSimilarity",
) -> tuple[Path, ...]:
    """Quantize a model with the fewest layers in float that the evaluator accepts, and write AMCT's files. Returns them.

    `model_evaluator` has `calibration(model_file)`, `evaluate(model_file) -> metric` and
    `metric_eval(original, metric) -> (ok, loss)`. All get the paths of ONNX files; that of `calibration` must be run in a
    session of onnxruntime. `save_dir` is a folder and the prefix of the files. Raises CompileError, located, if
    the evaluator raises an error or accepts no quantization.
    """
    if (strategy, sensitivity) != ("BinarySearch", "CosineSimilarity"):
        raise CompileError("strategy must be BinarySearch, and sensitivity CosineSimilarity")
    frame = _Frame(Path(model_file))
    session = steps.session_for()
    return steps.auto_calibrate(model_file, model_evaluator, frame, config_file, record_file, save_dir, session)


class ModelEvaluator(RawEvaluator):
    """Runs a model on raw binaries. The arguments are options of `amct calibration`."""

    def run(self, model: Sequence[Any], batches: Iterator[dict[str, Array]]) -> None:
        (model_file,) = model
        session = onnxruntime().InferenceSession(model_file, providers=["CPUExecutionProvider"])
        for batch in batches:
            session.run(None, batch)


def frame_for(model: Path, _: ImportOptions) -> steps.Frame:
    """The frame in which an evaluator of a command gets a model: the path of a file."""
    return _Frame(model)


class _Frame:
    def __init__(self, model: Path):
        self._model = model

    def watched(self, folder: Path, see: Callable[[Inputs], object]) -> tuple[str]:
        modified = folder / "modified.onnx"
        _watched_copy(self._model, modified, see)
        return (str(modified),)

    def original(self) -> tuple[str]:
        return (str(self._model),)

    def quantized(self, module: ModuleOp, folder: Path) -> tuple[str]:
        path = folder / "fake_quant.onnx"
        OnnxTarget().write(module, path, steps.session_for())
        return (str(path),)


@cache
def onnxruntime() -> Any:
    """The library. Raises CompileError if it is not installed."""
    try:
        return import_module("onnxruntime")
    except ImportError:
        hint = "pip install 'amct-opt[onnxruntime]'"
        raise CompileError("running a model requires onnxruntime", hint=hint) from None


def __getattr__(name: str) -> Any:
    """`AMCT_SO`, session options that need no operator library here; other names come from onnxruntime."""
    if name == "AMCT_SO":
        return onnxruntime().SessionOptions()
    if name not in steps.LEFT_OUT and not name.startswith("__") and hasattr(library := onnxruntime(), name):
        return getattr(library, name)
    raise steps.missing(__name__, name)
