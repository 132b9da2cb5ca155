"""`--fuse-bn`: batch normalization of inference disappears into the operation before it.

The fold is exact algebra, done in float64 and rounded once. A file per pattern; what is left has a remark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation
from xdsl.passes import ModulePass

from ....dialects.nn import BatchNormOp
from ....rewriting import FusionPattern, Remarks, erase_dead_constants, layer_of, nn_ops, rewrite
from .conv import FuseConvBatchNorm
from .conv_transpose import FuseConvTransposeBatchNorm
from .matmul import FuseMatMulBatchNorm

PATTERNS: tuple[type[FusionPattern[Any]], ...] = (
    FuseConvBatchNorm,
    FuseConvTransposeBatchNorm,
    FuseMatMulBatchNorm,
)


@dataclass(frozen=True)
class FuseBnPass(ModulePass):
    """Fold batch normalization into the convolution, transposed convolution or matrix product before it."""

    name = "fuse-bn"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        remarks = Remarks(ctx, self.name)
        rewrite(op, *(pattern(remarks) for pattern in PATTERNS))
        for norm in nn_ops(op, BatchNormOp):
            if not remarks.has(norm):
                remarks.missed(norm, "no-producer", f"its input comes from {_producer(norm)}, which holds no weights")
        erase_dead_constants(op)
        remarks.flush()


def _producer(norm: Operation) -> str:
    value = norm.operands[0]
    if isinstance(value, BlockArgument):
        return "a graph input"
    owner = value.owner
    return f"'{owner.name}' {layer_of(owner)}" if isinstance(owner, Operation) else "a block"
