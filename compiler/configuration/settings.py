"""AMCT's settings as dataclasses: what is quantized, and how.

Values are checked when a dataclass is made. Errors name the setting; readers of files add the place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field, fields, replace
from math import inf
from typing import Literal, get_args

from ..dialects.nn.how import How
from ..ir.number_formats import NUMBER_FORMATS
from ..observers import OBSERVERS, make_observer
from ..support.diagnostics import CompileError
from .ranges import Bits, GroupSize, WeightBits, at_least, no_repetition, one_of, within

IFMR, HFMG = "ifmr", "hfmg"
"""AMCT's observers; the first is the default. Settings made in Python or by options may name any other."""


@dataclass(frozen=True)
class Activation:
    """The quantization of a layer's input."""

    observer: str = IFMR
    """The observer with its parameters, as `make_observer` reads it: `ifmr{search-step=0.02}`. A name that is not ours must be
    registered in the session (`check_observers`).
    """
    bits: int = 8
    asymmetric: bool | None = None
    """Whether there is a zero point. None: from the settings for the layer's type, for all layers, then `activation_offset`."""

    def __post_init__(self) -> None:
        if self.algorithm in OBSERVERS:
            make_observer(self.observer, self.bits, symmetric=False)
        one_of("bits of activations", self.bits, get_args(Bits))

    @property
    def algorithm(self) -> str:
        """The observer's name, without its parameters."""
        return self.observer.partition("{")[0]


@dataclass(frozen=True)
class Arq:
    """Quantizes weights from their smallest to their largest value, per tensor or per output channel."""

    channel_wise: bool | None = None
    """Whether each output channel has a scale of its own. None: if the layer's type supports it."""
    bits: int = 8
    asymmetric: bool | None = None
    """Only for weight-only layers."""
    group_size: int | None = None
    """A scale for each output channel and group of this many input channels. Only for weight-only layers; AMCT's files do not
    have it.
    """
    search: bool | None = False
    """Whether scales are those of least squared error, below the ones that cover the largest value; None: in groups of
    4 bits or less. AMCT's files do not have it.
    """
    number_format: str | None = None
    """A format of floats (`NUMBER_FORMATS`) in place of integers. Only for weight-only layers; AMCT's files do not have it."""

    def __post_init__(self) -> None:
        one_of("quant_bits", self.bits, get_args(WeightBits))
        if self.bits == 2 and self.group_size is None:
            raise CompileError(
                "quant_bits 2 needs group_size: 4 integers are too few for all weights of an output channel",
                hint="give weight-only=true group-size=32",
                option="weight-bits",
            )
        if self.number_format is not None:
            if self.number_format not in NUMBER_FORMATS:
                raise CompileError(
                    f"number_format must be one of {', '.join(NUMBER_FORMATS)}, not {self.number_format}"
                )
            of_integers = {
                "weight-bits": self.bits != 8,
                "group-size": self.group_size,
                "weight-asymmetric": self.asymmetric,
            }
            if given := next((name for name, value in of_integers.items() if value), None):
                message = (
                    f"{self.number_format} has bits and groups of its own, and no zero points: {given} is for integers"
                )
                raise CompileError(message, option=given)
            if self.channel_wise is False and self.block is not None:
                raise CompileError(f"{self.number_format} has a scale for each group: channel_wise cannot be false")
        if self.group_size is not None:
            one_of("group_size", self.group_size, get_args(GroupSize))
            if self.channel_wise is False:
                raise CompileError(
                    "group_size gives each output channel scales of its own: channel_wise cannot be false"
                )

    @property
    def searched(self) -> bool:
        """Whether scales are those of least squared error. Without groups they clip the largest weights of a channel, an error
        that does not cancel out: ResNet-20 with 4 bits loses 4 dB.
        """
        in_few_bits = self.bits <= 4 and self.group_size is not None
        return in_few_bits if self.search is None else self.search

    @property
    def by_channel(self) -> Arq:
        """Copies these settings for a weight that cannot have groups: one scale per channel, and 8 bits instead of 2."""
        return replace(self, group_size=None, bits=8 if self.bits == 2 else self.bits)

    @property
    def block(self) -> int | None:
        """The number of input channels that share a scale; None for a scale per output channel."""
        return self.group_size if self.number_format is None else NUMBER_FORMATS[self.number_format].block

    def how(self, axis: int | None, groups: int | None = None) -> How:
        """The quantization with a scale for each index of `axis`, or for each group of input channels, along the axis
        `groups`.
        """
        return How(
            self.bits,
            not self.asymmetric,
            axis=axis if self.block is None else groups,
            block=self.block,
            number_format=self.number_format,
            search=self.searched,
        )


@dataclass(frozen=True)
class Ada:
    """Rounds weights up or down so that the layer's output is closer."""

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

    def how(self, axis: int | None, groups: int | None = None) -> How:
        """The quantization with a scale for each index of `axis`; its parameters are options of `--round-weights`."""
        names = [f.name for f in fields(self) if f.name != "channel_wise"]
        options = " ".join(f"{name.replace('_', '-')}={getattr(self, name)}" for name in names)
        return How(self.bits, axis=axis, rounding=f"adaround{{{options}}}")


