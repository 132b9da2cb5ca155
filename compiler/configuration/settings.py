"""What is quantized, and how: AMCT's settings as dataclasses, and which of them hold for a layer.

Values are checked where a dataclass is made. Errors name the setting; readers of files add the place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal

from ..diagnostics import CompileError
from ..runtime.observers import OBSERVERS, Known, make_observer
from .ranges import at_least, no_repetition, one_of, within

IFMR, HFMG = "ifmr", "hfmg"
"""AMCT's observers, the first by default. Settings made in Python or by options may name any other."""


@dataclass(frozen=True)
class Activation:
    """How the input of a layer is quantized."""

    observer: str = IFMR
    """With its parameters, as `make_observer` takes it: `ifmr{search-step=0.02}`. A name that is not ours is that of one that a
    session knows, and is held against it where there is one (`check_observers`).
    """
    bits: int = 8
    asymmetric: bool | None = None
    """None: as the settings for the layer's type, for all layers, and `activation_offset` have it."""

    def __post_init__(self) -> None:
        if self.algorithm in OBSERVERS:
            make_observer(self.observer, self.bits, symmetric=False)
        one_of("bits of activations", self.bits, (4, 8, 16))

    @property
    def algorithm(self) -> str:
        """The observer's name, without its parameters."""
        return self.observer.partition("{")[0]


@dataclass(frozen=True)
class Arq:
    """Weights from their smallest to their largest value, all of a tensor or each output channel for itself."""

    channel_wise: bool | None = None
    """None: where the layer's type can."""
    bits: int = 8
    asymmetric: bool | None = None
    """Only where nothing but the weight is quantized."""

    def __post_init__(self) -> None:
        one_of("quant_bits", self.bits, (4, 6, 7, 8))


@dataclass(frozen=True)
class Ada:
    """Weights rounded up or down, whichever leaves the layer's output nearer."""

    num_iteration: int = 10000
    reg_param: float = 0.01
    beta_range_start: float = 20.0
    beta_range_end: float = 2.0
    warm_start: float = 0.2
    channel_wise: bool | None = None

    bits = 8

    def __post_init__(self) -> None:
        at_least("num_iteration", self.num_iteration, 0)
        within("reg_param", self.reg_param, 0, 1)
        within("warm_start", self.warm_start, 0, 1)
        within("beta_range_end", self.beta_range_end, 0, inf)
        within("beta_range_start", self.beta_range_start, self.beta_range_end, inf)


@dataclass(frozen=True)
class Nuq:
    """Weights of few distinct integers, at most `num_steps` of the 256."""

    num_steps: int = 32
    num_of_iteration: int = 1
    channel_wise: bool | None = None

    bits = 8

    def __post_init__(self) -> None:
        one_of("num_steps", self.num_steps, (16, 32))
        one_of("num_of_iteration", self.num_of_iteration, range(6))


Weighting = Arq | Ada | Nuq


@dataclass(frozen=True)
class Calibration:
    """How a layer is quantized. Where several speak of one layer the nearest holds as a whole; they are not merged."""

    activation: Activation = Activation()
    weight: Weighting = Arq()
    migration_strength: float | None = None
    """How much of the spread of activations DMQ moves into the weights; None for no DMQ."""
    weight_compress_only: bool = False
    """Nothing but the weight is quantized."""

    def __post_init__(self) -> None:
        if self.migration_strength is not None:
            within("migration_strength", self.migration_strength, 0.2, 0.8, closed=True)
        if self.weight_compress_only and not isinstance(self.weight, Arq):
            raise CompileError("weight_compress_only takes arq_quantize, no other algorithm for weights")


@dataclass(frozen=True)
class TensorQuantize:
    """An input of a layer that is quantized for its own sake, to move less data."""

    layer_name: str
    input_index: int
    activation: Activation = Activation()

    def __post_init__(self) -> None:
        at_least("input_index", self.input_index, 0)


