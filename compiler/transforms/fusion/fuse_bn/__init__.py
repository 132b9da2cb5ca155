"""`--fuse-bn`: folds batch normalization of inference into the operation before it, or after it.

The fold is exact algebra, computed in float64 and rounded once. One file per pattern; remaining batch norms have a remark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from ....dialects.nn import BatchNormOp
from ....rewriting import Remarks
from ..fusion_pass import FusionPass, Patterns, report_unmatched
from .before_conv import FuseNormCompute
from .compute import FuseComputeBatchNorm, FuseReshapedBatchNorm
from .group_conv import FuseConcatNorm
from .norm_scale import FuseNormScale


@dataclass(frozen=True)
class FuseBnPass(FusionPass):
    """Folds batch norms, and their factors and shifts, into adjacent convolutions and matrix products."""

    name = "fuse-bn"

    PATTERNS: ClassVar[Patterns] = (
        FuseComputeBatchNorm,
        FuseReshapedBatchNorm,
        FuseConcatNorm,
        FuseNormScale,
        FuseNormCompute,
    )

    def report(self, module: ModuleOp, remarks: Remarks) -> None:
        report_unmatched(module, remarks, BatchNormOp)
