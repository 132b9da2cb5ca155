"""The target profiles for Ascend: AMCT's tables, and of layers with weights and averages only those that have an operator of
integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp

from ...dialects.nn import (
    AddOp,
    AveragePoolOp,
    ConvOp,
    ConvTransposeOp,
    GlobalAveragePoolOp,
    GlobalMaxPoolOp,
    MatMulOp,
    MaxPoolOp,
    NNOp,
    OriginAttr,
)
from ...session import Session
from ...transforms.quantization.decide.conditions import DecideAverage, DecideLayer, DecideWeighted
from ...transforms.quantization.profiles import Profile, Row
from ...transforms.quantization.tables import PYTORCH, UNIFORM_A2
from . import trial_lowering as trial

_BIAS, _INTEGERS = DecideWeighted.bias_constant, DecideLayer.integer_operator.by(trial)

ASCEND = Profile(
    name="ascend",
    target="Huawei's Ascend NPUs",
    rows={
        ConvOp: Row(1, 2, per_channel=True, rules=(_BIAS, _INTEGERS)),
        ConvTransposeOp: Row(1, 2, per_channel=True, rules=(_BIAS, _INTEGERS)),
        MatMulOp: Row(1, 2, rules=(_BIAS, _INTEGERS), weight_only="table"),
        AveragePoolOp: Row(rules=(DecideAverage.average_count, _INTEGERS)),
        GlobalAveragePoolOp: Row(),
        MaxPoolOp: Row(),
        GlobalMaxPoolOp: Row(),
        AddOp: Row(),
    },
    activations=frozenset({"relu", "relu6", "clip"}),
    fuse_add=True,
    also=("deploy",),
)
"""AMCT's rules: weights per channel for convolutions, per tensor for matrix products; asymmetric int8 activations. The
activations are those that PPQ fuses for Ascend.
"""

ASCEND_A2 = replace(
    ASCEND,
    name="ascend-a2",
    rows={**ASCEND.rows, MatMulOp: replace(ASCEND.rows[MatMulOp], two_inputs=True)},
    table=UNIFORM_A2,
)
"""The rules of AMCT since 8.0, for Atlas A2 and A3: products of two activations as well."""

ASCEND_PYTORCH = replace(
    ASCEND,
    name="ascend-pytorch",
    rows={
        kind: replace(row, as_amct=True, calibrated_in_float=kind is ConvTransposeOp)
        for kind, row in ASCEND.rows.items()
    },
    table=PYTORCH,
    amct="pytorch",
)
"""The rules of AMCT for PyTorch, for its configurations and commands (`like_amct`)."""


def like_amct(module: ModuleOp, session: Session) -> None:
    """Follow AMCT where it differs by framework: in a session for AMCT's configurations, records and commands.

    A module from PyTorch is then quantized by `ASCEND_PYTORCH`, not `ASCEND`; one from TensorFlow is fused by AMCT's rules.
    """
    fuse_like_amct(module, session)
    if session.profile == ASCEND.name and any(each.module_class for each in _origins(module)):
        if ASCEND_PYTORCH.name not in session.profiles:
            session.register_profile(ASCEND_PYTORCH)
        session.profile = ASCEND_PYTORCH.name


def fuse_like_amct(module: ModuleOp, session: Session) -> None:
    """Keep to AMCT's layers, and fuse a module from TensorFlow by AMCT's rules, unless the session has been given others."""
    session.as_amct = True
    if any(each.framework.data == "tensorflow" for each in _origins(module)):
        session.rules = session.rules or "amct"


def _origins(module: ModuleOp) -> Iterator[OriginAttr]:
    origins = (op.origin for op in module.walk() if isinstance(op, NNOp))
    return (each for each in origins if isinstance(each, OriginAttr))
