"""The settings of one layer, and their precedence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..dialects.nn.how import How
from ..support.diagnostics import CompileError
from .ranges import ALONE, PACKED, WITH_INPUT
from .record import NARROW_WEIGHTS, LayerRecord
from .settings import Ada, Arq, Calibration, Nuq, Settings, Weighting


@dataclass(frozen=True)
class LayerFacts:
    """The facts that settings need about a layer that could be quantized."""

    name: str
    type: str
    """The source framework's name of the type."""
    module: str = ""
    """The class of its PyTorch module; empty if it is not a call of one."""
    ascend: tuple[str, ...] = ()
    """The operators of Ascend IR that it becomes; ATC's configurations use these names for its type."""
    weighted: bool = True
    channel_wise: bool = False
    """Whether its weights may have a scale for each output channel."""
    low_bits: bool = False
    """Whether its weights may have fewer than 8 bits."""
    packs: bool | None = None
    """Whether weights of 4 bits can be packed along its input channels, as AMCT for PyTorch does; None by other rules."""
    symmetric_only: bool = False
    """Whether its input cannot have a zero point."""
    weight_only: bool = False
    """Whether its weight may be quantized while its input stays float."""
    channel_formats: bool = False
    """Whether its weight may be in a number format with a scale per channel while its input stays float."""
    narrow: str = ""
    """The reason why its input cannot have 16 bits; empty if it can."""
    rounds: bool = True
    """Whether its weight may be rounded up or down (`ada_quantize`)."""

    @property
    def wide(self) -> bool:
        """Whether its input may have 16 bits."""
        return not self.narrow

    @property
    def types(self) -> tuple[str, ...]:
        """The names of its type in settings; the source framework's name is first."""
        return tuple(filter(None, (self.type, self.module, *self.ascend)))


@dataclass(frozen=True)
class LayerSettings:
    """The complete settings that apply to one layer."""

    skipped: str | None
    """The setting that excludes it from quantization; None if it is quantized."""
    observer: str
    bits: int
    symmetric: bool
    weight: Weighting | None
    """The settings of the weight; None for layers without one. Their `channel_wise` and `asymmetric` are never None."""
    migration_strength: float | None
    weight_compress_only: bool
    unrounded: bool = False
    """Whether `ada_quantize` is requested of all layers, and this one does not support it."""
    remarks: tuple[str, ...] = ()
    """The settings for all layers that this layer cannot have."""

    @property
    def quantize(self) -> bool:
        return self.skipped is None

    @property
    def how(self) -> How:
        """The quantization of its input."""
        return How(self.bits, self.symmetric, self.observer)


def settings_for(settings: Settings, layer: LayerFacts) -> LayerSettings:
    """The settings that apply to a layer: its own, otherwise those of its type, otherwise those of all; then the defaults.

    Only asymmetry is looked up separately: the layer's, its type's, that of all layers if the algorithm is the same, then
    `activation_offset`. A setting that the layer cannot have is an error if it names this layer, or its type and no layer of that
    type can have it; otherwise the default applies, with `remarks`. Raises CompileError, located in the settings' file.
    """
    levels = _levels(settings, layer)
    given = next((c for c in levels if c is not None), Calibration())
    chosen = _with_own_bits(_with_own_weight_bits(given, settings, layer), settings, layer)
    asymmetric = _asymmetric(levels, chosen)
    impossible = list(_impossible(layer, chosen, asymmetric))
    alone = _is_alone(chosen, layer)
    for reason, of_its_type in impossible:
        refused = reason == _NO_CHANNELS and layer.packs is not None  # AMCT for PyTorch
        if given is levels[0] or (given is levels[1] and of_its_type) or refused:
            raise CompileError(f"layer '{layer.name}' ({layer.type}) {reason}", where=settings.where)
    if asymmetric is None:
        asymmetric = settings.activation_offset
    if settings.weight_offset and not chosen.weight_compress_only:
        impossible.append((_NO_WEIGHT_OFFSET, False))
    return LayerSettings(
        skipped=_skipped(settings, layer, chosen),
        observer=chosen.activation.observer,
        bits=8 if chosen.activation.bits == 16 and not layer.wide else chosen.activation.bits,
        symmetric=layer.symmetric_only or not asymmetric,
        weight=_weight(levels, chosen, layer, settings.weight_offset) if layer.weighted else None,
        migration_strength=chosen.migration_strength if layer.weighted and not alone else None,
        weight_compress_only=alone,
        unrounded=isinstance(chosen.weight, Ada) and not layer.rounds,
        remarks=tuple(reason for reason, _ in impossible if layer.weighted or reason.startswith(_NARROW)),
    )


