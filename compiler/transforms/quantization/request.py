"""A request to quantize: one object, made and checked once, from options or from a program's objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ...configuration.checks import check_observers
from ...configuration.files import read_settings
from ...configuration.record import Record, read_record
from ...configuration.settings import Activation, Arq, Calibration, Settings, TensorQuantize, tensor_parts
from ...dialects.nn import DequantizeFloatOp, DequantizeOp
from ...ir.layer_names import LayerNames
from ...session import Session
from ...support.diagnostics import CompileError
from .decide.layers import Layers, able_names, resolve
from .decide.named_layers import record_in_module
from .options import (
    AS_THE_PROFILE,
    NO_RECOVERY,
    RECOVERY,
    Method,
    PointOptions,
    QuantizeOptions,
    RecoveryOptions,
    SettingsOptions,
)
from .profiles import Profile, profile_of

DEFAULT_OBSERVER = "mse"
"""The observer without a configuration; AMCT's own, in a configuration that names none, is ifmr."""
_OF_ALL_LAYERS = (
    "bits",
    "weight_bits",
    "channel_wise",
    "weight_only",
    "dynamic",
    "weight_asymmetric",
    "group_size",
    "weight_format",
    "activation_format",
    "weight_search",
    "dmq",
)
"""Options that hold for layers without settings of their own. A JSON configuration leaves none; the observer is replaced in each
of them.
"""


@dataclass(frozen=True)
class Request:
    """Settings, a record, whose layers alone are quantized, and options for points on values; with the profile that decides."""

    settings: Settings
    profile: Profile
    record: Record | None = None
    points: PointOptions = AS_THE_PROFILE
    recovery: RecoveryOptions = NO_RECOVERY
    usual: Method = "mismatch"
    """How weights are rounded where the options do not say."""

    def __post_init__(self) -> None:
        """Raises CompileError, located in a file where there is one, for what the profile does not support."""
        self.points.check_points(self.profile)
        given = [step for step in RECOVERY if self.recovery.given(step)]
        if self.record is not None and (step := next((each for each in given if each.of_channels), None)):
            message = f"cannot be used with {step.called}: its parameters are those of the channels as they are"
            raise CompileError(message, where=self.where)
        common = self.settings.common
        if self.recovery.equalize and common and isinstance(common.weight, Arq) and common.weight.number_format:
            option = "weight-format" if self.settings.activation_format is None else "activation-format"
            message = f"{option} cannot be used with equalization, which evens out channels for integers"
            raise CompileError(message, where=self.where, hint="leave one of them out")
        self._check_activation_format()
        if not self.profile.facts.balanced and self._balances():
            raise CompileError(
                f"profile {self.profile.name} does not support dmq_balancer: "
                "inputs are quantized where they are made, before balancing",
                where=self.where,
                option="dmq",
            )

    def _check_activation_format(self) -> None:
        """Raises CompileError for what works on integers, where inputs become floats of 8 bits."""
        if self.settings.activation_format is None:
            return
        on_integers = (each for each in RECOVERY if each.of_integers and self.recovery.given(each))
        if step := next(on_integers, None):
            message = f"activation-format cannot be used with {step.name}, which works on integers"
            raise CompileError(message, where=self.where, hint="leave one of them out")
        if self.record is not None:
            message = "cannot be used with activation-format: its parameters are those of integers"
            raise CompileError(message, where=self.where, hint="leave one of them out")

    def _balances(self) -> bool:
        if self.record is not None:
            return any(layer.tensor_balance_factor for layer in self.record.layers.values())
        held = (self.settings.common, *self.settings.by_type.values(), *self.settings.by_layer.values())
        return any(each is not None and each.migration_strength is not None for each in held)

    @property
    def where(self) -> str:
        """The file of the record or of the settings."""
        return self.settings.where if self.record is None else self.record.where

    @property
    def shifts(self) -> bool:
        """Whether sums keep 16 bits: as settings say, else if the record shifts one or, without a record, with
        joint_quant (AMCT).
        """
        if self.settings.shift is not None:
            return self.settings.shift
        if self.record is not None:
            return any(any(layer.shift_bit) for layer in self.record.layers.values())
        return self.settings.joint_quant and self.profile.facts.shifted

    def check_by_layer(self) -> None:
        """Raises CompileError for a network whose layers are not measured one by one."""
        if self.settings.activation_format is not None:
            message = "layers whose inputs become floats of 8 bits are not measured one by one"
            raise CompileError(
                message, hint="leave out activation-format; amct quantize takes it", option="activation-format"
            )
        if self.settings.dynamic:
            message = "layers whose inputs are quantized in each run are not measured one by one"
            raise CompileError(message, hint="leave out dynamic; amct quantize takes it", option="dynamic")

    @property
    def equalized(self) -> Request:
        """The part of the request that is left once channels are rotated and equalized."""
        done = {step.option: False for step in RECOVERY if step.of_channels}
        return replace(self, recovery=replace(self.recovery, **done))

    @property
    def layer_by_layer(self) -> Request:
        """The request for a network whose layers are measured one by one: without the default correction of biases, and with
        a default rounding of weights that does not make up for the layers before, too; outputs decide which weights are portable.
        """
        recovery = replace(self.recovery, correct_bias=bool(self.recovery.correct_bias))
        return replace(self, recovery=recovery, settings=_always_portable(self.settings), usual="gptq")

    @property
    def by_nearest(self) -> Request:
        """The request for trials, with nothing that takes data to win accuracy back."""
        return replace(self, recovery=NO_RECOVERY, settings=_always_portable(self.settings))

    def within(self, module: ModuleOp, session: Session) -> Resolved:
        """The request in the names of a module's layers, with the settings of each of them.

        Raises CompileError, located in the settings' file, for layers and observers that do not exist, and for what a layer
        cannot have.
        """
        layers = resolve(self.settings, module, self.profile)
        check_observers(layers.settings, session.observers)
        record = self.record
        if record is not None:
            record = record_in_module(record, LayerNames.of(module), able_names(layers.candidates))
        elif any(isinstance(op, DequantizeOp | DequantizeFloatOp) for op in module.walk()):
            layers = replace(layers, keeps=True)
        return Resolved(layers.settings, self.profile, record, self.points, self.recovery, layers=layers)


