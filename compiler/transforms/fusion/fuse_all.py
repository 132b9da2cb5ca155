"""`--fuse-all`: the folding passes run together, so that each sees the results of the others; then regions are formed."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ...session import session_of
from ..quantization.profiles import profile_of
from .fuse_activation import FuseActivationPass, RegionOptions
from .fuse_bias import FuseBiasPass
from .fuse_bn import FuseBnPass
from .fuse_bn.like_torch import FuseModuleNormsPass
from .fuse_mul import FuseMulPass
from .fuse_small_bn import FuseSmallBnPass
from .fusion_pass import FusionPass, Patterns, needless_skips_noted, run_fusions
from .selection import FusionOptions

FOLDS: tuple[FusionPass, ...] = (FuseSmallBnPass(), FuseBnPass(), FuseMulPass(), FuseBiasPass())
"""The passes that fold constants into weights; their patterns run together until nothing changes."""

REGIONS = FuseActivationPass()
"""Forms regions after the folds."""


@dataclass(frozen=True)
class FuseAllPass(RegionOptions, FusionOptions, ModulePass):
    """Every fusion: fuse-small-bn, fuse-bn, fuse-mul and fuse-bias together, then fuse-activation. Those of AMCT for PyTorch,
    where the profile follows it.
    """

    name = "fuse-all"

    PATTERNS: ClassVar[Patterns] = ()
    """Its own are those of the passes that it runs."""
    RUNS: ClassVar[str] = ",".join(each.name for each in (*FOLDS, REGIONS))
    """The passes that it runs, as pipeline text."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        folds = FOLDS if profile_of(session_of(ctx)).amct is None else (FuseModuleNormsPass(),)
        with needless_skips_noted(ctx, op, self, self.name):
            run_fusions(ctx, op, [self._part(each) for each in folds], self.name)
            self._part(REGIONS).fuse(ctx, op)

    def _part(self, part: FusionPass) -> FusionPass:
        """The part with the options of the whole, which has all of them."""
        options: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(part)}
        return replace(part, **options)
