"""AMCT's simplified configuration: protobuf text, read into settings and written from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields as fields_of
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from ..diagnostics import CompileError
from ..dialects.nn.numbers import f32_text
from ..frontends.protobuf import Fields, message_classes
from .located import Located, parse
from .observer_text import observer_text, parameters_of
from .settings import (
    HFMG,
    IFMR,
    Activation,
    Ada,
    Arq,
    Calibration,
    Nuq,
    NuqConfig,
    Settings,
    TensorQuantize,
    Weighting,
)

FIELDS: Fields = {
    "AMCTConfig": {
        "batch_num": (1, "uint32 = 1"),
        "activation_offset": (2, "bool = true"),
        "joint_quant": (3, "bool = false"),
        "version": (4, "int32 = 1"),
        "enable_auto_nuq": (5, "bool = false"),
        "nuq_config": (6, "NuqConfig"),
        "skip_layers": (10, "repeated string"),
        "skip_layer_types": (11, "repeated string"),
        "skip_approximation_layers": (12, "repeated string"),
        "fakequant_precision_mode": (21, "FakequantPrecisionMode"),
        "tensor_quantize": (40, "repeated TensorQuantize"),
        "common_config": (50, "CalibrationConfig"),
        "override_layer_types": (51, "repeated OverrideLayerType"),
        "override_layer_configs": (100, "repeated OverrideLayer"),
        "do_fusion": (200, "bool = true"),
        "skip_fusion_layers": (201, "repeated string"),
    },
    "OverrideLayerType": {"layer_type": (1, "string"), "calibration_config": (2, "CalibrationConfig")},
    "OverrideLayer": {"layer_name": (1, "string"), "calibration_config": (2, "CalibrationConfig")},
    "CalibrationConfig": {
        "weight_compress_only": (1, "bool = false"),
        "arq_quantize": (13, "oneof wts_quant_algo ARQuantize"),
        "nuq_quantize": (14, "oneof wts_quant_algo NUQuantize"),
        "ada_quantize": (15, "oneof wts_quant_algo ADAquantize"),
        "ifmr_quantize": (100, "oneof acts_quant_algo FMRQuantize"),
        "hfmg_quantize": (101, "oneof acts_quant_algo HFMGQuantize"),
        "dmq_balancer": (200, "DMQBalancer"),
    },
    "ARQuantize": {"channel_wise": (1, "bool"), "asymmetric": (2, "bool"), "quant_bits": (10, "uint32 = 8")},
    "NUQuantize": {
        "num_steps": (1, "uint32 = 32"),
        "num_of_iteration": (2, "uint32 = 1"),
        "channel_wise": (10, "bool"),
    },
    "ADAquantize": {
        "num_iteration": (1, "uint32 = 10000"),
        "reg_param": (2, "float = 0.01"),
        "beta_range_start": (3, "float = 20"),
        "beta_range_end": (4, "float = 2"),
        "warm_start": (5, "float = 0.2"),
        "channel_wise": (10, "bool"),
    },
    "FMRQuantize": {
        "search_range_start": (1, "float = 0.7"),
        "search_range_end": (2, "float = 1.3"),
        "search_step": (3, "float = 0.01"),
        "max_percentile": (4, "float = 0.999999"),
        "min_percentile": (5, "float = 0.999999"),
        "asymmetric": (6, "bool"),
        "dst_type": (10, "CalibrationDataType = INT8"),
    },
    "HFMGQuantize": {
        "num_of_bins": (1, "uint32 = 4096"),
        "asymmetric": (2, "bool"),
        "dst_type": (10, "CalibrationDataType = INT8"),
    },
    "DMQBalancer": {"migration_strength": (1, "float = 0.5")},
    "NuqConfig": {"mapping_file": (1, "string"), "nuq_quantize": (2, "NUQuantize")},
    "TensorQuantize": {
        "layer_name": (1, "string"),
        "input_index": (2, "uint32"),
        "ifmr_quantize": (100, "oneof acts_quant_algo FMRQuantize"),
        "hfmg_quantize": (101, "oneof acts_quant_algo HFMGQuantize"),
    },
}
"""Numbers are those of AMCT's schema for PyTorch; text does not hold them, and fields of other flavours have any that is free."""

ENUMS = {"FakequantPrecisionMode": {"FORCE_FP16_QUANT": 1}, "CalibrationDataType": {"INT8": 1, "INT16": 2}}

FLAVOURS = ("pytorch", "onnx", "tensorflow", "caffe", "graph")
"""`graph` is that of ATC, whatever framework the model is of."""

