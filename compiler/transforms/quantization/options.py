"""Options of the passes of quantization: AMCT's files, or the most used of their settings one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal

from ...configuration.files import read_settings
from ...configuration.record import Record, read_record
from ...configuration.settings import Activation, Arq, Calibration, Settings, TensorQuantize, tensor_parts
from ...diagnostics import CompileError
from .profiles import Alignment, Mode, Profile

DEFAULT_OBSERVER = "mse"
"""Where no configuration is given; AMCT's own, in a configuration that names none, is ifmr."""
_OF_ALL_LAYERS = (
    "bits",
    "weight_bits",
    "channel_wise",
    "weight_only",
    "weight_asymmetric",
    "group_size",
    "dmq",
)
"""Options that hold for layers without settings of their own. A JSON configuration leaves none; the observer is replaced in each
of them.
"""
_ALONE = "give weight-only=true"


@dataclass(frozen=True, kw_only=True)
class SettingsOptions:
    """Options, and the settings that they make. Beside a configuration they are added to it: lists are joined, and what is said
    of all layers takes the place of what the file says of all layers.
    """

    config: str | Settings | None = None
    """A configuration of AMCT: JSON in a file ending in .json, else a simplified one."""
    record: str | Record | None = None
    """A record file of AMCT: its parameters are taken for the layers that it lists, the others stay float."""
    observer: str | None = None
    """The algorithm that finds ranges, with its options: `hfmg{num-of-bins=2048}`; mse when nothing else is said."""
    bits: Literal[4, 8, 16] | None = None
    """Bits of activations."""
    weight_bits: Literal[3, 4, 6, 7, 8] | None = None
    """Bits of weights, where the layer's type takes them. 3 bits are stored in 4, 6 and 7 in 8."""
    layer_weight_bits: tuple[str, ...] = ()
    """Bits of the weights of single layers, `conv1:8,layer2.0:4`, in place of all other settings."""
    channel_wise: bool | None = None
    """A scale for each output channel of weights; where the layer's type can, when not given."""
    weight_only: bool | None = None
    """True for weights alone (`weight_compress_only`): inputs stay float, and nothing is calibrated."""
    weight_asymmetric: bool | None = None
    """Zero points for weights that are quantized alone."""
    group_size: Literal[16, 32, 64, 128, 256] | None = None
    """A scale for each output channel and group of so many input channels, of weights that are quantized alone."""
    activation_offset: bool | None = None
    """False for activations without a zero point."""
    dmq: float | None = None
    """How much of the spread of activations goes into the weights, 0.2 to 0.8: the `migration_strength` of all layers.
    No layer is balanced when not given.
    """
    fakequant_precision_mode: Literal["FORCE_FP16_QUANT"] | None = None
    """Scales of activations, and those of accumulators in Ascend's dialect, keep as many bits as float16's have."""
    joint_quant: bool | None = None
    """Values that an addition joins share their parameters (AMCT); in place of the configuration's."""
    weights_first: bool | None = None
    """Whether ranges of activations are found while layers compute with quantized weights, as in AMCT. When not given: if there
    is a configuration file.
    """
    shift: bool | None = None
    """Sums keep 16 bits, shifted by what data or the record says. Needs `joint_quant`, which shifts them unless this is false."""
    skip_layers: tuple[str, ...] = ()
    """Layers that stay float."""
    skip_layer_types: tuple[str, ...] = ()
    """Types of layers that stay float, as the source calls them."""
    only_layers: tuple[str, ...] = ()
    """Every other layer stays float; that one of these cannot be quantized is an error."""
    tensor_quantize: tuple[str, ...] = ()
    """Single inputs to quantize, such as `pool1:0,add:1`: a layer of max pooling or addition and the index of its
    input.
    """

    def settings(self) -> Settings:
        """Raises CompileError for bad options, and for a bad configuration, located at its line or layer."""
        given = self._file()
        self._check_effect(given)
        common = given.common or Calibration()
        weight = common.weight
        if isinstance(weight, Arq):
            asymmetric = weight.asymmetric if self.weight_asymmetric is None else self.weight_asymmetric
            size = self.group_size or weight.group_size
            weight = replace(weight, bits=self.weight_bits or weight.bits, asymmetric=asymmetric, group_size=size)
        if self.channel_wise is not None:
            weight = replace(weight, channel_wise=self.channel_wise)
        activation = Activation(
            self.observer or common.activation.observer,
            self.bits or common.activation.bits,
            common.activation.asymmetric if self.activation_offset is None else self.activation_offset,
        )
        alone = common.weight_compress_only if self.weight_only is None else self.weight_only
        if self.group_size is not None and not alone:
            message = "group-size applies to weights that are quantized alone"
            raise CompileError(message, hint=_ALONE, option="group-size")
        return replace(
            given,
            common=replace(
                common,
                activation=activation,
                weight=weight,
                migration_strength=common.migration_strength if self.dmq is None else self.dmq,
                weight_compress_only=alone,
            ),
            activation_offset=given.activation_offset if self.activation_offset is None else self.activation_offset,
            fakequant_precision_mode=self.fakequant_precision_mode or given.fakequant_precision_mode,
            shift=self.shift,
            weights_first=given.weights_first if self.weights_first is None else self.weights_first,
            skip_layers=tuple(dict.fromkeys((*given.skip_layers, *self.skip_layers))),
            skip_layer_types=tuple(dict.fromkeys((*given.skip_layer_types, *self.skip_layer_types))),
            only_layers=self.only_layers,
            by_layer=given.by_layer if given.enabled is None else self._observed(given.by_layer),
            weight_bits=dict(map(_bits, self.layer_weight_bits)),
            joint_quant=given.joint_quant if self.joint_quant is None else self.joint_quant,
            tensor_quantize=(*given.tensor_quantize, *(_tensor(text, activation) for text in self.tensor_quantize)),
        )

    def _observed(self, layers: Mapping[str, Calibration]) -> Mapping[str, Calibration]:
        """The settings of layers with the option's observer, if it is given."""
        if self.observer is None:
            return layers
        return {
            name: replace(each, activation=replace(each.activation, observer=self.observer))
            for name, each in layers.items()
        }

    def files(self) -> list[Path]:
        """The files that are named."""
        return [Path(each) for each in (self.config, self.record) if isinstance(each, str)]

    def _check_effect(self, given: Settings) -> None:
        """Raises CompileError, located in the configuration, for an option that nothing would follow."""
        if given.enabled is None or self.tensor_quantize:
            return
        for option in (o for o in _OF_ALL_LAYERS if getattr(self, o) is not None):
            raise CompileError(
                f"has settings of its own for every layer: {option.replace('_', '-')} changes nothing",
                where=given.where,
                hint="change them in the file",
            )

    def _file(self) -> Settings:
        if self.config is None:
            return Settings(common=Calibration(Activation(DEFAULT_OBSERVER)))
        return self.config if isinstance(self.config, Settings) else read_settings(Path(self.config))

    def records(self, settings: Settings) -> Record | None:
        """Raises CompileError for a bad record, located at its line: one with shifts, too, where joint_quant is off.

        Without a configuration the shifts of a record say that it is on.
        """
        if self.record is None or isinstance(self.record, Record):
            return self.record
        unsaid = self.config is None and self.joint_quant is None
        return read_record(Path(self.record), joint_quant=settings.joint_quant or unsaid)


