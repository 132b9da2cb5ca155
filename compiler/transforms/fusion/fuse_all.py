"""`--fuse-all`: every fusion pass, in the order that lets each see what the earlier ones made."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from .fuse_bn import FuseBnPass

ORDER: tuple[ModulePass, ...] = (FuseBnPass(),)


@dataclass(frozen=True)
class FuseAllPass(ModulePass):
    """Every fusion in its right order: fuse-bn."""

    name = "fuse-all"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for each in ORDER:
            each.apply(ctx, op)
