"""Unpacks fused regions: they belong to the target, and lowerings take the operations inside."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from ..dialects.nn import FusedOp


def inline_fused(module: ModuleOp) -> None:
    """Replaces every `nn.fused` by the operations inside."""
    for op in [op for op in module.walk() if isinstance(op, FusedOp)]:
        inline(op)


def inline(op: FusedOp) -> None:
    """Replaces one `nn.fused` by the operations inside."""
    block, yielded = op.body.block, op.terminator.value
    for argument, value in zip(block.args, op.inputs, strict=True):
        argument.replace_all_uses_with(value)
        yielded = value if yielded is argument else yielded
    for inner in list(block.ops):
        if inner is not op.terminator:
            inner.detach()
            Rewriter.insert_op(inner, InsertPoint.before(cast(Operation, op)))
    op.result.replace_all_uses_with(yielded)
    op.detach()
    op.erase()
