"""AMCT's configuration of quantization-aware training, simplified and JSON: the settings for training each layer."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from amct_opt.configuration.json_object import Json, JsonObject, read_object
from amct_opt.configuration.located import Located, parse
from amct_opt.formats.protobuf import Fields, message_classes
from amct_opt.session import Session
from amct_opt.support.diagnostics import CompileError

BITS: Mapping[str, int] = {"INT4": 4, "INT8": 8, "INT16": 16}
"""Bit widths by dst_type."""
_PAIRS = (("INT8", "INT8"), ("INT4", "INT4"), ("INT16", "INT8"), ("INT8", "INT4"))
"""The types of inputs and weights that AMCT trains: A8W8, A4W4, A16W8, A8W4."""
PER_TENSOR = frozenset({"Linear"})
"""Types of layers whose weight has one scale."""
_FP16 = "FORCE_FP16_QUANT"

_QUANT = {
    "retrain_data_quant_config": (2, "RetrainDataQuantConfig"),
    "retrain_weight_quant_config": (3, "RetrainWeightQuantConfig"),
}
_FIELDS: Fields = {
    "AMCTRetrainConfig": {
        "batch_num": (1, "uint32 = 1"),
        **_QUANT,
        "skip_layers": (4, "repeated string"),
        "override_layer_configs": (5, "repeated RetrainOverrideLayer"),
        "skip_layer_types": (6, "repeated string"),
        "override_layer_types": (7, "repeated RetrainOverrideLayerType"),
        "quant_skip_layers": (11, "repeated string"),
        "quant_skip_types": (12, "repeated string"),
        "fakequant_precision_mode": (21, "FakequantPrecisionMode"),
    },
    "RetrainOverrideLayer": {"layer_name": (1, "string"), **_QUANT},
    "RetrainOverrideLayerType": {"layer_type": (1, "string"), **_QUANT},
    "RetrainDataQuantConfig": {"ulq_quantize": (13, "oneof data_retrain_algo ActULQquantize")},
    "ActULQquantize": {
        "clip_max_min": (1, "ClipMaxMin"),
        "fixed_min": (2, "bool"),
        "dst_type": (3, "DataType = INT8"),
    },
    "ClipMaxMin": {"clip_max": (3, "float"), "clip_min": (5, "float")},
    "RetrainWeightQuantConfig": {
        "arq_retrain": (1, "oneof weights_retrain_algo WeightRetrain"),
        "ulq_retrain": (2, "oneof weights_retrain_algo WeightRetrain"),
    },
    "WeightRetrain": {"dst_type": (1, "DataType = INT8"), "channel_wise": (2, "bool")},
}
_ENUMS = {"DataType": {name: i for i, name in enumerate(BITS)}, "FakequantPrecisionMode": {_FP16: 1}}
_NO_ULQ = "ulq_retrain of weights is not supported"
_ULQ_HINT = "arq_retrain is; ulq_quantize trains the ranges of inputs"


@cache
def _message() -> type[Any]:
    return message_classes("amct.retrain", "proto2", _FIELDS, _ENUMS)["AMCTRetrainConfig"]


@dataclass(frozen=True)
class LayerRetrain:
    """The settings for training one layer. Without clips, `batch_num` batches give the first range of its input;
    without `fixed_min`, the range begins at 0 if a Relu gives the input.

    Raises CompileError for types that AMCT does not train together, and for a range without 0.
    """

    enable: bool = True
    clip_max: float | None = None
    clip_min: float | None = None
    fixed_min: bool | None = None
    act_type: str = "INT8"
    channel_wise: bool = True
    wts_type: str = "INT8"

    def __post_init__(self) -> None:
        if (self.act_type, self.wts_type) not in _PAIRS:
            known = ", ".join(f"{a}/{w}" for a, w in _PAIRS)
            raise CompileError(f"inputs in {self.act_type} with weights in {self.wts_type} are not one of {known}")
        if (self.clip_max is None) != (self.clip_min is None):
            raise CompileError("clip_max and clip_min belong together")
        if self.clip_max is not None and self.clip_max <= 0:
            raise CompileError(f"clip_max must be above 0, not {self.clip_max:g}")
        if self.clip_min is not None and self.clip_min >= 0:
            raise CompileError(f"clip_min must be below 0, not {self.clip_min:g}")


@dataclass(frozen=True)
class Trainable:
    """A layer that can be trained: its type (`Conv2d`), and whether its weight can be packed in 4 bits."""

    type: str
    packs: bool = True

    def default(self) -> LayerRetrain:
        return LayerRetrain(channel_wise=self.type not in PER_TENSOR)


@dataclass(frozen=True)
class RetrainConfig:
    """The settings for training each layer, by layer name in the model's order."""

    layers: Mapping[str, LayerRetrain]
    batch_num: int = 1
    fakequant_precision_mode: str | None = None
    where: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if self.batch_num < 1:
            raise CompileError(f"batch_num must be at least 1, not {self.batch_num}", where=self.where)
        if not any(layer.enable for layer in self.layers.values()):
            raise CompileError("no layer is trained", where=self.where)