@dataclass(frozen=True)
class Nuq:
    """Weights with few distinct integers, at most `num_steps` of the 256."""

    num_steps: int = 32
    num_of_iteration: int = 1
    channel_wise: bool | None = None

    bits = 8

    def __post_init__(self) -> None:
        one_of("num_steps", self.num_steps, (16, 32))
        one_of("num_of_iteration", self.num_of_iteration, range(6))

    def how(self, axis: int | None, groups: int | None = None) -> How:
        """The quantization with a scale for each index of `axis`."""
        return How(self.bits, axis=axis, levels=self.num_steps)


Weighting = Arq | Ada | Nuq


@dataclass(frozen=True)
class Calibration:
    """The quantization of a layer. If several settings apply to a layer, the most specific one wins; settings are not merged."""

    activation: Activation = Activation()
    weight: Weighting = Arq()
    migration_strength: float | None = None
    """The share of the spread of activations that DMQ moves into the weights; None for no DMQ."""
    weight_compress_only: bool = False
    """Whether only the weight is quantized."""

    def __post_init__(self) -> None:
        if self.migration_strength is not None:
            within("migration_strength", self.migration_strength, 0.2, 0.8, closed=True)
        if self.weight_compress_only and not isinstance(self.weight, Arq):
            raise CompileError("weight_compress_only takes arq_quantize, no other algorithm for weights")


@dataclass(frozen=True)
class TensorQuantize:
    """A single input of a layer to quantize, so that less data is moved."""

    layer_name: str
    input_index: int
    activation: Activation = Activation()

    def __post_init__(self) -> None:
        at_least("input_index", self.input_index, 0)


@dataclass(frozen=True)
class NuqConfig:
    """The layers to quantize non-uniformly: those that ATC's listing of the uniformly quantized model marks."""

    mapping_file: str
    nuq_quantize: Nuq = Nuq()


@dataclass(frozen=True)
class Settings:
    """All settings. Fields have the names and defaults of AMCT's simplified configuration."""

    batch_num: int | None = None
    """The number of batches that calibrate; None for all of them (AMCT: 1)."""
    activation_offset: bool = True
    joint_quant: bool = False
    shift: bool | None = None
    """Whether sums are kept in 16 bits, shifted (shift-N); requires `joint_quant`. None, because AMCT's files have no such
    setting: if `joint_quant` is on and the profile quantizes the inputs of layers.
    """
    weight_offset: bool = False
    """Whether weight-only weights are asymmetric, unless a more specific setting applies."""
    dynamic: bool = False
    """Whether products of weights of int8 quantize their inputs in each run. An option; AMCT's files do not have it."""
    embeddings: bool = False
    """Whether tables of embeddings are quantized as other weights are by themselves. An option; AMCT's files do not have it."""
    activation_format: str | None = None
    """The format (`ACTIVATION_FORMATS`) of inputs of layers whose weights have one. An option; AMCT's files do not have it."""
    skip_layers: tuple[str, ...] = ()
    skip_layer_types: tuple[str, ...] = ()
    only_layers: tuple[str, ...] = ()
    """If not empty, only these layers are quantized. An option; AMCT's files do not have it."""
    weight_bits: Mapping[str, int] = field(default_factory=dict[str, int])
    """Bits of the weights of single layers, in place of all other settings. An option; AMCT's files do not have it."""
    bits: Mapping[str, int] = field(default_factory=dict[str, int])
    """Bits of the activations of single layers, in place of all other settings. An option; AMCT's files do not have it."""
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
    """The only layers to quantize; None for all that can be."""
    weights_first: bool | None = None
    """Whether activations are calibrated while layers compute with quantized weights; None for `as_amct`. AMCT's files have no
    such setting.
    """
    portable: Literal["strict", "auto", "off"] = "auto"
    """The weights that have exact sums of products on every processor, in profiles for onnxruntime: all, those that
    lose little by it or are at risk, or none. An option; AMCT's files do not have it.
    """
    observed_by_default: bool = field(default=False, compare=False)
    """Whether nobody has named the observer, so that others may be tried."""
    as_amct: bool = field(default=False, compare=False)
    """Whether to calibrate as AMCT does, as its files imply: weights first, and DMQ's factors from the first run of the model."""
    where: str = field(default="", compare=False)
    """The file that it was read from, for messages."""
    observer: InitVar[str | None] = None
    """A short form in Python: the observer of `common`, which finds the ranges of inputs."""

    def __post_init__(self, observer: str | None) -> None:
        if observer is not None:
            common = self.common or Calibration()
            activation = replace(common.activation, observer=observer)
            object.__setattr__(self, "common", replace(common, activation=activation))
        if self.batch_num is not None:
            at_least("batch_num", self.batch_num, 1)
        if self.shift and not self.joint_quant:
            raise CompileError("shift requires joint_quant", option="shift")
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
        for bits in self.weight_bits.values():
            one_of("layer_weight_bits", bits, get_args(WeightBits))
        for bits in self.bits.values():
            one_of("layer_bits", bits, get_args(Bits))
        no_repetition("tensor_quantize", [f"{t.layer_name}:{t.input_index}" for t in self.tensor_quantize])


def tensor_parts(name: str) -> tuple[str, int]:
    """Splits `layer:1`, a layer and a number, into both; returns the whole text and -1 for other forms."""
    layer, _, index = name.rpartition(":")
    return (layer, int(index)) if layer and index.isascii() and index.isdigit() else (name, -1)
