"""Kernels of fused regions: each has its own plan."""

from __future__ import annotations

from ...dialects import nn
from . import Array, Kernel, kernel


@kernel(nn.FusedOp)
def fused(op: nn.FusedOp) -> Kernel:
    from ..executor import compile_block  # the executor imports the kernels

    plan = compile_block(op.body.block, [op.terminator.value])

    def run(*inputs: Array) -> Array:
        return plan.run(inputs)[0]

    return run