def uniform(settings: Settings) -> Settings:
    """Settings without few levels: ARQ replaces NUQ."""

    def arq(calibration: Calibration) -> Calibration:
        weight = calibration.weight
        return replace(calibration, weight=Arq(weight.channel_wise)) if isinstance(weight, Nuq) else calibration

    return replace(
        settings,
        common=None if settings.common is None else arq(settings.common),
        by_type={name: arq(each) for name, each in settings.by_type.items()},
        by_layer={name: arq(each) for name, each in settings.by_layer.items()},
        nuq_config=None,
        enable_auto_nuq=False,
    )


def with_levels(settings: Settings, layers: Iterable[LayerFacts], levels: Mapping[str, Nuq]) -> Settings:
    """Settings in which only the weights of these layers have so few levels, by settings of their own."""
    plain = uniform(settings)
    own = {each.name: replace(_chosen(plain, each), weight=levels[each.name]) for each in layers if each.name in levels}
    return replace(plain, by_layer={**plain.by_layer, **own})


def _chosen(settings: Settings, layer: LayerFacts) -> Calibration:
    return next((c for c in _levels(settings, layer) if c is not None), Calibration())


def weight_only(settings: Settings, layer: LayerFacts) -> bool:
    """Whether weight-only quantization is requested for a layer, and the layer supports it."""
    return _is_alone(_with_own_bits(_chosen(settings, layer), settings, layer), layer)


def number_format_of(settings: Settings, layer: LayerFacts) -> str | None:
    """The number format that is requested for a layer's weight."""
    weight = _with_own_bits(_chosen(settings, layer), settings, layer).weight
    return weight.number_format if isinstance(weight, Arq) else None


def _is_alone(chosen: Calibration, layer: LayerFacts) -> bool:
    """Whether settings are for the weight alone, and the layer supports that."""
    weight = chosen.weight
    per_channel = isinstance(weight, Arq) and weight.number_format is not None and weight.block is None
    return chosen.weight_compress_only and (layer.weight_only or (layer.channel_formats and per_channel))


_Levels = Sequence[Calibration | None]
"""The settings of the layer, of its type, of all."""


def _levels(settings: Settings, layer: LayerFacts) -> _Levels:
    of_type = next((settings.by_type[t] for t in layer.types if t in settings.by_type), None)
    return settings.by_layer.get(layer.name), of_type, settings.common


def _with_own_bits(given: Calibration, settings: Settings, layer: LayerFacts) -> Calibration:
    """The settings with the bits that `layer_bits` gives the layer's activation, if it names the layer.

    Raises CompileError, located in the settings' file, for bits that the activation cannot have, and where it stays float.
    """
    if (bits := settings.bits.get(layer.name)) is None:
        return given
    if _is_alone(given, layer):
        message = (
            f"layer_bits gives '{layer.name}' {bits} bits, but its input stays float: only its weight is quantized"
        )
        raise CompileError(
            message, where=settings.where, hint="layer-weight-bits are those of weights", option="layer_bits"
        )
    if bits == 16 and not layer.wide:
        message = f"layer_bits gives '{layer.name}' 16 bits: it {_NARROW}: {layer.narrow}"
        raise CompileError(message, where=settings.where, option="layer_bits")
    return replace(given, activation=replace(given.activation, bits=bits))


def _with_own_weight_bits(given: Calibration, settings: Settings, layer: LayerFacts) -> Calibration:
    """The settings with the bits that `layer_weight_bits` gives the layer's weight, if it names the layer.

    Raises CompileError, located in the settings' file, for bits that the weight cannot have.
    """
    if (bits := settings.weight_bits.get(layer.name)) is None:
        return given
    possible = weight_bits(layer, given.weight_compress_only and layer.weight_only)
    if bits not in possible:
        can = f"its weight can have {', '.join(map(str, possible))}" if possible else "it has no weight"
        message = f"layer_weight_bits gives '{layer.name}' {bits} bits, but {can}"
        raise CompileError(message, where=settings.where, option="layer_weight_bits")
    weight = given.weight if isinstance(given.weight, Arq) else Arq(given.weight.channel_wise)
    try:
        return replace(given, weight=replace(weight, bits=bits, number_format=None))
    except CompileError as e:
        message = f"layer_weight_bits gives '{layer.name}' {bits} bits, but {e.message}"
        raise CompileError(message, where=settings.where, hint=e.hint, option="layer_weight_bits") from None


def _asymmetric(levels: _Levels, chosen: Calibration) -> bool | None:
    """The settings of a layer's asymmetry, the most specific first."""
    own, of_type, common = levels
    if common is not None and common.activation.algorithm != chosen.activation.algorithm:
        common = None
    said = (c.activation.asymmetric for c in (own, of_type, common) if c is not None)
    return next((each for each in said if each is not None), None)


