"""Reads AMCT's simplified configuration: protobuf text into settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..ir.numbers import f32_text
from .located import Located, parse
from .observer_text import observer_text
from .settings import Activation, Arq, Calibration, Nuq, NuqConfig, Settings, TensorQuantize, Weighting
from .simplified_schema import ALGORITHMS, BITS, FIELDS, FLAVOURS, ONLY_IN, PLAIN, WEIGHTS, classes


def read_simplified(path: Path, flavour: str | None = None) -> Settings:
    """The settings in a file; with a flavour, only its fields are allowed.

    Raises CompileError, located at the line, for unknown fields, wrong types, values out of range, and what is duplicate or
    missing.
    """
    config = parse(path, classes()["AMCTConfig"](), "simplified configuration")
    _check(config, flavour)
    message = config.message
    types = _overrides(config, "override_layer_types", "layer_type")
    layers = _overrides(config, "override_layer_configs", "layer_name")
    given = [field.name for field, _ in message.ListFields()]
    values = {name: getattr(message, name) for name in PLAIN if name in given}
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


def _check(node: Located, flavour: str | None) -> None:
    """Checks, also in nested messages, that every field belongs to the flavour, and occurs once unless it is repeated."""
    kind = node.message.DESCRIPTOR.name
    for name, count in Counter(f.name for f in node.fields).items():
        repeated = FIELDS[kind][name][1].startswith("repeated")
        if count > 1 and not repeated:
            raise node.error(f"{name} is given twice", field=name)
        if flavour is not None and flavour not in ONLY_IN.get((kind, name), FLAVOURS):
            others = ", ".join(ONLY_IN[kind, name])
            raise node.error(
                f"{name} is not a field of the configuration for {flavour}", f"it belongs to {others}", name
            )
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
    return activation_of(node.child(name), ALGORITHMS[name])


def activation_of(node: Located, algorithm: str) -> Activation:
    """The settings of an activation from the message of one of AMCT's algorithms. Raises CompileError, located at it."""
    values = dict(_values(node.message))
    asymmetric = values.pop("asymmetric", None)
    bits = BITS[values.pop("dst_type", 1)]
    values.pop("quant_granularity", None)
    return node.make(Activation, observer_text(algorithm, values), bits, asymmetric)


def _weight(node: Located) -> Weighting:
    name = node.message.WhichOneof("wts_quant_algo")
    if name is None:
        return Arq()
    inner = node.child(name)
    return inner.make(WEIGHTS[name], **{"bits" if k == "quant_bits" else k: v for k, v in _values(inner.message)})


def _values(message: Any) -> Iterator[tuple[str, Any]]:
    """The fields that are set; floats as the written decimals."""
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
