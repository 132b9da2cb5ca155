"""AMCT's functions for PyTorch: `from amct_opt.amct import pytorch as amct` in place of `import amct_pytorch as amct`.

`tracing` (a module as a model of ONNX), `balancing` (DMQ), `kv_cache` and `evaluators` have the parts. Quantization-aware
training, its layers (`nn`) and `tensor_decompose` are in the package `amct_training`, which the extra `training` installs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import GraphProto, ModelProto, numpy_helper
from xdsl.dialects.builtin import ModuleOp

from ...api import PathLike
from ...configuration.files import read_settings
from ...configuration.record import read_record
from ...configuration.settings import Settings
from ...frontends.onnx import source
from ...session.universe import new_session
from ...support.diagnostics import CompileError
from ...support.files import replacing, scratch
from ...support.registry import load, part
from ...transforms.quantization.convert.layer_weights import Integers
from .. import shared as steps
from ..shared import AutoCalibrationEvaluatorBase, Inputs, set_logging_level
from .balancing import Preprocessing, balanced, balances
from .evaluators import ModelEvaluator
from .kv_cache import create_quant_cali_config, create_quant_cali_model
from .tracing import Axes, Traced, computing, copied, names_of, trace, trace_open, watched, write

if TYPE_CHECKING:
    from amct_training import nn as nn, tensor_decompose as tensor_decompose
    from amct_training.retrain import (
        create_quant_retrain_config as create_quant_retrain_config,
        create_quant_retrain_model as create_quant_retrain_model,
        restore_quant_retrain_model as restore_quant_retrain_model,
        save_quant_retrain_model as save_quant_retrain_model,
    )
    from amct_training.tensor_decompose import (
        auto_decomposition as auto_decomposition,
        decompose_network as decompose_network,
    )

__all__ = [
    "AutoCalibrationEvaluatorBase",
    "ModelEvaluator",
    "accuracy_based_auto_calibration",
    "auto_decomposition",
    "create_quant_cali_config",
    "create_quant_cali_model",
    "create_quant_config",
    "create_quant_retrain_config",
    "create_quant_retrain_model",
    "decompose_network",
    "quantize_model",
    "quantize_preprocess",
    "restore_quant_retrain_model",
    "save_model",
    "save_quant_retrain_model",
    "set_logging_level",
    "tensor_decompose",
]

_TRAINING = {
    "auto_decomposition": "tensor_decompose:auto_decomposition",
    "create_quant_retrain_config": "retrain:create_quant_retrain_config",
    "create_quant_retrain_model": "retrain:create_quant_retrain_model",
    "decompose_network": "tensor_decompose:decompose_network",
    "restore_quant_retrain_model": "retrain:restore_quant_retrain_model",
    "save_quant_retrain_model": "retrain:save_quant_retrain_model",
}
"""The functions of the package `amct_training`."""
_FRAMEWORK = "pytorch"
"""The framework whose files are written."""
_DO_FUSION, _SKIPPED = "amct_opt.do_fusion", "amct_opt.skip_fusion_layers"
"""Properties of a modified model: the fusion settings of its configuration, which AMCT's records do not contain."""
_INTEGERS = "amct_opt.integers/"
"""Prefix of the names of arrays that contain the integers of a layer's weight."""


@steps.as_in_amct
def create_quant_config(
    config_file: PathLike,
    model: Any,
    input_data: Any,
    skip_layers: Sequence[str] | None = None,
    batch_num: int = 1,
    activation_offset: bool = True,
    config_defination: PathLike | None = None,
) -> None:
    """Write the configuration of an `nn.Module`, AMCT's JSON, to `config_file`, which must end in `.json`.

    `input_data` is a tensor or a tuple of arguments, on which the module is traced. If `config_defination`, a simplified
    configuration, is given, the three settings before it are ignored with a warning. Raises CompileError, located, for a module
    that cannot be exported, bad settings, and layers that the module does not have.
    """
    loaded = trace(model, input_data).load()
    steps.create_config(loaded, config_file, skip_layers, batch_num, activation_offset, config_defination, _FRAMEWORK)


