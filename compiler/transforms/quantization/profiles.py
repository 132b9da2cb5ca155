"""Target profiles: what is quantized in each operation, and how, as data. A profile is a table, not a subclass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, cast
from warnings import warn

from ...dialects import nn
from ...dialects.nn import (
    AddOp,
    AveragePoolOp,
    ConvOp,
    ConvTransposeOp,
    GlobalAveragePoolOp,
    MatMulOp,
    NNOp,
)
from ...session import Session
from ...support.diagnostics import CompileError
from ...support.registry import References, load
from .decide.conditions import (
    DecideAverage,
    DecideElementwise,
    DecideLayer,
    DecidePassive,
    DecideWeighted,
    check_conditions,
)
from .decide.rows import Alignment as Alignment, LayerRow, Mode as Mode, Row as Row, Rule
from .tables import UNIFORM, listed_in


class Points(NamedTuple):
    """Facts that follow from where a profile has its points."""

    balanced: bool
    """Channels of inputs can be balanced: each layer has its input to itself."""
    shifted: bool
    """Sums keep 16 bits with joint_quant, unless settings say otherwise (AMCT)."""
    recurrent: bool
    """LSTM and GRU compute in integers; otherwise only their weights are quantized, on request."""
    aligned: bool
    """Options say which values share parameters and which have no point of their own (`PointOptions`)."""
    ruled: bool
    """The conditions of a row also apply to layers with observers placed by hand."""
    by_region: bool
    """The first quantized operation of a fused region decides about all of it."""
    kernels: bool
    """Quantized operations can be computed with integers throughout, as onnxruntime's kernels do."""


_POINTS: Mapping[str, Points] = {
    "layers": Points(True, True, True, aligned=False, ruled=False, by_region=False, kernels=False),
    "values": Points(False, False, False, aligned=True, ruled=True, by_region=True, kernels=True),
}


@dataclass(frozen=True)
class Profile:
    """A target as tables: the operations that it quantizes and how, those that it merges into one, and the places of its
    points.
    """

    name: str
    rows: Mapping[type[NNOp], Row]
    target: str = ""
    """The purpose of the profile, in words."""
    activations: frozenset[str] = frozenset()
    """The activations that the target computes in one operation with the convolution or matrix product before it, by
    fuse-activation's names.
    """
    fuse_add: bool = False
    """Whether that operation includes a residual add."""
    table: tuple[LayerRow, ...] = UNIFORM
    """The source layers that can be quantized, with their rules; empty if only the operation decides."""
    points: Literal["layers", "values"] = "layers"
    """The values that have quantization points: the inputs of layers, or every value that a quantized operation takes or gives.
    """
    alignment: Mapping[Alignment, Mode] = field(default_factory=dict[Alignment, Mode])
    """The alignment of each kind of operation if the options do not give it; kinds that are not listed are not aligned."""
    amct: Literal["pytorch"] | None = None
    """The AMCT whose fusions and arithmetic apply: PyTorch's fuses batch norms alone, into convolutions, and computes constants
    in float32, as torch does. None for every fold, in float64.
    """
    also: tuple[str, ...] = ()
    """The files that its target needs next to the ONNX file with QDQ, by role in `amct quantize`: `deploy` is that for ATC."""
    chip: str | None = None
    """The chip whose kernels its layers need (`on`); None for what holds for all."""
    timed_in: Literal["onnxruntime", "openvino"] = "onnxruntime"
    """The engine in which `amct quantize` times files."""
    unsigned_file: Literal["none", "offset", "all"] = "none"
    """The activations that files store as uint8, the same values with zero points shifted by 128: none, those with a zero point,
    or all.
    """

    @property
    def listed(self) -> Rule | None:
        """The condition that its table has a layer; None without a table."""
        return listed_in(self.table)

    @property
    def facts(self) -> Points:
        """Facts that follow from where it has points."""
        return _POINTS[self.points]

    def recurrent_refusal(self, kind: str) -> str | None:
        """The reason why only the weights of layers of a type (LSTM, GRU) can be integers; None if all of the layer can."""
        if not self.facts.recurrent:
            return f"profile {self.name} quantizes only its weights, on request"
        judge = next((row.judge for row in self.rows.values() if row.judge is not None), None)
        return None if judge is None else judge.recurrent_refusal(kind)

    def on(self, chip: str | None) -> Profile:
        """The profile for a chip: layers without a kernel stay float. Raises CompileError if no judge knows chips."""
        if chip is None:
            return self
        if not any(row.judge for row in self.rows.values()):
            hint = "leave it out, or give profile ascend or ascend-a2"
            raise CompileError(f"profile {self.name} is for no chip of Ascend", hint=hint, option="chip")
        return replace(self, chip=chip, rows={kind: row.on(chip) for kind, row in self.rows.items()})

    def __post_init__(self) -> None:
        """Raises TypeError for a row with a condition of another kind of operation."""
        for kind, row in self.rows.items():
            check_conditions(kind, row.rules)


_WEIGHT, _BIAS = DecideWeighted.weight_constant, DecideWeighted.bias_constant

_ACTIVE: tuple[type[NNOp], ...] = (
    *nn.kinds(nn.ActivationOp),
    nn.BatchNormOp,
    nn.BiasAddOp,
    nn.ReduceMeanOp,
)
_SCORES = (DecideLayer.softmax_input,)
_PASSIVE: tuple[type[NNOp], ...] = (nn.GlobalMaxPoolOp, nn.MaxPoolOp, nn.SplitOp)
_MOVING: tuple[type[NNOp], ...] = (
    nn.FlattenOp,
    nn.ReshapeOp,
    nn.SliceOp,
    nn.SqueezeOp,
    nn.TransposeOp,
    nn.UnsqueezeOp,
)

