"""Checks settings against a model and a session: all names must exist."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ..observers import Known, make_observer
from ..support.diagnostics import CompileError
from .layer_settings import LayerFacts
from .settings import Settings


def check_observers(settings: Settings, known: Known) -> None:
    """Raises CompileError, located in the settings' file, for an unknown observer or bad options of one."""
    calibrations = (
        c for c in (settings.common, *settings.by_type.values(), *settings.by_layer.values()) if c is not None
    )
    for each in (*(c.activation for c in calibrations), *(t.activation for t in settings.tensor_quantize)):
        try:
            make_observer(each.observer, each.bits, symmetric=False, known=known)
        except CompileError as e:
            raise e.at(settings.where) from None


def check_names(
    settings: Settings,
    layers: Iterable[LayerFacts],
    others: Mapping[str, str],
    types: Iterable[str],
    close: Callable[[str], Sequence[str]] = lambda _: (),
) -> None:
    """Checks that every layer and type in the settings exists, and that layers to be quantized can be.

    `layers` can be quantized; `others` are the rest of the model's, with the reason why they cannot; `types` are all types that
    are quantized, even if the model has none; `close` gives the names of layers and modules that resemble a name. Raises
    CompileError, located in the settings' file, that names the layer.
    """
    layers = list(layers)
    quantizable = {layer.name for layer in layers}

    def error(setting: str, name: str, reason: str, hint: str = "") -> CompileError:
        return CompileError(f"{setting} names '{name}', {reason}", where=settings.where, hint=hint, option=setting)

    for setting, names in _layers_named(settings).items():
        for name in names:
            if name not in quantizable and name not in others:
                meant = ", ".join(close(name))
                hint = f"did you mean {meant}?" if meant else f"layers that can be quantized are {_some(quantizable)}"
                raise error(setting, name, "which is not a layer or module of the model", hint)
    for name in sorted(settings.enabled) if settings.enabled is not None else settings.by_layer:
        if name in others and name not in settings.skip_layers:
            setting = "override_layer_configs" if settings.enabled is None else "quant_enable"
            raise error(setting, name, f"which cannot be quantized: {others[name]}")
    for setting, bits in (("layer_weight_bits", settings.weight_bits), ("layer_bits", settings.bits)):
        for name in bits:
            if name in others and name not in settings.skip_layers:
                raise error(setting, name, f"which cannot be quantized: {others[name]}")
    for name in settings.only_layers:
        if name in others:
            raise error("only_layers", name, f"which cannot be quantized: {others[name]}")
        if settings.enabled is not None and name not in settings.enabled:
            raise error("only_layers", name, "which the configuration does not enable")
    known = {*types, *(name for layer in layers for name in layer.types)}
    wanted = {"skip_layer_types": settings.skip_layer_types, "override_layer_types": settings.by_type}
    for setting, names in wanted.items():
        if unknown := [name for name in names if name not in known]:
            hint = f"types are {', '.join(sorted(known))}"
            raise error(setting, unknown[0], "which is not a type that can be quantized", hint)


def _layers_named(settings: Settings) -> Mapping[str, Iterable[str]]:
    """The layers that each setting names."""
    return {
        "skip_layers": settings.skip_layers,
        "only_layers": settings.only_layers,
        "layer_weight_bits": settings.weight_bits,
        "layer_bits": settings.bits,
        "override_layer_configs" if settings.enabled is None else "the configuration": settings.by_layer,
        "skip_fusion_layers": settings.skip_fusion_layers,
        "tensor_quantize": [t.layer_name for t in settings.tensor_quantize],
    }


def _some(names: Iterable[str]) -> str:
    """The first few of some names."""
    listed = sorted(names)
    return f"{', '.join(listed[:8]) or 'none'}{', ...' if len(listed) > 8 else ''}"