_ONLY_IN: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("AMCTConfig", "joint_quant"): ("onnx", "tensorflow", "graph"),
    ("AMCTConfig", "version"): ("graph",),
    ("AMCTConfig", "enable_auto_nuq"): ("graph",),
    ("AMCTConfig", "nuq_config"): ("pytorch", "onnx", "tensorflow", "caffe"),
    ("AMCTConfig", "fakequant_precision_mode"): ("pytorch", "onnx", "tensorflow"),
    ("AMCTConfig", "skip_approximation_layers"): ("tensorflow",),
    ("AMCTConfig", "tensor_quantize"): ("onnx", "tensorflow", "graph"),
    ("CalibrationConfig", "ada_quantize"): ("pytorch",),
    ("CalibrationConfig", "weight_compress_only"): ("graph",),
    ("ARQuantize", "asymmetric"): ("graph",),
}
"""Fields that not all flavours have."""

_ALGORITHMS = {"ifmr_quantize": IFMR, "hfmg_quantize": HFMG}
_BITS = {1: 8, 2: 16}
"""By number of CalibrationDataType."""
_WEIGHTS: Mapping[str, type[Weighting]] = {"arq_quantize": Arq, "nuq_quantize": Nuq, "ada_quantize": Ada}
_PLAIN = (
    "batch_num",
    "activation_offset",
    "joint_quant",
    "version",
    "enable_auto_nuq",
    "skip_layers",
    "skip_layer_types",
    "skip_approximation_layers",
    "do_fusion",
    "skip_fusion_layers",
)
"""Fields that settings hold under the same name, as they are."""


@cache
def _classes() -> dict[str, type[Any]]:
    return message_classes("amct.configuration", "proto2", FIELDS, ENUMS)


def read_simplified(path: Path, flavour: str | None = None) -> Settings:
    """The settings in a file; with a flavour, only its fields are allowed.

    Raises CompileError, located at the line, for unknown fields, wrong types, values out of range, and what stands twice or is
    missing.
    """
    config = parse(path, _classes()["AMCTConfig"](), "simplified configuration")
    _check(config, flavour)
    message = config.message
    types = _overrides(config, "override_layer_types", "layer_type")
    layers = _overrides(config, "override_layer_configs", "layer_name")
    values = {name: getattr(message, name) for name in _PLAIN if name in _set_fields(message)}
    return config.make(
        Settings,
        **{name: v if isinstance(v, int) else tuple(v) for name, v in values.items()},
        fakequant_precision_mode="FORCE_FP16_QUANT" if message.HasField("fakequant_precision_mode") else None,
        nuq_config=_nuq_config(config.child("nuq_config")) if message.HasField("nuq_config") else None,
        tensor_quantize=tuple(map(_tensor, config.children("tensor_quantize"))),
        common=_calibration(config.child("common_config")) if message.HasField("common_config") else None,
        by_type=types,
        by_layer=layers,
        where=str(path),
    )


def _set_fields(message: Any) -> list[str]:
    return [field.name for field, _ in message.ListFields()]


def _check(node: Located, flavour: str | None) -> None:
    """Every field stands once, unless it is repeated, and is one of the flavour's; so do those of the messages within."""
    kind = node.message.DESCRIPTOR.name
    for name, count in Counter(f.name for f in node.fields).items():
        repeated = FIELDS[kind][name][1].startswith("repeated")
        if count > 1 and not repeated:
            raise node.error(f"{name} is given twice", field=name)
        if flavour is not None and flavour not in _ONLY_IN.get((kind, name), FLAVOURS):
            others = ", ".join(_ONLY_IN[kind, name])
            raise node.error(f"{name} is no field of the configuration for {flavour}", f"it is of {others}", name)
    for field, value in node.message.ListFields():
        if field.message_type is not None:
            for inner in [node.child(field.name)] if hasattr(value, "ListFields") else node.children(field.name):
                _check(inner, flavour)


def _overrides(config: Located, field: str, key: str) -> dict[str, Calibration]:
    found: dict[str, Calibration] = {}
    for each in config.children(field):
        each.need(key, "calibration_config")
        name = getattr(each.message, key)
        if name in found:
            raise each.error(f"{field} names '{name}' twice")
        found[name] = _calibration(each.child("calibration_config"))
    return found


def _calibration(node: Located) -> Calibration:
    message = node.message
    strength = message.dmq_balancer.migration_strength if message.HasField("dmq_balancer") else None
    return node.make(
        Calibration,
        activation=_activation(node),
        weight=_weight(node),
        migration_strength=None if strength is None else _decimal(strength),
        weight_compress_only=message.weight_compress_only,
    )


def _activation(node: Located) -> Activation:
    name = node.message.WhichOneof("acts_quant_algo")
    if name is None:
        return Activation()
    inner = node.child(name)
    values = {k: v for k, v in _values(inner.message) if k not in ("asymmetric", "dst_type")}
    asymmetric = inner.message.asymmetric if inner.message.HasField("asymmetric") else None
    bits = _BITS[inner.message.dst_type]
    return inner.make(Activation, observer_text(_ALGORITHMS[name], values), bits, asymmetric)