@dataclass(frozen=True)
class NuqConfig:
    """Which layers are quantized non-uniformly: those that ATC's listing of the uniformly quantized model marks."""

    mapping_file: str
    nuq_quantize: Nuq = Nuq()


@dataclass(frozen=True)
class Settings:
    """All settings. Fields are called as in AMCT's simplified configuration, and have its defaults."""

    batch_num: int | None = None
    """How many batches of the data calibrate; None for all of them (AMCT: 1)."""
    activation_offset: bool = True
    joint_quant: bool = False
    shift: bool = False
    """Sums are kept in 16 bits, shifted (shift-N): with `joint_quant` only. AMCT's files have no such setting."""
    weight_offset: bool = False
    """Whether weights that are quantized alone are asymmetric, where nothing nearer says so."""
    skip_layers: tuple[str, ...] = ()
    skip_layer_types: tuple[str, ...] = ()
    only_layers: tuple[str, ...] = ()
    """Layers beside which no other is quantized; all when empty. Options have it, AMCT's files do not."""
    fakequant_precision_mode: Literal["FORCE_FP16_QUANT"] | None = None
    nuq_config: NuqConfig | None = None
    enable_auto_nuq: bool = False
    version: int = 1
    tensor_quantize: tuple[TensorQuantize, ...] = ()
    skip_approximation_layers: tuple[str, ...] = ()
    do_fusion: bool = True
    skip_fusion_layers: tuple[str, ...] = ()
    common: Calibration | None = None
    by_type: Mapping[str, Calibration] = field(default_factory=dict[str, Calibration])
    by_layer: Mapping[str, Calibration] = field(default_factory=dict[str, Calibration])
    enabled: frozenset[str] | None = None
    """The only layers that are quantized; None for all that can be."""
    where: str = field(default="", compare=False)
    """The file that they were read from, for messages."""

    def __post_init__(self) -> None:
        if self.batch_num is not None:
            at_least("batch_num", self.batch_num, 1)
        if self.shift and not self.joint_quant:
            raise CompileError("shift is of joint_quant, which is off")
        if self.version != 1:
            raise CompileError(f"version must be 1, not {self.version}")
        if self.fakequant_precision_mode not in (None, "FORCE_FP16_QUANT"):
            raise CompileError(
                f"fakequant_precision_mode must be FORCE_FP16_QUANT, not {self.fakequant_precision_mode}"
            )
        for name in (
            "skip_layers",
            "skip_layer_types",
            "only_layers",
            "skip_fusion_layers",
            "skip_approximation_layers",
        ):
            no_repetition(name, getattr(self, name))
        no_repetition("tensor_quantize", [f"{t.layer_name}:{t.input_index}" for t in self.tensor_quantize])


@dataclass(frozen=True)
class Layer:
    """What settings must know of a layer that could be quantized."""

    name: str
    type: str
    """As the source framework calls it."""
    weighted: bool = True
    channel_wise: bool = False
    """Its weights may have a scale for each output channel."""
    low_bits: bool = False
    """Its weights may have fewer than 8 bits."""
    symmetric_only: bool = False
    """Its input has no zero point."""
    weight_only: bool = False
    """Its weight may be quantized while its input stays float."""


@dataclass(frozen=True)
class LayerSettings:
    """What holds for one layer; nothing is left open."""

    skipped: str | None
    """Why it is not quantized: the name of the setting; None where it is."""
    observer: str
    bits: int
    symmetric: bool
    weight: Weighting | None
    """None for layers without one. Its `channel_wise`, and `asymmetric`, is never None."""
    migration_strength: float | None
    weight_compress_only: bool
    remarks: tuple[str, ...] = ()
    """What was asked of all layers, and this one cannot have."""

    @property
    def quantize(self) -> bool:
        return self.skipped is None