def _impossible(layer: LayerFacts, chosen: Calibration, asymmetric: bool | None) -> Iterator[tuple[str, bool]]:
    """The requested settings that this layer cannot have, each with whether no layer of its type can."""
    weight, alone = chosen.weight, chosen.weight_compress_only
    if alone and not _is_alone(chosen, layer):
        yield "has no weight that can be quantized by itself", True
        return
    if weight.channel_wise and not layer.channel_wise and not alone:
        yield _NO_CHANNELS, True
    if isinstance(weight, Arq) and weight.asymmetric and not alone:
        yield _NO_WEIGHT_OFFSET, True
    if isinstance(weight, Arq) and weight.number_format is not None and not alone:
        yield _NO_FORMAT, True
    if isinstance(weight, Arq) and weight.group_size is not None and not alone:
        yield _NO_GROUPS, True
    elif weight.bits not in (weight_bits(layer, alone) or (8,)):
        which = f"a weight that is quantized by itself has {', '.join(map(str, ALONE[:-1]))} or {ALONE[-1]} bits"
        which = which if alone else _UNPACKED if weight.bits in PACKED and layer.packs is False else _PLANAR
        yield f"cannot have a weight of {weight.bits} bits: {which}", False
    if alone and chosen.migration_strength is not None:
        yield "does not support dmq_balancer: its input stays float", False
    if asymmetric and layer.symmetric_only:
        yield "cannot have an asymmetric input", False
    if chosen.activation.bits == 16 and not layer.wide:
        yield f"{_NARROW}: {layer.narrow}", False
    if isinstance(weight, Ada) and not layer.rounds:
        yield "does not support ada_quantize", False


def recorded_impossible(record: LayerRecord, layer: LayerFacts) -> str | None:
    """The parts of a record that the layer cannot have, by the rules for settings: AMCT's table 3."""
    alone = record.weight_compress_only
    if len(record.scale_w) > 1 and not layer.channel_wise and not alone:
        return f"scale_w has {len(record.scale_w)} numbers, but its weight takes one"
    if record.wts_type in NARROW_WEIGHTS and not layer.low_bits:
        return (
            f"wts_type {record.wts_type}: only two-dimensional convolutions take a weight of {record.weight_bits} bits"
        )
    if record.offset_d and layer.symmetric_only:
        return f"offset_d must be 0, not {record.offset_d}: its input must be symmetric"
    return None


_NO_CHANNELS = "does not support channel_wise: its weight has one scale"
_PLANAR = "only two-dimensional convolutions can"
_UNPACKED = "AMCT packs pairs of input channels, and the layer has groups or an odd number of them"
_NO_GROUPS = "cannot have a scale for each group: only weights that are quantized by themselves have groups"
_NO_FORMAT = "cannot have a weight in a number format: only weights that are quantized by themselves do"
_NARROW = "cannot have an input of 16 bits"
_NO_WEIGHT_OFFSET = "cannot have an asymmetric weight: only weights that are quantized by themselves have zero points"


def weight_bits(layer: LayerFacts, alone: bool) -> tuple[int, ...]:
    """The possible numbers of bits of a layer's weight, which may be quantized by itself; none for layers without a weight."""
    if not layer.weighted:
        return ()
    if alone:
        return ALONE
    if layer.packs is None:
        return WITH_INPUT if layer.low_bits else (8,)
    stored = PACKED if layer.packs else ()
    return (*stored, *(bits for bits in WITH_INPUT if bits == 8 or (layer.low_bits and bits not in PACKED)))


def _weight(levels: _Levels, chosen: Calibration, layer: LayerFacts, offset: bool) -> Weighting:
    """The weight's settings, with the defaults in place of settings that the layer cannot have; `offset` is that of asymmetry."""
    weight, alone = chosen.weight, chosen.weight_compress_only
    possible = layer.channel_wise or alone
    if isinstance(weight, Ada) and not layer.rounds:
        weight = Arq()
    grouped = isinstance(weight, Arq) and weight.block is not None
    wanted = grouped or weight.channel_wise
    channel_wise = layer.channel_wise if wanted is None else wanted and possible
    if not isinstance(weight, Arq):
        return replace(weight, channel_wise=channel_wise)
    said = (c.weight.asymmetric for c in levels if c is not None and isinstance(c.weight, Arq))
    asymmetric = next((each for each in said if each is not None), offset) and alone
    bits = weight.bits if weight.bits in weight_bits(layer, alone) else 8
    if alone and weight.number_format is not None:
        return Arq(channel_wise, asymmetric=False, search=weight.search, number_format=weight.number_format)
    return Arq(channel_wise, bits, asymmetric, weight.group_size if alone else None, weight.search)


def _skipped(settings: Settings, layer: LayerFacts, chosen: Calibration) -> str | None:
    if layer.name in settings.skip_layers:
        return "skip-layers"
    if not set(layer.types).isdisjoint(settings.skip_layer_types):
        return "skip-layer-types"
    if settings.only_layers and layer.name not in settings.only_layers:
        return "only-layers"
    if settings.enabled is not None and layer.name not in settings.enabled:
        return "quant-enable"
    if chosen.weight_compress_only and not _is_alone(chosen, layer):
        return "weight-compress-only"
    return None
