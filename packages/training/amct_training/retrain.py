"""Quantization-aware training with AMCT's functions: PyTorch trains the ranges of inputs (ULQ) and the weights (ARQ)."""

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ArrayAttr

from amct_opt.amct.shared import MODELS, as_in_amct
from amct_opt.api import PathLike
from amct_opt.flows.conversion import convert_module
from amct_opt.flows.saving import files_of
from amct_opt.frontends.torch import from_module
from amct_opt.frontends.torch.library import torch_library
from amct_opt.frontends.torch.nodes import module_path, operator_name
from amct_opt.frontends.torch.program import traced
from amct_opt.ir.functions import dimension_names, main_function, value_attributes
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError, first_line
from amct_opt.support.files import made, refuse_overwriting, replacing

from .retrain_config import Trainable, default_config, json_text, read_json, read_simplified

_LAYERS: Mapping[str, str] = {
    "Conv1d": "conv1d",
    "Conv2d": "conv2d",
    "Conv3d": "conv3d",
    "ConvTranspose1d": "conv_transpose1d",
    "ConvTranspose2d": "conv_transpose2d",
    "Linear": "linear",
}
"""The operators of the layers that are trained, by class."""
_FUSED = ("Conv1d", "Conv2d", "Conv3d")
"""Layers that take in a batch norm after them."""
_RECURRENT = ("LSTM", "GRU")
_PASSIVE = ("dropout", "dropout_", "feature_dropout", "alpha_dropout")
"""Operators that do nothing in evaluation mode."""


@as_in_amct
def create_quant_retrain_config(
    config_file: PathLike, model: Any, input_data: Any, config_defination: PathLike | None = None
) -> None:
    """Write the configuration of training, AMCT's JSON: all layers in INT8, or as the simplified configuration says.

    `input_data` is a tensor or a tuple of them, on which the model is traced. Raises CompileError, located, for a model that
    cannot be traced, and for a configuration that does not fit it.
    """
    session = new_session()
    layers = {name: facts.trainable for name, facts in _facts(model, input_data, session).items()}
    if not layers:
        raise CompileError("has no layer that can be trained", where=type(model).__name__)
    given = config_defination
    config = default_config(layers) if given is None else read_simplified(Path(given), layers, session)
    path = Path(config_file)
    with made(path.parent), replacing(path) as stream:
        stream.write(json_text(config).encode())


@as_in_amct
def create_quant_retrain_model(config_file: PathLike, model: Any, record_file: PathLike, input_data: Any) -> Any:
    """A copy of the model whose layers compute on fake-quantized inputs and weights, to be trained.

    The first `batch_num` batches give the ranges of inputs, unless the configuration does. In evaluation mode the model writes
    the record. The record of an earlier training is removed. Raises CompileError, located, for a configuration that does not
    fit the model.
    """
    from .retrained import QuantizedLayer, Recorder, RetrainQuant, nn

    session = new_session()
    facts = _facts(model, input_data, session)
    layers = {name: each.trainable for name, each in facts.items()}
    config = read_json(Path(config_file), layers)
    record = Path(record_file)
    record.unlink(missing_ok=True)
    changed = copy.deepcopy(model)
    recorder = Recorder(record, config, layers)
    sharing: dict[Any, QuantizedLayer] = {}
    for name in recorder.names:
        layer, fact, settings = changed.get_submodule(name), facts[name], config.layers[name]
        fixed = fact.behind_relu if settings.fixed_min is None else settings.fixed_min
        quantized = QuantizedLayer(layer, settings, fixed)
        if fact.trainable.type == "ConvTranspose1d" or (
            fact.trainable.type == "ConvTranspose2d" and settings.channel_wise and layer.groups > 1
        ):
            session.warn(f"layer '{name}': {layer} can be trained, but save_quant_retrain_model refuses it")
        first = sharing.setdefault((fact.source, settings), quantized)
        if first is not quantized:
            quantized.share(first)
        norm = changed.get_submodule(fact.norm) if fact.norm else None
        wrapped = RetrainQuant(name, quantized, recorder, norm, fact.norm)
        _put(changed, name, wrapped.train(layer.training))
        if fact.norm:
            _put(changed, fact.norm, nn.Identity())
    return changed