def settings_for(settings: Settings, layer: Layer) -> LayerSettings:
    """What holds for a layer: its own settings, else those of its type, else those of all; then the defaults.

    Only asymmetry is looked up by itself: the layer's, its type's, that of all layers if the algorithm is the same, and
    `activation_offset`. What a layer cannot have is an error where it is asked of this layer, or of its type and no layer of that
    type can; else the default holds, and `remarks` say so. Raises CompileError, located in the settings' file.
    """
    levels = _levels(settings, layer)
    chosen = next((c for c in levels if c is not None), Calibration())
    asymmetric = _asymmetric(levels, chosen)
    impossible = list(_impossible(layer, chosen, asymmetric))
    alone = chosen.weight_compress_only and layer.weight_only
    for reason, of_its_type in impossible:
        if chosen is levels[0] or (chosen is levels[1] and of_its_type):
            raise CompileError(f"layer '{layer.name}' ({layer.type}) {reason}", where=settings.where)
    if asymmetric is None:
        asymmetric = settings.activation_offset
    if settings.weight_offset and not chosen.weight_compress_only:
        impossible.append((_NO_WEIGHT_OFFSET, False))
    return LayerSettings(
        skipped=_skipped(settings, layer, chosen),
        observer=chosen.activation.observer,
        bits=chosen.activation.bits,
        symmetric=layer.symmetric_only or not asymmetric,
        weight=_weight(levels, chosen, layer, settings.weight_offset) if layer.weighted else None,
        migration_strength=chosen.migration_strength if layer.weighted and not alone else None,
        weight_compress_only=alone,
        remarks=tuple(reason for reason, _ in impossible) if layer.weighted else (),
    )


def weight_only(settings: Settings, layer: Layer) -> bool:
    """Whether a layer's weight alone is asked for, and it can have that."""
    chosen = next((c for c in _levels(settings, layer) if c is not None), Calibration())
    return chosen.weight_compress_only and layer.weight_only


def check_observers(settings: Settings, known: Known) -> None:
    """Raises CompileError, located in the settings' file, for an observer that is not known, and for its bad options."""
    calibrations = (
        c for c in (settings.common, *settings.by_type.values(), *settings.by_layer.values()) if c is not None
    )
    for each in (*(c.activation for c in calibrations), *(t.activation for t in settings.tensor_quantize)):
        try:
            make_observer(each.observer, each.bits, symmetric=False, known=known)
        except CompileError as e:
            raise CompileError(e.message, where=settings.where, hint=e.hint) from None


_Levels = Sequence[Calibration | None]
"""Of the layer, of its type, of all."""


def _levels(settings: Settings, layer: Layer) -> _Levels:
    return settings.by_layer.get(layer.name), settings.by_type.get(layer.type), settings.common


def _asymmetric(levels: _Levels, chosen: Calibration) -> bool | None:
    """What is said of a layer's asymmetry, the nearest first."""
    own, of_type, common = levels
    if common is not None and common.activation.algorithm != chosen.activation.algorithm:
        common = None
    said = (c.activation.asymmetric for c in (own, of_type, common) if c is not None)
    return next((each for each in said if each is not None), None)


def _impossible(layer: Layer, chosen: Calibration, asymmetric: bool | None) -> Iterator[tuple[str, bool]]:
    """What is asked for and this layer cannot have, and whether that is so of all layers of its type."""
    weight, alone = chosen.weight, chosen.weight_compress_only
    if alone and not layer.weight_only:
        yield "has no weight that can be quantized alone", True
        return
    if weight.channel_wise and not layer.channel_wise and not alone:
        yield "takes no channel_wise: its weight has one scale", True
    if isinstance(weight, Arq) and weight.asymmetric and not alone:
        yield _NO_WEIGHT_OFFSET, True
    if weight.bits not in _weight_bits(layer, alone):
        which = "alone they have 4 or 8" if alone else "only two-dimensional convolutions do"
        yield f"takes no weight of {weight.bits} bits: {which}", False
    if alone and chosen.migration_strength is not None:
        yield "takes no dmq_balancer: its input stays float", False
    if asymmetric and layer.symmetric_only:
        yield "takes no asymmetric input", False


_NO_WEIGHT_OFFSET = "takes no asymmetric weight: only one that is quantized alone has a zero point"


