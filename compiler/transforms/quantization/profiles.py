"""Target profiles: what is quantized in each operation, and how, as data. A profile is a table, not a subclass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
from ...registry import References, load
from ...session import Session
from .decide.conditions import (
    ComputedInIntegers,
    DecideAverage,
    DecideElementwise,
    DecideLayer,
    DecidePassive,
    DecideWeighted,
    Judge,
    Rule,
    check_conditions,
)
from .tables import UNIFORM, LayerRow

Alignment = Literal["elementwise", "concat", "pooling", "resize"]
"""The kinds of operations whose operands and results may have to carry equal parameters (PPQ)."""

Mode = Literal["large", "output", "input", "none", "joint"]
"""How they are aligned: `values/alignment.py`."""


@dataclass(frozen=True)
class Row:
    """How one operation is quantized. Operand 0 is the activation; `weight` and `bias` are operand indices.

    `per_channel` gives each output channel its own weight scale. The rules are the target's conditions beyond the table of
    the layer's source framework (`tables.py`).
    """

    weight: int | None = None
    bias: int | None = None
    per_channel: bool = False
    rules: tuple[Rule, ...] = ()
    symmetric: bool = False
    """The activation has no zero point."""
    active: bool = True
    """False if the results contain only elements of operand 0, so that its parameters apply to them."""
    alignment: Alignment | None = None
    between: bool = False
    """Quantized only if its operands are integers anyway and the readers of its results compute in integers."""
    gives_reals: bool = False
    """The target computes real results from integers as fast as integer results: only integer readers get quantized ones."""
    two_inputs: bool = False
    """If the weight is an activation as well, both are quantized, without zero points."""
    low_bits: Literal["planar", "always"] = "planar"
    """Which weights may have fewer than 8 bits while the input is quantized: in two-dimensional convolutions (AMCT), or all."""
    as_amct: bool = False
    """Whether its parameters are those of AMCT for PyTorch to the bit: scales of weights that are 1 below float32's epsilon,
    biases divided in float32; INT16 inputs and `ada_quantize` for some types of layers only.
    """
    calibrated_in_float: bool = False
    """Whether its weight stays float while ranges of activations are found, even if weights are quantized first (AMCT's
    transposed convolutions).
    """
    weight_only: Literal["table", "always"] | None = None
    """Whether the weight can be quantized while the input stays float: according to AMCT's table of weights, always, or never."""

    channel_formats: bool = False
    """Whether the weight can be stored in a number format with a scale for each channel while the input stays float."""

    @property
    def judge(self) -> Judge | None:
        """What knows which layers the target computes in integers; None if no rule asks it."""
        return next((each.judge for each in self.rules if isinstance(each, ComputedInIntegers)), None)


class Points(NamedTuple):
    """What follows from where a profile has its points."""

    balanced: bool
    """Channels of inputs can be balanced: each layer has its input to itself."""
    shifted: bool
    """With joint_quant sums keep 16 bits unless settings say otherwise (AMCT)."""
    recurrent: bool
    """LSTM and GRU compute in integers; otherwise only their weights are quantized, on request."""
    aligned: bool
    """Options say which values share parameters and which have no point of their own (`PointOptions`)."""
    ruled: bool
    """The conditions of a row hold for layers with observers placed by hand, too."""
    by_region: bool
    """The first quantized operation of a fused region decides about all of it."""
    kernels: bool
    """What is quantized can be computed with integers throughout, as onnxruntime's kernels do."""


_POINTS: Mapping[str, Points] = {
    "layers": Points(True, True, True, aligned=False, ruled=False, by_region=False, kernels=False),
    "values": Points(False, False, False, aligned=True, ruled=True, by_region=True, kernels=True),
}


@dataclass(frozen=True)
class Profile:
    """A target as tables: which operations it quantizes and how, which it merges into one, and where it has points."""

    name: str
    rows: Mapping[type[NNOp], Row]
    target: str = ""
    """What it is for, in words."""
    activations: frozenset[str] = frozenset()
    """The activations that the target computes in one operation with the convolution or matrix product before it, by
    fuse-activation's names.
    """
    fuse_add: bool = False
    """Whether that operation includes a residual add."""
    table: tuple[LayerRow, ...] = UNIFORM
    """The source layers that can be quantized, with their rules; empty if only the operation decides."""
    points: Literal["layers", "values"] = "layers"
    """The values that have quantization points: the inputs of layers, or every value that a quantized operation takes
    or gives.
    """
    alignment: Mapping[Alignment, Mode] = field(default_factory=dict[Alignment, Mode])
    """How each kind of operation is aligned where the options do not say; kinds that are not listed are not aligned."""
    amct: Literal["pytorch"] | None = None
    """The AMCT whose fusions and arithmetic apply: PyTorch's fuses batch norms alone, into convolutions, and computes constants
    in float32, as torch does. None for every fold, in float64.
    """
    unsigned_file: bool = False
    """Files store activations as uint8: the same values, with zero points shifted by 128."""

    @property
    def facts(self) -> Points:
        """What follows from where it has points."""
        return _POINTS[self.points]

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
    unsigned_file=True,
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
    unsigned_file=True,
)
"""onnxruntime's integer kernels on CPUs. They add and concatenate values of different scales: nothing is aligned. Convolutions
give integers; matrix products give reals as well, for whatever reads them in float. All else is quantized only between
these. What has no integer kernel stays float: transposed convolutions, linear Resize, Sub, Softmax, normalizations, and most
activations.
"""


def profile_of(session: Session) -> Profile:
    """The profile selected in a session. Raises CompileError for an unknown name."""
    return cast(Profile, session.profiles[session.profile])


def __getattr__(name: str) -> object:
    """Ascend's profiles stood here in the last release."""
    if name not in ("ASCEND", "ASCEND_A2", "ASCEND_PYTORCH", "PROFILES", "like_amct"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    if name == "PROFILES":
        warn(f"{__name__}.PROFILES is deprecated: sessions have `profiles`", DeprecationWarning, stacklevel=2)
        return References[Profile](load(".catalogue:PROFILES"))
    warn(f"{name} is in amct_opt.lowering.ascend.profiles now", DeprecationWarning, stacklevel=2)
    return load(f".lowering.ascend.profiles:{name}")