def _weight(node: Located) -> Weighting:
    name = node.message.WhichOneof("wts_quant_algo")
    if name is None:
        return Arq()
    inner = node.child(name)
    return inner.make(_WEIGHTS[name], **{"bits" if k == "quant_bits" else k: v for k, v in _values(inner.message)})


def _values(message: Any) -> Iterator[tuple[str, Any]]:
    """The fields that are set; floats as the decimals that were written."""
    for field, value in message.ListFields():
        yield field.name, _decimal(value) if isinstance(value, float) else value


def _decimal(value: float) -> float:
    """The float64 nearest to the decimal that stands for a float32: 0.7, not 0.699999988."""
    return float(f32_text(value))


def _nuq_config(node: Located) -> NuqConfig:
    node.need("mapping_file")
    nuq = node.child("nuq_quantize") if node.message.HasField("nuq_quantize") else None
    return NuqConfig(node.message.mapping_file, Nuq() if nuq is None else nuq.make(Nuq, **dict(_values(nuq.message))))


def _tensor(node: Located) -> TensorQuantize:
    node.need("layer_name", "input_index")
    return TensorQuantize(node.message.layer_name, node.message.input_index, _activation(node))


def simplified_text(settings: Settings) -> str:
    """Settings as protobuf text, without what has its default.

    Raises CompileError for what the format cannot hold: observers that AMCT does not have, and a list of the only layers.
    """
    if settings.enabled is not None or settings.only_layers:
        hint = "name the others in skip_layers, or write JSON"
        raise CompileError("a simplified configuration cannot list the only layers that are quantized", hint=hint)
    if settings.weight_offset:
        raise CompileError("a simplified configuration has no weight_offset", hint="set asymmetric of its weights")
    message, default = _classes()["AMCTConfig"](), Settings()
    for name in _PLAIN:
        value = getattr(settings, name)
        if value != getattr(default, name):
            _assign(message, name, value)
    if settings.fakequant_precision_mode is not None:
        message.fakequant_precision_mode = ENUMS["FakequantPrecisionMode"][settings.fakequant_precision_mode]
    if settings.nuq_config is not None:
        message.nuq_config.mapping_file = settings.nuq_config.mapping_file
        _write(message.nuq_config.nuq_quantize, settings.nuq_config.nuq_quantize)
    for tensor in settings.tensor_quantize:
        added = message.tensor_quantize.add(layer_name=tensor.layer_name, input_index=tensor.input_index)
        _write_activation(added, tensor.activation)
    if settings.common is not None:
        _write_calibration(message.common_config, settings.common)
    for kind, calibration in settings.by_type.items():
        _write_calibration(message.override_layer_types.add(layer_type=kind).calibration_config, calibration)
    for layer, calibration in settings.by_layer.items():
        _write_calibration(message.override_layer_configs.add(layer_name=layer).calibration_config, calibration)
    return text_format.MessageToString(message, as_utf8=True)


def _assign(message: Any, name: str, value: Any) -> None:
    if isinstance(value, tuple):
        getattr(message, name).extend(value)
    else:
        setattr(message, name, value)


def _write_calibration(message: Any, calibration: Calibration) -> None:
    message.SetInParent()
    if calibration.weight_compress_only:
        message.weight_compress_only = True
    if calibration.weight != Arq():
        _write(
            getattr(message, next(n for n, c in _WEIGHTS.items() if isinstance(calibration.weight, c))),
            calibration.weight,
        )
    if calibration.activation != Activation():
        _write_activation(message, calibration.activation)
    if calibration.migration_strength is not None:
        message.dmq_balancer.migration_strength = calibration.migration_strength


def _write(message: Any, values: Weighting) -> None:
    """The fields that differ from the default."""
    message.SetInParent()
    default = type(values)()
    for field in fields_of(values):
        value = getattr(values, field.name)
        if value != getattr(default, field.name):
            setattr(message, "quant_bits" if field.name == "bits" else field.name, value)


def _write_activation(message: Any, activation: Activation) -> None:
    algorithm, values = parameters_of(activation.observer)
    inner = getattr(message, next(n for n, a in _ALGORITHMS.items() if a == algorithm))
    inner.SetInParent()
    for name, value in values.items():
        setattr(inner, name, value)
    if activation.asymmetric is not None:
        inner.asymmetric = activation.asymmetric
    if activation.bits != 8:
        kinds = {bits: kind for kind, bits in _BITS.items()}
        if activation.bits not in kinds:
            raise CompileError(f"a simplified configuration cannot hold inputs of {activation.bits} bits")
        inner.dst_type = kinds[activation.bits]
