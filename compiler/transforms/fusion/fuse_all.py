"""`--fuse-all`: every fusion pass at once, so that each sees what the others make."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from .fuse_bias import FuseBiasPass
from .fuse_bn import FuseBnPass
from .fuse_mul import FuseMulPass
from .fusion_pass import FusionPass, run_fusions
from .selection import FusionOptions

FOLDS: tuple[FusionPass, ...] = (FuseBnPass(), FuseMulPass(), FuseBiasPass())
"""The passes that fold constants into weights; their patterns run together until nothing changes."""


@dataclass(frozen=True)
class FuseAllPass(FusionOptions, ModulePass):
    """Every fusion: fuse-bn, fuse-mul and fuse-bias together."""

    name = "fuse-all"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        options = {"skip_types": self.skip_types, "only_quantizable": self.only_quantizable}
        run_fusions(ctx, op, [replace(each, **options) for each in FOLDS])
