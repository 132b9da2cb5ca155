"""AMCT's JSON configuration: the settings of every layer, by name."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..support.diagnostics import CompileError
from .json_object import Json, JsonObject, read_object
from .layer_settings import LayerFacts, LayerSettings, settings_for
from .observer_text import PARAMETERS, default_parameters, observer_text, parameters_of
from .settings import IFMR, Activation, Ada, Arq, Calibration, Nuq, Settings, TensorQuantize, Weighting

_SETTINGS = (
    "version",
    "batch_num",
    "activation_offset",
    "joint_quant",
    "weight_offset",
    "do_fusion",
    "fakequant_precision_mode",
    "skip_fusion_layers",
    "tensor_quantize",
)
"""The keys besides the layers, whether a file has them or not."""
_WEIGHTS: dict[str, type[Weighting]] = {"arq_quantize": Arq, "ada_quantize": Ada, "nuq_quantize": Nuq}


def read_json(path: Path) -> Settings:
    """The settings in a file. Layers that it does not list or enable are not quantized; other defaults are the usual ones.

    Raises CompileError, located in the file, that names the layer, for unknown keys, wrong types, values out of range, and keys
    that occur twice.
    """
    top = read_object(path)
    settings = top.make(
        Settings,
        version=top.take("version", int, 1),
        batch_num=top.take("batch_num", int),
        activation_offset=top.take("activation_offset", bool, True),
        joint_quant=top.take("joint_quant", bool, False),
        weight_offset=top.take("weight_offset", bool, False),
        do_fusion=top.take("do_fusion", bool, True),
        fakequant_precision_mode=top.take("fakequant_precision_mode", str),
        skip_fusion_layers=tuple(top.take_list("skip_fusion_layers", str)),
        tensor_quantize=tuple(map(_read_tensor, top.take_objects("tensor_quantize"))),
        where=top.where,
    )
    layers = {name: top.take_object(name, f"layer '{name}'") for name in list(top.values)}
    enabled = {name for name, layer in layers.items() if layer.take("quant_enable", bool, True)}
    if not enabled and not settings.tensor_quantize:
        raise top.error("no layer is enabled")
    return replace(
        settings,
        by_layer={name: _read_layer(layer) for name, layer in layers.items()},
        enabled=frozenset(enabled),
    )


def _read_layer(layer: JsonObject) -> Calibration:
    alone = layer.take("weight_compress_only", bool, False)
    strength = layer.take("dmq_balancer_param", float)
    activation = read_activation(layer.take_object("activation_quant_params", f"{layer.path}: activation_quant_params"))
    weight = _read_weight(layer.take_object("weight_quant_params", f"{layer.path}: weight_quant_params"))
    layer.done()
    return layer.make(Calibration, activation, weight, strength, alone)


def read_activation(activation: JsonObject) -> Activation:
    """The settings of an activation. Raises CompileError, located, for unknown keys, wrong types and values out of range."""
    algorithm = activation.take("act_algo", str, IFMR)
    if algorithm not in PARAMETERS:
        raise activation.error(f"act_algo '{algorithm}' is not one of {', '.join(PARAMETERS)}")
    bits, asymmetric = activation.take("num_bits", int, 8), activation.take("asymmetric", bool)
    parameters = default_parameters(algorithm)
    if algorithm == IFMR:
        parameters.update(_ends(activation, "search_range"))
    for name in parameters:
        if not name.startswith("search_range"):
            parameters[name] = activation.take(name, type(parameters[name]), parameters[name])
    activation.done()
    return activation.make(Activation, observer_text(algorithm, parameters), bits, asymmetric)


def _read_weight(weight: JsonObject) -> Weighting:
    algorithm = weight.take("wts_algo", str, "arq_quantize")
    if algorithm not in _WEIGHTS:
        raise weight.error(f"wts_algo '{algorithm}' is not one of {', '.join(_WEIGHTS)}")
    bits = weight.take("num_bits", int, 8)
    values: dict[str, Any] = {"channel_wise": weight.take("channel_wise", bool)}
    if algorithm == "arq_quantize":
        values["bits"] = bits
        values["asymmetric"] = weight.take("asymmetric", bool)
        values["group_size"] = weight.take("group_size", int)
        values["search"] = weight.take("search", bool, False)
        values["number_format"] = weight.take("number_format", str)
    elif bits != 8:
        raise weight.error(f"num_bits must be 8 with {algorithm}, not {bits}")
    if algorithm == "ada_quantize":
        default = Ada()
        values["num_iteration"] = weight.take("num_iteration", int, default.num_iteration)
        values["reg_param"] = weight.take("reg_param", float, default.reg_param)
        values["warm_start"] = weight.take("warm_start", float, default.warm_start)
        values.update(_ends(weight, "beta_range"))
    if algorithm == "nuq_quantize":
        values["num_steps"] = weight.take("num_steps", int, Nuq().num_steps)
        values["num_of_iteration"] = weight.take("num_of_iteration", int, Nuq().num_of_iteration)
    weight.done()
    return weight.make(_WEIGHTS[algorithm], **values)


def _ends(values: JsonObject, key: str) -> dict[str, float]:
    """The two numbers of a list, if present, as `key_start` and `key_end`."""
    if key not in values.values:
        return {}
    ends = values.take_list(key, float)
    if len(ends) != 2:
        raise values.error(f"{key} must be two numbers, not {len(ends)}")
    return {f"{key}_start": ends[0], f"{key}_end": ends[1]}


def _read_tensor(tensor: JsonObject) -> TensorQuantize:
    name, index = tensor.take("layer_name", str), tensor.take("input_index", int)
    if name is None or index is None:
        raise tensor.error(f"has no {'layer_name' if name is None else 'input_index'}")
    activation = read_activation(
        tensor.take_object("activation_quant_params", f"{tensor.path}: activation_quant_params")
    )
    tensor.done()
    return tensor.make(TensorQuantize, name, index, activation)


def json_text(settings: Settings, layers: Iterable[LayerFacts], framework: str | None = None) -> str:
    """The settings of all layers that could be quantized, in the order of the framework's AMCT, layers by name. AMCT for ONNX
    writes its defaults of `joint_quant` and `tensor_quantize`, too. Without a `batch_num` AMCT takes one batch, this project all
    of the data.

    Raises CompileError for what the format cannot express: observers that AMCT lacks, layers chosen by their weights.
    """
    if settings.nuq_config is not None or settings.enable_auto_nuq or settings.skip_approximation_layers:
        raise CompileError(
            "a JSON configuration cannot contain nuq_config, enable_auto_nuq or skip_approximation_layers"
        )
    values: Json = {"version": 1}
    if settings.batch_num is not None:
        values["batch_num"] = settings.batch_num
    values["activation_offset"] = settings.activation_offset
    every = framework == "onnx"
    if settings.joint_quant or every:
        values["joint_quant"] = settings.joint_quant
    if settings.weight_offset:
        values["weight_offset"] = True
    values["do_fusion"] = settings.do_fusion
    if settings.fakequant_precision_mode is not None:
        values["fakequant_precision_mode"] = settings.fakequant_precision_mode
    values["skip_fusion_layers"] = list(settings.skip_fusion_layers)
    if settings.tensor_quantize or every:
        values["tensor_quantize"] = [_tensor(t, settings) for t in settings.tensor_quantize]
    for layer in sorted(layers, key=lambda each: each.name):
        if layer.name in _SETTINGS:
            raise CompileError(f"layer '{layer.name}' has the name of a setting of a JSON configuration")
        values[layer.name] = _layer(settings_for(settings, layer), framework)
    return json.dumps(values, indent=4, separators=(",", ":"), ensure_ascii=False)


def _layer(settings: LayerSettings, framework: str | None) -> Json:
    values: Json = {"quant_enable": settings.quantize}
    if settings.weight_compress_only:
        values["weight_compress_only"] = True
    if settings.migration_strength is not None:
        values["dmq_balancer_param"] = settings.migration_strength
    if not settings.weight_compress_only:
        values["activation_quant_params"] = _activation(
            settings.observer, settings.bits, not settings.symmetric, framework
        )
    if (weight := _weight_of(settings)) is not None:
        values["weight_quant_params"] = _weight(weight, settings.weight_compress_only, framework)
    return values


def _weight_of(settings: LayerSettings) -> Weighting | None:
    """The weight's settings. AMCT writes the default ones for a layer without a weight, and none if it cannot do what was
    asked.
    """
    if settings.unrounded:
        return None
    return settings.weight or Arq(channel_wise=False)


def _activation(observer: str, bits: int, asymmetric: bool, framework: str | None) -> Json:
    algorithm, parameters = parameters_of(observer, every=True)
    if algorithm == IFMR:
        return {
            "num_bits": bits,
            "max_percentile": parameters["max_percentile"],
            "min_percentile": parameters["min_percentile"],
            "search_range": [parameters["search_range_start"], parameters["search_range_end"]],
            "search_step": parameters["search_step"],
            "act_algo": algorithm,
            "asymmetric": asymmetric,
        }
    before = {"asymmetric": asymmetric} if framework == "pytorch" else {}  # where AMCT for PyTorch writes it
    return {"num_bits": bits, "act_algo": algorithm, **before, **parameters, "asymmetric": asymmetric}


def _weight(weight: Weighting, alone: bool, framework: str | None) -> Json:
    """Writes zero points and groups only for a weight-only layer: other layers cannot have them."""
    values: Json = {"num_bits": weight.bits}
    if isinstance(weight, Ada):
        values["num_iteration"] = weight.num_iteration
        values["reg_param"] = weight.reg_param
        values["warm_start"] = weight.warm_start
        values["beta_range"] = [weight.beta_range_start, weight.beta_range_end]
    if isinstance(weight, Nuq):
        values["num_steps"] = weight.num_steps
        values["num_of_iteration"] = weight.num_of_iteration
    algorithm = next(name for name, kind in _WEIGHTS.items() if isinstance(weight, kind))
    if framework == "onnx":
        values["wts_algo"] = algorithm  # here it stands before channel_wise
    values["channel_wise"] = weight.channel_wise
    if alone and isinstance(weight, Arq):
        values.update({"asymmetric": True} if weight.asymmetric else {})
        values.update({} if weight.group_size is None else {"group_size": weight.group_size})
        values.update({} if weight.number_format is None else {"number_format": weight.number_format})
    if isinstance(weight, Arq) and weight.searched:
        values["search"] = True
    values["wts_algo"] = algorithm
    return values


def _tensor(tensor: TensorQuantize, settings: Settings) -> Json:
    said = tensor.activation.asymmetric
    asymmetric = settings.activation_offset if said is None else said
    activation = _activation(tensor.activation.observer, tensor.activation.bits, asymmetric, None)
    return {"layer_name": tensor.layer_name, "input_index": tensor.input_index, "activation_quant_params": activation}
