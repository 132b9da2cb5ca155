"""Replaces names of PyTorch modules in settings by the names of their layers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from xdsl.ir import Operation

from ....configuration.record import Record
from ....configuration.settings import Settings, TensorQuantize
from ....ir.layer_names import LayerNames, is_pattern
from ....rewriting import Remarks, layer_of
from ....support.diagnostics import CompileError

_Value = TypeVar("_Value")
Find = Callable[[str], Sequence[str]]
"""The layers that a name refers to; empty if there are none."""


def in_module(settings: Settings, names: LayerNames, quantizable: Collection[str]) -> Settings:
    """The settings with every layer called by its own name.

    A pattern with wildcards, `*/head/*`, stands for what matches it, unless a layer or module has that very name. The path
    of a PyTorch module stands for its layers and those of all modules inside it: `skip_layers` and
    `skip_fusion_layers` take all of them, settings of what is quantized only those that can be, if there are any. Of
    `override_layer_configs` that name a module and one inside it, the inner one's hold, and names before patterns. Names that
    stand for nothing stay, for `check_names` to report. Raises CompileError, located in the settings' file, for a tensor of
    a module of several layers.
    """

    def all_of(name: str) -> Sequence[str]:
        return _layers(names.find_inside(name)) or (name,)

    def able(name: str) -> Sequence[str]:
        layers = all_of(name)
        return [layer for layer in layers if layer in quantizable] or layers

    return replace(
        settings,
        skip_layers=_each(settings.skip_layers, all_of),
        only_layers=_each(settings.only_layers, able),
        skip_fusion_layers=_each(settings.skip_fusion_layers, all_of),
        tensor_quantize=tuple(_tensor(tensor, names, settings.where) for tensor in settings.tensor_quantize),
        by_layer=_overrides(settings.by_layer, names, able),
        weight_bits=_overrides(settings.weight_bits, names, able),
        bits=_overrides(settings.bits, names, able),
        enabled=None if settings.enabled is None else frozenset(_each(settings.enabled, able)),
    )


def record_in_module(record: Record, names: LayerNames, quantizable: Collection[str]) -> Record:
    """The record with every layer called by its own name: AMCT's records of PyTorch models have the paths of modules.

    A path stands for the one layer of its module that can be quantized; entries that stand for nothing stay.
    """

    def own(key: str) -> str:
        path, colon, index = (key, "", "") if key in names.layers or key in names.inside else key.rpartition(":")
        if path in names.layers:
            return key
        layers = [layer for layer in _layers(names.find(path)) if layer in quantizable]
        return f"{layers[0]}{colon}{index}" if len(layers) == 1 else key

    called = [own(key) for key in record.layers]
    if len(set(called)) < len(called):
        return record
    return replace(record, layers=dict(zip(called, record.layers.values(), strict=True)))


def note_modules(settings: Settings, names: LayerNames, remarks: Remarks) -> None:
    """A remark for each name in settings of a module with several layers: its layers, and whether it is called repeatedly."""
    lists = (
        settings.skip_layers,
        settings.only_layers,
        settings.by_layer,
        settings.weight_bits,
        settings.bits,
        settings.skip_fusion_layers,
    )
    named = [name for each in lists for name in each]
    for name in dict.fromkeys(named):
        found = names.find_inside(name)
        if name in names.layers or len(layers := _layers(found)) < 2:
            continue
        calls = len(names.calls(name))
        inside = "a module with" if name in names.inside else "a pattern that matches"
        what = f"a module that is called {calls} times, as" if calls else f"{inside} the layers"
        remarks.note(found[0], "module", f"{name} is {what} {', '.join(layers)}")


def _overrides(given: Mapping[str, _Value], names: LayerNames, find: Find) -> dict[str, _Value]:
    """Sorts patterns first, then outer modules, then inner ones, then layers by their own names: later ones take precedence."""

    def depth(name: str) -> tuple[bool, bool, int]:
        named = name in names.layers or name in names.inside
        return name in names.layers, named or not is_pattern(name), name.count(".") if named else 0

    by_depth = sorted(given, key=depth)
    return {layer: given[name] for name in by_depth for layer in find(name)}


def _tensor(tensor: TensorQuantize, names: LayerNames, where: str) -> TensorQuantize:
    layers = _layers(names.find(tensor.layer_name))
    if len(layers) > 1:
        reason = f"tensor_quantize names '{tensor.layer_name}', which is a module with the layers {', '.join(layers)}"
        raise CompileError(reason, where=where, hint="name one of them")
    return replace(tensor, layer_name=layers[0]) if layers else tensor


def _each(given: Iterable[str], find: Find) -> tuple[str, ...]:
    return tuple(dict.fromkeys(layer for name in given for layer in find(name)))


def _layers(ops: Iterable[Operation]) -> list[str]:
    return list(dict.fromkeys(map(layer_of, ops)))
