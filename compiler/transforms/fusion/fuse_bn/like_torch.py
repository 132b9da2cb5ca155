"""The batch norms that AMCT for PyTorch fuses, in the arithmetic of torch's `fuse_conv_bn_weights`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ....dialects.nn import BatchNormOp, NNOp, OriginAttr, WeightedOp, constant_of
from ....rewriting import Array, Condition, Folded, FusionPattern, Remarks, Roots, nn_ops, used_once
from ..computing import WeightCondition, computing, folded_parameters, weight_of, with_parameters
from ..fusion_pass import FusionPass, Patterns
from .compute import NormConditions

_CONVOLUTIONS = frozenset({"Conv1d", "Conv2d", "Conv3d"})
_NORMS = frozenset({"BatchNorm1d", "BatchNorm2d", "BatchNorm3d"})


@dataclass(frozen=True)
class ModuleNorm:
    """A convolution and the batch norm after it, both modules."""

    compute: WeightedOp
    bn: BatchNormOp


class FuseModuleNorm(WeightCondition, NormConditions, FusionPattern[ModuleNorm]):
    """batch_norm(conv(x, w, b)) = conv(x, w * k, b * k + shift) for modules Conv1d, Conv2d and Conv3d of PyTorch, every step
    rounded to float32 (AMCT for PyTorch)
    """

    name = "module-batch-norm"
    roots: ClassVar[Roots] = (BatchNormOp,)

    result_used_once: Condition[Any] = used_once("compute")

    def match(self, op: Operation) -> ModuleNorm | None:
        if not isinstance(op, BatchNormOp) or (conv := computing(op.input)) is None:
            return None
        return ModuleNorm(conv, op) if _module(conv) in _CONVOLUTIONS and _module(op) in _NORMS else None

    def fold(self, m: ModuleNorm) -> Sequence[Folded]:
        scale, offset, mean, variance = map(_float32, m.bn.operands[1:])
        inverse = np.float32(1) / np.sqrt(variance + np.float32(m.bn.epsilon.value.data))
        weight = _float32(weight_of(m.compute))
        bias = np.float32(0) if m.compute.bias is None else _float32(m.compute.bias)
        return folded_parameters(
            m.compute,
            m.bn,
            weight * (scale * inverse).reshape(-1, *(1,) * (weight.ndim - 1)),
            (bias - mean) * inverse * scale + offset,
        )

    def rewrite(self, m: ModuleNorm, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        weight, bias = folded
        return [with_parameters(m.compute, weight, bias, m.bn.result.type)]


@dataclass(frozen=True)
class FuseModuleNormsPass(FusionPass):
    """Every fusion of AMCT for PyTorch."""

    name = "fuse-bn"

    PATTERNS: ClassVar[Patterns] = (FuseModuleNorm,)

    def report(self, module: ModuleOp, remarks: Remarks) -> None:
        for op in nn_ops(module, BatchNormOp):
            if not remarks.has(op):
                reason = (
                    "AMCT for PyTorch fuses batch norms only into modules Conv1d, Conv2d and Conv3d right before them"
                )
                remarks.missed(op, "module", reason)


def _module(op: NNOp) -> str:
    return op.origin.module_class if isinstance(op.origin, OriginAttr) else ""


def _float32(value: SSAValue) -> Array:
    constant = constant_of(value)
    assert constant is not None, "the pattern has asked for a constant"
    return constant.array.astype(np.float32)