PPQ = Profile(
    name="ppq",
    target="NPUs that quantize every value",
    rows={
        **{kind: Row() for kind in _ACTIVE},
        **{kind: Row(rules=_SCORES) for kind in (nn.MaxOp, nn.MinOp, nn.MulOp)},
        nn.DivOp: Row(rules=(*_SCORES, DecideElementwise.softmax_part)),
        **{kind: Row(active=False) for kind in _PASSIVE},
        **{kind: Row(rules=_SCORES, active=False) for kind in _MOVING},
        nn.PadOp: Row(rules=(DecidePassive.pads_with_zero,), active=False),
        ConvOp: Row(1, 2, per_channel=True, rules=(_WEIGHT, _BIAS), low_bits="always", channel_formats=True),
        ConvTransposeOp: Row(1, 2, per_channel=True, rules=(_WEIGHT, _BIAS), low_bits="always", channel_formats=True),
        MatMulOp: Row(1, 2, per_channel=True, rules=(_BIAS,), low_bits="always", weight_only="always"),
        AddOp: Row(rules=_SCORES, alignment="elementwise"),
        nn.SubOp: Row(rules=_SCORES, alignment="elementwise"),
        nn.ConcatOp: Row(alignment="concat"),
        AveragePoolOp: Row(rules=(DecideAverage.integer_average,), alignment="pooling"),
        GlobalAveragePoolOp: Row(alignment="pooling"),
        nn.ResizeOp: Row(alignment="resize"),
    },
    activations=frozenset({"relu", "relu6", "clip"}),
    table=(),
    points="values",
    alignment={"elementwise": "large", "concat": "output", "resize": "output"},
    unsigned_file="all",
)
"""PPQ's semantics, for integer runtimes that add and concatenate values of one scale: every value is quantized once, where it is
made, and operands share parameters as PPQ aligns them. Weights have a scale per channel, those of matrix products too. Identity
and Dropout are gone since import. Only linear activations join the operation before them, and residual adds do not: integer
runtimes compute anything else after a convolution in float. Softmax stays float, in files too: onnxruntime's integer kernel
does not saturate, and gives 0 for the largest values. What only scales, masks and moves its input stays float with it, so that
no range holds masks.
"""

QDQ = Profile(
    name="qdq",
    target="onnxruntime and other runtimes that read ONNX",
    rows={
        **{kind: Row(active=False, between=True) for kind in _PASSIVE},
        **{kind: Row(rules=_SCORES, active=False, between=True) for kind in _MOVING},
        nn.PadOp: Row(rules=(DecidePassive.pads_with_zero,), active=False, between=True),
        nn.ResizeOp: Row(rules=(DecidePassive.resize_nearest,), active=False, between=True),
        ConvOp: Row(1, 2, per_channel=True, rules=(_WEIGHT, _BIAS), low_bits="always", channel_formats=True),
        MatMulOp: Row(
            1, 2, per_channel=True, rules=(_BIAS,), gives_reals=True, low_bits="always", weight_only="always"
        ),
        **{kind: Row(between=True) for kind in (nn.ReluOp, nn.Relu6Op, nn.ClipOp, nn.LeakyReluOp, nn.SigmoidOp)},
        nn.MulOp: Row(rules=_SCORES, between=True),
        AddOp: Row(rules=_SCORES, alignment="elementwise", between=True),
        nn.ConcatOp: Row(alignment="concat", between=True),
        AveragePoolOp: Row(rules=(DecideAverage.integer_average,), alignment="pooling", between=True),
        GlobalAveragePoolOp: Row(alignment="pooling", between=True),
        nn.ReduceMeanOp: Row(rules=(DecideAverage.averages_space,), alignment="pooling", between=True),
    },
    activations=frozenset({"relu", "relu6", "clip"}),
    table=(),
    points="values",
    unsigned_file="all",
)
"""onnxruntime's integer kernels on CPUs. They add and concatenate values of different scales: nothing is aligned. Convolutions
give integers; matrix products give reals as well, for whatever reads them in float. All else is quantized only between
these. What has no integer kernel stays float: transposed convolutions, linear Resize, Sub, Softmax, normalizations, and most
activations.
"""

OPENVINO = replace(
    QDQ,
    name="openvino",
    target="OpenVINO",
    activations=frozenset(
        {"relu", "relu6", "clip", "leaky_relu", "elu", "tanh", "softplus", "sigmoid", "hard_sigmoid"}
        | {"swish", "hard_swish", "mish", "gelu"}
    ),
    fuse_add=True,
    timed_in="openvino",
    unsigned_file="offset",
)
"""OpenVINO's integer kernels on CPUs. They take what onnxruntime's take, but a convolution also adds another value to its sums,
and computes an activation of them, before it rounds: only the result of the whole has a point. Points inside it cost time,
and OpenVINO does not round at all of them. Zero points cost time, but int8 with one runs in float.
"""


def profile_of(session: Session) -> Profile:
    """The profile selected in a session, for its chip. Raises CompileError for an unknown name, and if it has no chips."""
    return cast(Profile, session.profiles[session.profile]).on(session.chip)


def __getattr__(name: str) -> object:
    """Ascend's profiles stood here in the last release."""
    if name not in ("ASCEND", "ASCEND_A2", "ASCEND_PYTORCH", "PROFILES", "like_amct"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    if name == "PROFILES":
        warn(f"{__name__}.PROFILES is deprecated: sessions have `profiles`", DeprecationWarning, stacklevel=2)
        return References[Profile](load(".session.catalogue:PROFILES"))
    warn(f"{name} is in amct_opt.lowering.ascend.profiles now", DeprecationWarning, stacklevel=2)
    return load(f".lowering.ascend.profiles:{name}")
