"""AMCT's configuration of the quantization of a KV cache, simplified and JSON: the layers whose outputs it keeps."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ..formats.protobuf import Fields, message_classes
from ..support.diagnostics import CompileError
from .json_config import read_activation
from .json_object import Json, JsonObject, read_object
from .located import Located, parse
from .observer_text import parameters_of
from .settings import IFMR, Activation
from .simplified import activation_of
from .simplified_schema import ALGORITHMS, FIELDS

_LAYER = "kv_data_quant_config"
_ACTIVATIONS: Fields = {
    name: {
        **{each: declared for each, declared in FIELDS[name].items() if each != "dst_type"},
        "quant_granularity": (11, "QuantGranularity = per_tensor"),
    }
    for name in ("FMRQuantize", "HFMGQuantize")
}
_FIELDS: Fields = {
    "AMCTQuantCaliConfig": {
        "batch_num": (1, "uint32 = 1"),
        "activation_offset": (2, "bool = true"),
        "kv_cache_quant_config": (10, "CommonCalibrationConfig"),
        "override_layers_configs": (110, "repeated OverrideLayer"),
    },
    "CommonCalibrationConfig": {
        "quant_layers": (1, "repeated string"),
        "calibration_config": (2, "CalibrationConfig"),
    },
    "OverrideLayer": {"layer_name": (1, "string"), _LAYER: (2, "CalibrationConfig")},
    "CalibrationConfig": {
        "ifmr_quantize": (1, "oneof acts_quant_algo FMRQuantize"),
        "hfmg_quantize": (2, "oneof acts_quant_algo HFMGQuantize"),
    },
    **_ACTIVATIONS,
}


@cache
def _classes() -> dict[str, type[Any]]:
    enums = {"QuantGranularity": {"per_tensor": 0, "per_channel": 1}}
    return message_classes("amct.kv_cache", "proto2", _FIELDS, enums)


@dataclass(frozen=True)
class Cached:
    """The quantization of a layer's output."""

    activation: Activation = field(default_factory=Activation)
    per_channel: bool = False
    """A scale and a zero point for each index of the last axis."""


@dataclass(frozen=True)
class KvSettings:
    """The layers of a KV cache, by the paths of their modules. Raises CompileError for none of them, and for no batch."""

    layers: Mapping[str, Cached]
    batch_num: int = 1
    activation_offset: bool = True

    def __post_init__(self) -> None:
        if self.batch_num < 1:
            raise CompileError(f"batch_num must be at least 1, not {self.batch_num}")
        if not self.layers:
            raise CompileError("no layer is to be quantized")


def default_settings(layers: Iterable[str]) -> KvSettings:
    """AMCT's settings of layers. Raises CompileError for no layers, and for one that is given twice."""
    return KvSettings(_by_name((name, Cached()) for name in layers))


def read_simplified(path: Path) -> KvSettings:
    """The settings in a simplified configuration. Raises CompileError, located at the line."""
    config = parse(path, _classes()["AMCTQuantCaliConfig"](), "simplified configuration of a KV cache")
    layers: dict[str, Cached] = {}
    if config.message.HasField("kv_cache_quant_config"):
        common = config.child("kv_cache_quant_config")
        cached = _cached(common, "calibration_config")
        layers = common.make(_by_name, [(name, cached) for name in common.message.quant_layers])
    own: list[tuple[str, Cached]] = []
    for each in config.children("override_layers_configs"):
        each.need("layer_name")
        own.append((each.message.layer_name, _cached(each, _LAYER)))
    layers |= config.make(_by_name, own)
    return config.make(KvSettings, layers, config.message.batch_num, config.message.activation_offset)


def _by_name(layers: Iterable[tuple[str, Cached]]) -> dict[str, Cached]:
    found: dict[str, Cached] = {}
    for name, cached in layers:
        if name in found:
            raise CompileError(f"layer '{name}' is given twice")
        found[name] = cached
    return found


def _cached(node: Located, field: str) -> Cached:
    if not node.message.HasField(field) or (name := getattr(node.message, field).WhichOneof("acts_quant_algo")) is None:
        return Cached()
    algorithm = node.child(field).child(name)
    return Cached(activation_of(algorithm, ALGORITHMS[name]), bool(algorithm.message.quant_granularity))


def read_json(path: Path) -> KvSettings:
    """The settings in a JSON configuration. Raises CompileError, located in the file."""
    top = read_object(path)
    batch_num, offset = top.take("batch_num", int, 1), top.take("activation_offset", bool, True)
    layers = {name: _read_layer(top.take_object(name, f"layer '{name}'")) for name in list(top.values)}
    return top.make(KvSettings, layers, batch_num, offset)


def _read_layer(layer: JsonObject) -> Cached:
    cached = layer.take_object(_LAYER, f"{layer.path}: {_LAYER}")
    layer.done()
    granularity = cached.take("quant_granularity", int, 0)
    if granularity not in (0, 1):
        raise cached.error(f"quant_granularity must be 0 (per tensor) or 1 (per channel), not {granularity}")
    return Cached(read_activation(cached), granularity == 1)


def json_text(settings: KvSettings) -> str:
    """The settings as AMCT's JSON. Raises CompileError for an observer that AMCT does not have."""
    values: Json = {"batch_num": settings.batch_num, "activation_offset": settings.activation_offset}
    for name, cached in settings.layers.items():
        if name in values:
            raise CompileError(f"layer '{name}' has the name of a setting of a JSON configuration")
        values[name] = {_LAYER: _layer(cached)}
    return json.dumps(values, indent=4, separators=(",", ":"), ensure_ascii=False)


def _layer(cached: Cached) -> Json:
    algorithm, parameters = parameters_of(cached.activation.observer, every=True)
    if algorithm == IFMR:
        ends = [parameters.pop("search_range_start"), parameters.pop("search_range_end")]
        step = parameters.pop("search_step")
        parameters = {**parameters, "search_range": ends, "search_step": step}
    asymmetric = cached.activation.asymmetric
    said = {} if asymmetric is None else {"asymmetric": asymmetric}
    return {"act_algo": algorithm, **parameters, **said, "quant_granularity": int(cached.per_channel)}