@dataclass(frozen=True)
class Resolved(Request):
    """A request in the names of one module's layers, with its settings of each: all that decides about the module."""

    layers: Layers = field(kw_only=True)


@dataclass(frozen=True)
class Wanted:
    """Options of quantization with their files read; a profile makes a request of them."""

    settings: Settings
    record: Record | None
    recovery: RecoveryOptions
    options: QuantizeOptions
    """The options as they were given."""

    def request(self, profile: Profile) -> Request:
        """Raises CompileError, located in a file where there is one, for what the profile does not support."""
        return Request(self.settings, profile, self.record, self.options.points, self.recovery)


def wanted_of(options: QuantizeOptions) -> Wanted:
    """Raises CompileError for bad options and files, located at the line or layer."""
    settings = settings_of(options.settings)
    record, recovery = _record_of(options.settings, settings), options.recovery
    alone = settings.common is not None and settings.common.weight_compress_only
    if options.settings.config is not None or record is not None or alone:
        recovery = replace(_as_asked(recovery), equalize=bool(recovery.equalize))
    elif recovery.rounds_weights:
        recovery = _as_asked(recovery)
    return Wanted(settings, record, recovery, options)


def _always_portable(settings: Settings) -> Settings:
    """The settings with portable weights in all layers, unless they are not asked for."""
    return replace(settings, portable="strict") if settings.portable == "auto" else settings


def _as_asked(recovery: RecoveryOptions) -> RecoveryOptions:
    """The options with weights rounded, and biases corrected, only if requested."""
    rounding = recovery.round_weights or "nearest"
    return replace(recovery, round_weights=rounding, correct_bias=bool(recovery.correct_bias))


def request_of(options: QuantizeOptions, session: Session) -> Request:
    """The request of options in a session. Raises CompileError like both steps."""
    return wanted_of(options).request(profile_of(session))


def settings_of(options: SettingsOptions) -> Settings:
    """The settings that options make. Raises CompileError for bad ones, and for a bad configuration, located at line or layer."""
    given = _configured(options.config)
    _check_effect(options, given)
    common = given.common or Calibration()
    weight = common.weight
    if isinstance(weight, Arq):
        asymmetric = weight.asymmetric if options.weight_asymmetric is None else options.weight_asymmetric
        size = options.group_size or weight.group_size
        search = weight.search if options.weight_search is None else options.weight_search
        bits = options.weight_bits or weight.bits
        number_format = options.weight_format or weight.number_format or options.activation_format
        weight = replace(
            weight, bits=bits, asymmetric=asymmetric, group_size=size, search=search, number_format=number_format
        )
    if options.channel_wise is not None:
        weight = replace(weight, channel_wise=options.channel_wise)
    activation = Activation(
        options.observer or common.activation.observer,
        options.bits or common.activation.bits,
        common.activation.asymmetric if options.activation_offset is None else options.activation_offset,
    )
    if options.dynamic:
        _check_dynamic(options)
    elif options.activation_format is not None:
        _check_activation_format(options)
    alone = common.weight_compress_only if options.weight_only is None else options.weight_only
    alone = alone or bool(options.dynamic) or options.activation_format is not None
    for option, given_value in (
        ("group-size", options.group_size),
        ("weight-format", options.weight_format),
        ("embeddings", options.embeddings or None),
    ):
        if given_value is not None and not alone:
            message = f"{option} applies to weights that are quantized by themselves"
            raise CompileError(message, hint="give weight-only=true", option=option)
    return replace(
        given,
        common=replace(
            common,
            activation=activation,
            weight=weight,
            migration_strength=common.migration_strength if options.dmq is None else options.dmq,
            weight_compress_only=alone,
        ),
        activation_offset=given.activation_offset if options.activation_offset is None else options.activation_offset,
        fakequant_precision_mode=options.fakequant_precision_mode or given.fakequant_precision_mode,
        shift=given.shift if options.shift is None else options.shift,
        dynamic=bool(options.dynamic),
        embeddings=options.embeddings or given.embeddings,
        activation_format=options.activation_format,
        observed_by_default=options.config is None and options.observer is None,
        portable=options.portable or given.portable,
        weights_first=given.weights_first if options.weights_first is None else options.weights_first,
        skip_layers=tuple(dict.fromkeys((*given.skip_layers, *options.skip_layers))),
        skip_layer_types=tuple(dict.fromkeys((*given.skip_layer_types, *options.skip_layer_types))),
        only_layers=options.only_layers or given.only_layers,
        by_layer=given.by_layer if given.enabled is None else _observed(given.by_layer, options.observer),
        weight_bits={**given.weight_bits, **_bits_by_layer("layer_weight_bits", options.layer_weight_bits)},
        bits={**given.bits, **_bits_by_layer("layer_bits", options.layer_bits)},
        joint_quant=given.joint_quant if options.joint_quant is None else options.joint_quant,
        tensor_quantize=(*given.tensor_quantize, *(_tensor(text, activation) for text in options.tensor_quantize)),
    )