@as_in_amct
def restore_quant_retrain_model(
    config_file: PathLike,
    model: Any,
    record_file: PathLike,
    input_data: Any,
    pth_file: PathLike,
    state_dict_name: str | None = None,
    keep_ranges: bool = False,
) -> Any:
    """The model of `create_quant_retrain_model` with the state dict of a checkpoint, AMCT's or ours.

    `state_dict_name` is its key if the checkpoint has more. As in AMCT ranges are searched for in the first batches; with
    `keep_ranges` those of the checkpoint stay. Raises CompileError, located, for a checkpoint that does not fit, or holds more
    than tensors and plain values.
    """
    torch = torch_library(str(pth_file))
    from .retrained import retrained_layers

    changed = create_quant_retrain_model(config_file, model, record_file, input_data)
    where = os.fspath(pth_file)
    try:
        checkpoint = torch.load(where, map_location="cpu", weights_only=True)
    except Exception as e:  # torch raises what the file's parts raise
        raise CompileError(f"is not a checkpoint of PyTorch: {first_line(e)}", where=where) from None
    if state_dict_name is not None:
        if state_dict_name not in checkpoint:
            raise CompileError(f"has no key '{state_dict_name}'", where=where)
        checkpoint = checkpoint[state_dict_name]
    if checkpoint and all(key.startswith("module.") for key in checkpoint):  # saved from DistributedDataParallel
        checkpoint = {key.removeprefix("module."): value for key, value in checkpoint.items()}
    try:
        changed.load_state_dict(checkpoint)
    except (RuntimeError, AttributeError) as e:
        message = " ".join(str(e).split())
        raise CompileError(f"does not fit the model: {message[:200]}", where=where) from None
    for layer in () if keep_ranges else retrained_layers(changed).values():
        layer.quant_module.ranged.search_again()  # of layers with one input, the first one's
    return changed


@as_in_amct
def save_quant_retrain_model(
    config_file: PathLike,
    model: Any,
    record_file: PathLike,
    save_path: PathLike,
    input_data: Any,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: Mapping[str, Any] | None = None,
) -> tuple[Path, ...]:
    """Write the record of a trained model and AMCT's files: `save_path` is a folder and their prefix. Returns the files.

    Batch norms are folded in float32, as in AMCT. `dynamic_axes` are those of `torch.onnx.export`; only axes of inputs
    count. Raises CompileError, located, for a model that is not under training or has not seen data, and for another
    configuration than that of `create_quant_retrain_model`.
    """
    from .retrained import retrained_layers

    trained = retrained_layers(model)
    if not trained:
        hint = "it is the result of create_quant_retrain_model or restore_quant_retrain_model"
        raise CompileError("has no layer under training", where=type(model).__name__, hint=hint)
    changed = copy.deepcopy(model).eval()
    copies = retrained_layers(changed)
    recorder = next(iter(copies.values())).record_module
    if read_json(Path(config_file), recorder.layers) != recorder.config:
        raise CompileError("is not the configuration that the model was created with", where=os.fspath(config_file))
    recorder.record_file = Path(record_file)
    files = files_of(MODELS["onnx"], os.fspath(save_path))
    refuse_overwriting(files.paths(), [recorder.record_file, Path(config_file)])
    record = recorder.write({name: layer.factors() for name, layer in copies.items()})
    for name, layer in copies.items():
        _put(changed, name, _folded(layer, changed))
    session = new_session()
    module = from_module(changed, session, input_data, _shapes(changed, input_data, input_names, dynamic_axes))
    function = main_function(module)
    function.arg_attrs = _named(function.arg_attrs, input_names or (), "input_names")
    function.res_attrs = _named(function.res_attrs, output_names or (), "output_names")
    return convert_module(module, os.fspath(record), files, session).files


@dataclass(frozen=True)
class _Facts:
    """Facts about a layer of a traced model."""

    trainable: Trainable
    source: str
    """The value that is its input."""
    behind_relu: bool
    norm: str
    """The batch norm that alone reads its result; empty without one."""