@steps.as_in_amct
def quantize_preprocess(config_file: PathLike, record_file: PathLike, model: Any, input_data: Any) -> Any:
    """Return a copy of an `nn.Module` whose runs find the factors of `dmq_balancer`, and write them to the record.

    A later run replaces the factors of an earlier one. Raises CompileError, located, for a configuration that balances no
    layer, or does not fit the module.
    """
    if not balances(read_settings(Path(config_file))):
        hint = "quantize_model needs no quantize_preprocess then"
        raise CompileError("no layer has dmq_balancer_param", where=str(config_file), hint=hint)
    traced = trace_open(model, input_data, trace(model, input_data), None)
    loaded = traced.load()
    preprocessing = Preprocessing(loaded, Path(config_file), Path(record_file))
    return watched(model, traced, names_of(loaded), preprocessing.see)


@steps.as_in_amct
def quantize_model(
    config_file: PathLike,
    modfied_onnx_file: PathLike,
    record_file: PathLike,
    model: Any,
    input_data: Any,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: Axes | None = None,
) -> Any:
    """Begin a calibration: return a copy of an `nn.Module` whose first `batch_num` runs (of the configuration) calibrate.

    After the last of these runs the record is written. The float model is written to `modfied_onnx_file` (AMCT's spelling), with
    the shapes of `input_data` unless `dynamic_axes` leaves them open; names and axes are those of `torch.onnx.export`. The
    record of an earlier calibration is removed, unless the configuration has `dmq_balancer`: then its factors are used. Raises
    CompileError, located, for a configuration that does not fit the module.
    """
    config, record, modified = Path(config_file), Path(record_file), Path(modfied_onnx_file)
    if modified.suffix.lower() != ".onnx":
        raise CompileError("modfied_onnx_file must end in .onnx", where=str(modified))
    settings = read_settings(config)
    factors = record.read_bytes() if balances(settings) and record.exists() else b""
    if balances(settings) and not factors:
        hint = "run the module that quantize_preprocess returns first"
        raise CompileError("has no factors for dmq_balancer", where=str(record), hint=hint)
    fixed = trace(model, input_data, input_names, output_names, dynamic_axes)
    traced = trace_open(model, input_data, fixed, dynamic_axes)
    loaded = traced.load()
    names = names_of(loaded)
    if factors:
        loaded = balanced(loaded, config, read_record(record))
    keep = partial(_keep, modified)
    calibration = steps.Calibration(loaded, _FRAMEWORK, config, record, fixed.name, keep)
    if factors:
        with replacing(record) as stream:
            stream.write(factors)
    _write(fixed, modified, settings)
    return watched(model, traced, names, calibration.see)


def _write(fixed: Traced, modified: Path, settings: Settings) -> None:
    """Write a modified model, which `_settings` reads again."""
    skipped = json.dumps(settings.skip_fusion_layers)
    write(fixed, modified, {_DO_FUSION: json.dumps(settings.do_fusion), _SKIPPED: skipped})


@steps.as_in_amct
def save_model(modfied_onnx_file: PathLike, record_file: PathLike, save_path: PathLike) -> tuple[Path, ...]:
    """Quantize the model with the factors of the record, and write AMCT's files: `save_path` is a folder and their prefix.

    Returns the files. Raises CompileError, located, if calibration is not complete, and for a record that does not fit.
    """
    modified = Path(modfied_onnx_file)
    settings, integers = _settings(modified), _kept(modified)
    return steps.save(modified, record_file, save_path, new_session(), _FRAMEWORK, settings, integers)


def _keep(modified: Path, integers: Mapping[str, Integers]) -> None:
    """Store the integers of weights in a modified model, as arrays that no node reads."""
    arrays = [numpy_helper.from_array(array, _INTEGERS + layer) for layer, array in integers.items()]
    with modified.open("ab") as stream:  # fields of messages may be written one after the other
        stream.write(ModelProto(graph=GraphProto(initializer=arrays)).SerializeToString())


