"""Target profiles: for each operation what is quantized and how, as data. A profile is a table, not a class of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...diagnostics import CompileError
from ...dialects.nn import AddOp, AveragePoolOp, ConvOp, ConvTransposeOp, GlobalAveragePoolOp, MatMulOp, MaxPoolOp, NNOp
from .rules import Rule, average_count_constant, bias_constant, rank_supported


@dataclass(frozen=True)
class Row:
    """How one operation is quantized. Operand 0 is the activation; `weight` and `bias` are operand indices.

    `per_channel` gives each output channel its own weight scale. The rules are what the target asks for beyond the table of
    the layer's source framework (`tables.py`).
    """

    weight: int | None = None
    bias: int | None = None
    per_channel: bool = False
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True)
class Profile:
    name: str
    rows: Mapping[type[NNOp], Row]
    bits: int = 8
    symmetric_activations: bool = False
    activations: frozenset[str] = frozenset()
    """What the target computes in one operation with the convolution or matrix product before it, by fuse-activation's names."""
    fuse_add: bool = False
    """Whether a residual add belongs into that operation."""


ASCEND = Profile(
    name="ascend",
    rows={
        ConvOp: Row(1, 2, per_channel=True, rules=(bias_constant, rank_supported)),
        ConvTransposeOp: Row(1, 2, per_channel=True, rules=(bias_constant,)),
        MatMulOp: Row(1, 2, rules=(bias_constant,)),
        AveragePoolOp: Row(rules=(average_count_constant,)),
        GlobalAveragePoolOp: Row(),
        MaxPoolOp: Row(),
        AddOp: Row(),
    },
    activations=frozenset({"relu", "relu6", "clip"}),
    fuse_add=True,
)
"""AMCT's rules: weights per channel for convolutions, per tensor for matrix products; asymmetric int8 activations. The
activations are those that PPQ fuses for Ascend.
"""

PROFILES: Mapping[str, Profile] = {ASCEND.name: ASCEND}


def profile_named(name: str) -> Profile:
    """Raises CompileError for an unknown name."""
    if (profile := PROFILES.get(name)) is None:
        raise CompileError(f"no profile is called '{name}'", hint=f"profiles are {', '.join(PROFILES)}")
    return profile