def _check_dynamic(options: SettingsOptions) -> None:
    """Raises CompileError for an option that products of int8 with inputs quantized in each run have no use for."""
    useless = {
        "weight-only": options.weight_only is False,
        "weight-bits": options.weight_bits not in (None, 8),
        "weight-asymmetric": bool(options.weight_asymmetric),
        "group-size": options.group_size is not None,
        "weight-format": options.weight_format is not None,
        "activation-format": options.activation_format is not None,
        "bits": options.bits not in (None, 8),
        "layer-bits": bool(options.layer_bits),
    }
    _refuse("dynamic multiplies int8 weights, with a scale for each output channel, by int8 inputs", useless)


def _check_activation_format(options: SettingsOptions) -> None:
    """Raises CompileError for an option that inputs in floats of 8 bits have no use for."""
    useless = {
        "weight-only": options.weight_only is False,
        "bits": options.bits is not None,
        "layer-bits": bool(options.layer_bits),
        "observer": options.observer is not None,
        "activation-offset": options.activation_offset is not None,
        "dmq": options.dmq is not None,
    }
    _refuse("activation-format makes inputs floats of 8 bits, whose scale follows from the largest magnitude", useless)


def _refuse(because: str, useless: Mapping[str, bool]) -> None:
    """Raises CompileError for the first option that is given."""
    if name := next((name for name, given in useless.items() if given), None):
        raise CompileError(f"{because}: {name} does not apply", hint=f"leave out {name}", option=name)


def _configured(config: str | Settings | None) -> Settings:
    if config is None:
        return Settings(common=Calibration(Activation(DEFAULT_OBSERVER), Arq(search=None)))
    return config if isinstance(config, Settings) else read_settings(Path(config))


def _observed(layers: Mapping[str, Calibration], observer: str | None) -> Mapping[str, Calibration]:
    """The settings of layers with the option's observer, if it is given."""
    if observer is None:
        return layers
    return {
        name: replace(each, activation=replace(each.activation, observer=observer)) for name, each in layers.items()
    }


def _check_effect(options: SettingsOptions, given: Settings) -> None:
    """Raises CompileError, located in the configuration, for an option that nothing would follow."""
    if given.enabled is None or options.tensor_quantize:
        return
    for option in (o for o in _OF_ALL_LAYERS if getattr(options, o) is not None):
        raise CompileError(
            f"has settings of its own for every layer: {option.replace('_', '-')} changes nothing",
            where=given.where,
            hint="change them in the file",
        )


def _record_of(options: SettingsOptions, settings: Settings) -> Record | None:
    """Raises CompileError for a bad record, located at its line: one with shifts, too, where joint_quant is off.

    Without a configuration the shifts of a record say that it is on.
    """
    if options.record is None or isinstance(options.record, Record):
        return options.record
    unsaid = options.config is None and options.joint_quant is None
    return read_record(Path(options.record), joint_quant=settings.joint_quant or unsaid)


def _bits_by_layer(name: str, texts: Iterable[str]) -> dict[str, int]:
    """The bits that texts such as `conv1:4` give layers. Raises CompileError for a text without bits."""
    found = {text: tensor_parts(text) for text in texts}
    option = name.replace("_", "-")
    for text, (_, bits) in found.items():
        if bits < 0:
            message = f"{option}: '{text}' does not give a layer bits"
            raise CompileError(message, hint="write layer:bits, conv1:8", option=option)
    return dict(found.values())


def _tensor(text: str, activation: Activation) -> TensorQuantize:
    layer, index = tensor_parts(text)
    if index < 0:
        message = f"tensor-quantize: '{text}' is not an input of a layer"
        raise CompileError(message, hint="write layer:index, pool1:0", option="tensor-quantize")
    return TensorQuantize(layer, index, activation)