def _kept(modified: Path) -> dict[str, Integers]:
    """The integers of weights that a modified model stores: int8."""
    found = source.load(modified)
    kept = [each for each in found.model.graph.initializer if each.name.startswith(_INTEGERS)]
    raw = [found.weights.get(each.name, each.raw_data) for each in kept]
    return {
        each.name.removeprefix(_INTEGERS): np.frombuffer(data, np.int8).reshape(tuple(each.dims))
        for each, data in zip(kept, raw, strict=True)
    }


def _settings(modified: Path) -> Settings:
    """The fusion settings in the configuration of a modified model."""
    properties = {p.key: p.value for p in source.load(modified).model.metadata_props}
    skipped = json.loads(properties.get(_SKIPPED, "[]"))
    return Settings(do_fusion=properties.get(_DO_FUSION) != "false", skip_fusion_layers=tuple(skipped))


@steps.as_in_amct
def accuracy_based_auto_calibration(
    model: Any,
    model_evaluator: Any,
    config_file: PathLike,
    record_file: PathLike,
    save_dir: PathLike,
    input_data: Any,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: Axes | None = None,
    strategy: str = "BinarySearch",
    sensitivity: str = "CosineSimilarity",
) -> tuple[Path, ...]:
    """Quantize an `nn.Module` with the fewest layers in float that the evaluator accepts, and write AMCT's files. Returns them.

    `model_evaluator` has `calibration(model)`, `evaluate(model) -> metric` and `metric_eval(original, metric) -> (ok, loss)`;
    each gets a copy of the module, which computes in float or as the quantized model does. `save_dir` is a folder and the prefix
    of the files. Raises CompileError, located, if the evaluator raises an error or accepts no quantization.
    """
    if (strategy, sensitivity) != ("BinarySearch", "CosineSimilarity"):
        raise CompileError("strategy must be BinarySearch, and sensitivity CosineSimilarity")
    settings = read_settings(Path(config_file))
    fixed = trace(model, input_data, input_names, output_names, dynamic_axes)
    traced = trace_open(model, input_data, fixed, dynamic_axes)
    if traced is not fixed and (rounded := steps.rounded_layers(settings)):
        reason = f"layer '{rounded[0]}': a search with ada_quantize writes files with any batch size"
        hint = "leave the first axis of each input open by dynamic_axes"
        raise CompileError(reason, where=str(config_file), hint=hint)
    with scratch() as folder:
        opened, modified = folder / "open.onnx", folder / "modified.onnx"
        frame = _Frame(model, traced, names_of(traced.load()))
        if traced is not fixed:
            _write(fixed, modified, settings)
        _write(traced, opened, settings)
        files = steps.auto_calibrate(
            opened, model_evaluator, frame, config_file, record_file, save_dir, new_session(), framework=_FRAMEWORK
        )
        if traced is not fixed:  # the files have the shapes of input_data
            steps.save(modified, record_file, save_dir, new_session(), _FRAMEWORK, _settings(modified))
    return files


class _Frame:
    def __init__(self, model: Any, traced: Traced, names: Sequence[str]):
        self._model = model
        self._traced = traced
        self._names = names

    def watched(self, folder: Path, see: Callable[[Inputs], object]) -> tuple[Any]:
        return (watched(self._model, self._traced, self._names, see),)

    def original(self) -> tuple[Any]:
        return (copied(self._model),)

    def quantized(self, module: ModuleOp, folder: Path) -> tuple[Any]:
        return (computing(self._model, self._traced, module),)


def __getattr__(name: str) -> Any:
    if name in _TRAINING:
        return load(f"amct_training.{_TRAINING[name]}")
    if name in ("nn", "tensor_decompose"):
        return part(f"amct_training.{name}")
    raise steps.missing(__name__, name)