def _weight_bits(layer: Layer, alone: bool) -> tuple[int, ...]:
    """How many bits a layer's weight may have."""
    if alone:
        return 4, 8
    return (4, 6, 7, 8) if layer.low_bits else (8,)


def _weight(levels: _Levels, chosen: Calibration, layer: Layer, offset: bool) -> Weighting:
    """The weight's settings, with what the layer cannot have replaced by its default; `offset` is that of asymmetry."""
    weight, alone = chosen.weight, chosen.weight_compress_only
    possible = layer.channel_wise or alone
    channel_wise = layer.channel_wise if weight.channel_wise is None else weight.channel_wise and possible
    if not isinstance(weight, Arq):
        return replace(weight, channel_wise=channel_wise)
    said = (c.weight.asymmetric for c in levels if c is not None and isinstance(c.weight, Arq))
    asymmetric = next((each for each in said if each is not None), offset) and alone
    bits = weight.bits if weight.bits in _weight_bits(layer, alone) else 8
    return Arq(channel_wise, bits, asymmetric)


def _skipped(settings: Settings, layer: Layer, chosen: Calibration) -> str | None:
    if layer.name in settings.skip_layers:
        return "skip-layers"
    if layer.type in settings.skip_layer_types:
        return "skip-layer-types"
    if settings.only_layers and layer.name not in settings.only_layers:
        return "only-layers"
    if settings.enabled is not None and layer.name not in settings.enabled:
        return "quant-enable"
    if chosen.weight_compress_only and not layer.weight_only:
        return "weight-compress-only"
    return None


def check_names(settings: Settings, layers: Iterable[Layer], others: Mapping[str, str], types: Iterable[str]) -> None:
    """Every layer and type that settings name is there, and what is to be quantized can be.

    `layers` are those that can; `others` are the rest of the model's, with the reason why they cannot; `types` are all that
    are quantized, whether the model has one or not. Raises CompileError, located in the settings' file, that names the layer.
    """
    quantizable = {layer.name: layer.type for layer in layers}

    def error(setting: str, name: str, reason: str, hint: str = "") -> CompileError:
        return CompileError(f"{setting} names '{name}', {reason}", where=settings.where, hint=hint)

    for setting, names in _layers_named(settings).items():
        for name in names:
            if name not in quantizable and name not in others:
                hint = f"layers that can be quantized are {_some(quantizable)}"
                raise error(setting, name, "which is no layer of the model", hint)
    for name in sorted(settings.enabled) if settings.enabled is not None else settings.by_layer:
        if name in others and name not in settings.skip_layers:
            setting = "override_layer_configs" if settings.enabled is None else "quant_enable"
            raise error(setting, name, f"which cannot be quantized: {others[name]}")
    for name in settings.only_layers:
        if name in others:
            raise error("only_layers", name, f"which cannot be quantized: {others[name]}")
        if settings.enabled is not None and name not in settings.enabled:
            raise error("only_layers", name, "which the configuration does not enable")
    known = {*quantizable.values(), *types}
    wanted = {"skip_layer_types": settings.skip_layer_types, "override_layer_types": settings.by_type}
    for setting, names in wanted.items():
        if unknown := [name for name in names if name not in known]:
            hint = f"types are {', '.join(sorted(known))}"
            raise error(setting, unknown[0], "which is no type that is quantized", hint)


def _layers_named(settings: Settings) -> Mapping[str, Iterable[str]]:
    """The layers that each setting names."""
    return {
        "skip_layers": settings.skip_layers,
        "only_layers": settings.only_layers,
        "override_layer_configs" if settings.enabled is None else "the configuration": settings.by_layer,
        "skip_fusion_layers": settings.skip_fusion_layers,
        "tensor_quantize": [t.layer_name for t in settings.tensor_quantize],
    }


def _some(names: Iterable[str]) -> str:
    """The first few of some names."""
    listed = sorted(names)
    return f"{', '.join(listed[:8]) or 'none'}{', ...' if len(listed) > 8 else ''}"