# the names are those of PPQ's settings
@dataclass(frozen=True, kw_only=True)
class PointOptions:
    """Options of profiles that quantize values. What is not given is the profile's: profile ppq aligns as PPQ does, qdq aligns
    nothing. Aligned values are a `group` in the module. They have the
    same bits and symmetry; others are left out, with a remark.
    """

    activation_type: tuple[str, ...] = ()
    """The activations that take the point of the operation before them, `Relu,Clip,LeakyRelu` or `relu,clip,leaky_relu`; the
    profile's when not given.
    """
    fuse_activation: bool | None = None
    """False leaves a point between an operation and its activation; regions of nn.fused have none in any case."""
    fuse_passive_op: bool | None = None
    """False gives the results of passive operations points of their own."""
    align_elementwise: Literal["large", "output", "none"] | None = None
    """How Add and Sub are aligned. large: the operands take the range that holds all of them; output: they take the result's
    parameters. In profile ppq large.
    """
    align_concat: Literal["large", "output", "none"] | None = None
    """large and output as those of additions. In profile ppq output."""
    align_pooling: Literal["input", "output", "none"] | None = None
    """How average pooling is aligned. input: the result takes the input's parameters; output: the reverse."""
    align_resize: Literal["input", "output", "none"] | None = None
    """input and output as those of pooling. In profile ppq output."""
    force_alignment_overlap: bool | None = None
    """True when not given: others that read an aligned value read it by the shared parameters, whose range covers it. False: a
    value that others read as well, or that is an output, keeps its own, and is quantized once more for the aligned operation.
    """

    def check_points(self, profile: Profile) -> None:
        """Raises CompileError for an option that the profile has no use for."""
        given = [f.name.replace("_", "-") for f in fields(PointOptions) if getattr(self, f.name) not in (None, ())]
        if given and not profile.facts.aligned:
            raise CompileError(
                f"profile {profile.name} does not support {given[0]}",
                hint="it is an option of profiles that quantize values: qdq, ppq",
                option=given[0],
            )

    def modes(self, profile: Profile, joint_quant: bool) -> Mapping[Alignment, Mode]:
        """How each kind of operation is aligned. Joint quantization is of additions, where `align-elementwise` is not given."""
        given: Mapping[Alignment, Mode | None] = {
            "elementwise": self.align_elementwise or ("joint" if joint_quant else None),
            "concat": self.align_concat,
            "pooling": self.align_pooling,
            "resize": self.align_resize,
        }
        return {kind: mode or profile.alignment.get(kind, "none") for kind, mode in given.items()}

    def activations(self, profile: Profile) -> frozenset[str]:
        """The kinds of activations, `leaky_relu`; none with `fuse-activation=false`. Raises CompileError for an unknown one."""
        if self.fuse_activation is False:
            return frozenset()
        from ..fusion.fuse_activation.activations import kinds_named

        return kinds_named(self.activation_type) or profile.activations