def default_config(layers: Mapping[str, Trainable]) -> RetrainConfig:
    """All layers in INT8."""
    return RetrainConfig({name: layer.default() for name, layer in layers.items()})


def read_simplified(path: Path, layers: Mapping[str, Trainable], session: Session) -> RetrainConfig:
    """The simplified configuration in a file, for these layers. A layer's own settings win over those of its type, and those
    over the common ones; they are not merged.

    Weights that cannot be packed in 4 bits get 8, with a warning. Raises CompileError, located, for unknown layers, types and
    fields, and for values out of range.
    """
    config = parse(path, _message()(), "simplified configuration of quantization-aware training")
    message = config.message
    by_layer = _overrides(config, "override_layer_configs", "layer_name", layers)
    by_type = _overrides(config, "override_layer_types", "layer_type", {each.type for each in layers.values()})
    skipped = _known(config, ("skip_layers", "quant_skip_layers"), layers)
    skipped_types = _known(config, ("skip_layer_types", "quant_skip_types"), {each.type for each in layers.values()})
    found: dict[str, LayerRetrain] = {}
    for name, layer in layers.items():
        node = by_layer.get(name) or by_type.get(layer.type)
        enable = node is not None or (name not in skipped and layer.type not in skipped_types)
        found[name] = _packed(_layer(node or config, name, layer, enable), name, layer, session)
    mode = _FP16 if message.HasField("fakequant_precision_mode") else None
    return RetrainConfig(found, message.batch_num, mode, str(path))


def _overrides(config: Located, name: str, key: str, known: Collection[str]) -> dict[str, Located]:
    found: dict[str, Located] = {}
    for each in config.children(name):
        each.need(key)
        value = getattr(each.message, key)
        if value in found:
            raise each.error(f"{name} names '{value}' twice")
        if value not in known:
            raise each.error(f"{key} '{value}' is not in the model", _hint(known), key)
        found[value] = each
    return found


def _known(config: Located, names: Sequence[str], known: Collection[str]) -> set[str]:
    found: set[str] = set()
    for name in names:
        for value in getattr(config.message, name):
            if value not in known:
                raise config.error(f"{name}: '{value}' is not in the model", _hint(known), name)
            found.add(value)
    return found


def _hint(known: Collection[str]) -> str:
    first = [*dict.fromkeys(known)]
    return f"the model has {', '.join([*first[:8], *(['...'] if len(first) > 8 else [])])}"


def _layer(node: Located, name: str, layer: Trainable, enable: bool) -> LayerRetrain:
    message = node.message
    values: dict[str, Any] = {"enable": enable}
    if message.HasField("retrain_data_quant_config"):
        values.update(_data(node.child("retrain_data_quant_config")))
    if message.HasField("retrain_weight_quant_config"):
        values.update(_weight(node.child("retrain_weight_quant_config"), name, layer))
    return node.make(lambda: replace(layer.default(), **values))


def _data(node: Located) -> dict[str, Any]:
    if not node.message.HasField("ulq_quantize"):
        return {}
    ulq = node.child("ulq_quantize")
    values: dict[str, Any] = {"act_type": [*BITS][ulq.message.dst_type]}
    if values["act_type"] == "INT4":
        raise ulq.error("inputs of 4 bits are only for JSON configurations, as in AMCT", field="dst_type")
    if ulq.message.HasField("clip_max_min"):
        clips = ulq.child("clip_max_min")
        clips.need("clip_max", "clip_min")
        values.update(clip_max=clips.message.clip_max, clip_min=clips.message.clip_min)
    if ulq.message.HasField("fixed_min"):
        values["fixed_min"] = ulq.message.fixed_min
    return values