def _facts(model: Any, input_data: Any, session: Session) -> Mapping[str, _Facts]:
    """The layers of a model that can be trained, in its order.

    Layers that are called several times, or share their weight, stay float as in AMCT; a warning lists recurrent ones, which
    AMCT trains.
    """
    torch = torch_library(type(model).__name__)
    plain = copy.deepcopy(model).eval()
    nodes = [*traced(torch, plain, input_data, None).graph.nodes]
    called = Counter(_path(node) for node in nodes if operator_name(node) in _LAYERS.values())
    at = {_path(node): node for node in nodes if operator_name(node) in _LAYERS.values()}
    weights = Counter(id(m.weight) for m in plain.modules() if type(m).__name__ in _LAYERS)
    found: dict[str, _Facts] = {}
    for name, layer in plain.named_modules():
        kind = type(layer).__name__
        if kind in _RECURRENT:
            session.warn(f"layer '{name}': {kind} is not trained and stays float")
        if called[name] != 1 or operator_name(at[name]) != _LAYERS.get(kind) or weights[id(layer.weight)] > 1:
            continue
        if getattr(layer, "padding_mode", "zeros") != "zeros" or (kind == "Conv3d" and layer.dilation[0] != 1):
            continue
        source = _value(at[name].args[0])
        channels = layer.in_features if kind == "Linear" else layer.in_channels
        packs = channels % 2 == 0 and getattr(layer, "groups", 1) == 1
        relu = operator_name(source) in ("relu", "relu_")
        found[name] = _Facts(Trainable(kind, packs), source.name, relu, _norm(at[name], kind, plain))
    return found


def _path(node: Any) -> str:
    return module_path(node).partition("@")[0]


def _value(node: Any) -> Any:
    """The node that computes a value, before nodes that do nothing."""
    while operator_name(node) in _PASSIVE:
        node = node.args[0]
    return node


def _norm(node: Any, kind: str, model: Any) -> str:
    readers = [*node.users]
    if kind not in _FUSED or len(readers) != 1 or operator_name(readers[0]) != "batch_norm":
        return ""
    path = _path(readers[0])
    norm = model.get_submodule(path)
    return path if getattr(norm, "affine", False) and getattr(norm, "track_running_stats", False) else ""


def _put(model: Any, name: str, module: Any) -> None:
    owner, _, own = name.rpartition(".")
    setattr(model.get_submodule(owner), own, module)


def _folded(layer: Any, model: Any) -> Any:
    """The float layer with its batch norm folded in; a norm whose fold is not finite returns to its place."""
    torch = torch_library("amct_opt.amct.pytorch")
    plain, norm = layer.quant_module.replaced_module, layer.bn_module
    if norm is None:
        return plain
    fused = torch.nn.utils.fusion.fuse_conv_bn_eval(plain, norm)
    if torch.isfinite(fused.weight).all() and torch.isfinite(fused.bias).all():
        return fused
    _put(model, layer.bn_module_name, norm)
    return plain


def _named(attributes: Any, names: Sequence[str], what: str) -> Any:
    """The attributes of inputs or outputs, of which the first get these names."""
    given = attributes.data
    if len(names) > len(given):
        raise CompileError(f"{what} lists {len(names)} names, the model has {len(given)}")
    named = [value_attributes(name, dimension_names(each)) for name, each in zip(names, given, strict=False)]
    return ArrayAttr([*named, *given[len(names) :]])


def _shapes(
    model: Any, input_data: Any, input_names: Sequence[str] | None, dynamic_axes: Mapping[str, Any] | None
) -> Any:
    """The open axes of inputs in the form of torch.export: by position."""
    if not dynamic_axes:
        return None
    torch = torch_library(type(model).__name__)
    inputs = (input_data,) if isinstance(input_data, torch.Tensor) else tuple(input_data)
    names = input_names or ()
    axes = [dynamic_axes.get(name, ()) for name in names] + [()] * (len(inputs) - len(names))
    return tuple(dict.fromkeys(each, torch.export.Dim.AUTO) or None for each in axes)