AS_THE_PROFILE = PointOptions()
"""Every option as the profile has it."""


Method = Literal["gptq", "mismatch", "adaround"]
"""How weights are rounded, other than to the nearest number."""


@dataclass(frozen=True, kw_only=True)
class RecoveryOptions:
    """Each option runs a separate pass; by default none runs."""

    equalize: bool = False
    """Even out channels by powers of two that cancel out, where data shows that it helps (`--equalize`)."""
    fit_ranges: bool = False
    """Choose ranges of activations by the outputs of the layers that read them (`--fit-ranges`)."""
    round_weights: Method | None = None
    """`gptq`, `mismatch` or `adaround`: choose the integers of weights by layers' outputs (`--round-weights`)."""
    correct_bias: bool = False
    """Correct biases for the mean shift of layers' outputs by quantization (`--correct-bias`)."""


NO_RECOVERY = RecoveryOptions()


def _bits(text: str) -> tuple[str, int]:
    layer, bits = tensor_parts(text)
    if bits < 0:
        message = f"layer-weight-bits: '{text}' does not give a layer bits"
        raise CompileError(message, hint="write layer:bits, conv1:4", option="layer-weight-bits")
    return layer, bits


def _tensor(text: str, activation: Activation) -> TensorQuantize:
    layer, index = tensor_parts(text)
    if index < 0:
        message = f"tensor-quantize: '{text}' is not an input of a layer"
        raise CompileError(message, hint="write layer:index, pool1:0", option="tensor-quantize")
    return TensorQuantize(layer, index, activation)