def _weight(node: Located, name: str, layer: Trainable) -> dict[str, Any]:
    if node.message.HasField("ulq_retrain"):
        raise node.error(_NO_ULQ, _ULQ_HINT, "ulq_retrain")
    if not node.message.HasField("arq_retrain"):
        return {}
    arq = node.child("arq_retrain")
    values: dict[str, Any] = {"wts_type": [*BITS][arq.message.dst_type]}
    if arq.message.HasField("channel_wise"):
        values["channel_wise"] = node.make(_channel_wise, arq.message.channel_wise, name, layer)
    return values


def _channel_wise(value: bool, name: str, layer: Trainable) -> bool:
    if value and layer.type in PER_TENSOR:
        hint = f"override_layer_types {{ layer_type: '{layer.type}' ... }} with channel_wise: false"
        raise CompileError(f"layer '{name}' is {layer.type}, which cannot be channel_wise", hint=hint)
    return value


def _packed(layer: LayerRetrain, name: str, info: Trainable, session: Session) -> LayerRetrain:
    if not layer.enable or layer.wts_type != "INT4" or info.packs:
        return layer
    session.warn(f"layer '{name}': its weight cannot be packed in 4 bits along its input channels and gets INT8")
    return replace(layer, wts_type="INT8")


def read_json(path: Path, layers: Mapping[str, Trainable]) -> RetrainConfig:
    """The JSON configuration in a file, for these layers; those that it does not list are not trained.

    Raises CompileError, located in the file, for unknown keys and layers, and for values out of range.
    """
    top = read_object(path)
    if (version := top.take("version", int, 1)) != 1:
        raise top.error(f"version must be 1, not {version}")
    batch_num = top.take("batch_num", int, 1)
    mode = top.take("fakequant_precision_mode", str)
    if mode not in (None, "DEFAULT", _FP16):
        raise top.error(f"fakequant_precision_mode must be DEFAULT or {_FP16}, not '{mode}'")
    given = {name: top.take_object(name, f"layer '{name}'") for name in [*top.values]}
    if unknown := [name for name in given if name not in layers]:
        raise top.error(f"layer '{unknown[0]}' cannot be trained, or is not in the model", _hint(layers))
    found = {
        name: _json_layer(given[name], name, layer) if name in given else replace(layer.default(), enable=False)
        for name, layer in layers.items()
    }
    return RetrainConfig(found, batch_num, mode if mode == _FP16 else None, str(path))


def _json_layer(given: JsonObject, name: str, layer: Trainable) -> LayerRetrain:
    default = layer.default()
    enable = given.take("retrain_enable", bool, True)
    data = given.take_object("retrain_data_config", f"{given.path}: retrain_data_config")
    weight = given.take_object("retrain_weight_config", f"{given.path}: retrain_weight_config")
    given.done()
    _algorithm(data, "ulq_quantize")
    _algorithm(weight, "arq_retrain")
    values: dict[str, Any] = {key: data.take(key, float) for key in ("clip_max", "clip_min")}
    values["fixed_min"] = data.take("fixed_min", bool)
    values["act_type"] = data.take("dst_type", str, default.act_type)
    values["wts_type"] = weight.take("dst_type", str, default.wts_type)
    values["channel_wise"] = weight.make(
        _channel_wise, weight.take("channel_wise", bool, default.channel_wise), name, layer
    )
    data.done()
    weight.done()
    return given.make(LayerRetrain, enable, **values)


def _algorithm(given: JsonObject, known: str) -> None:
    algorithm = given.take("algo", str, known)
    if algorithm == "ulq_retrain":
        raise given.error(_NO_ULQ, _ULQ_HINT)
    if algorithm != known:
        raise given.error(f"algo must be {known}, not '{algorithm}'")


def json_text(config: RetrainConfig) -> str:
    """AMCT's JSON, byte for byte."""
    values: Json = {"version": 1}
    if config.fakequant_precision_mode is not None:
        values["fakequant_precision_mode"] = config.fakequant_precision_mode
    values["batch_num"] = config.batch_num
    for name, layer in config.layers.items():
        if name in ("version", "batch_num", "fakequant_precision_mode"):
            raise CompileError(f"layer '{name}' has the name of a setting of the configuration")
        clips = {"clip_max": layer.clip_max, "clip_min": layer.clip_min, "fixed_min": layer.fixed_min}
        values[name] = {
            "retrain_enable": layer.enable,
            "retrain_data_config": {
                "algo": "ulq_quantize",
                **{key: value for key, value in clips.items() if value is not None},
                "dst_type": layer.act_type,
            },
            "retrain_weight_config": {
                "algo": "arq_retrain",
                "channel_wise": layer.channel_wise,
                "dst_type": layer.wts_type,
            },
        }
    return json.dumps(values, indent=4, separators=(",", ":"))
