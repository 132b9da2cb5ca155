"""`--fuse-bn`: batch normalization of inference disappears into the operation before it.

The fold is exact algebra, done in float64 and rounded once. A file per pattern; what is left has a remark.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from ....dialects.nn import BatchNormOp
from ....rewriting import Remarks
from ..fusion_pass import FusionPass, report_unmatched
from .compute import FuseComputeBatchNorm


@dataclass(frozen=True)
class FuseBnPass(FusionPass):
    """Fold batch normalization into the convolution, transposed convolution or matrix product before it."""

    name = "fuse-bn"

    PATTERNS = (FuseComputeBatchNorm,)

    def report(self, module: ModuleOp, remarks: Remarks) -> None:
        report_unmatched(module, remarks, BatchNormOp)
