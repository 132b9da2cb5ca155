"""Writes AMCT's simplified configuration: settings as protobuf text."""

from __future__ import annotations

from dataclasses import fields as fields_of
from typing import Any

from google.protobuf import text_format

from ..support.diagnostics import CompileError
from .observer_text import parameters_of
from .settings import Activation, Arq, Calibration, Settings, Weighting
from .simplified_schema import ALGORITHMS, BITS, ENUMS, PLAIN, WEIGHTS, classes


def simplified_text(settings: Settings) -> str:
    """Settings as protobuf text, without defaults.

    Raises CompileError for what the format cannot express: observers that AMCT lacks, a list of the only layers, bits of single
    layers, weights in groups, scales that are searched for.
    """
    if settings.enabled is not None or settings.only_layers:
        hint = "name the others in skip_layers, or write JSON"
        raise CompileError("a simplified configuration cannot list the only layers that are quantized", hint=hint)
    if settings.weight_bits or settings.bits:
        raise CompileError("a simplified configuration cannot give single layers other bits", hint="write JSON")
    if settings.weight_offset:
        raise CompileError("a simplified configuration has no weight_offset", hint="set asymmetric of its weights")
    message, default = classes()["AMCTConfig"](), Settings()
    for name in PLAIN:
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
    if isinstance(calibration.weight, Arq) and calibration.weight.group_size is not None:
        raise CompileError("a simplified configuration has no group_size", hint="write JSON")
    if isinstance(calibration.weight, Arq) and calibration.weight.searched:
        raise CompileError("a simplified configuration has no search for scales of weights", hint="write JSON")
    if isinstance(calibration.weight, Arq) and calibration.weight.number_format is not None:
        raise CompileError("a simplified configuration has no number_format", hint="write JSON")
    if calibration.weight_compress_only:
        message.weight_compress_only = True
    if calibration.weight not in (Arq(), Arq(search=None)):
        _write(
            getattr(message, next(n for n, c in WEIGHTS.items() if isinstance(calibration.weight, c))),
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
    inner = getattr(message, next(n for n, a in ALGORITHMS.items() if a == algorithm))
    inner.SetInParent()
    for name, value in values.items():
        setattr(inner, name, value)
    if activation.asymmetric is not None:
        inner.asymmetric = activation.asymmetric
    if activation.bits != 8:
        kinds = {bits: kind for kind, bits in BITS.items()}
        if activation.bits not in kinds:
            raise CompileError(f"a simplified configuration cannot hold inputs of {activation.bits} bits")
        inner.dst_type = kinds[activation.bits]
