"""A pass: what is left of the dialect becomes operations of `nn`, which every target can write."""

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from amct_opt.dialects import nn
from amct_opt.rewriting import Remarks, rewrite

from .dialect import GainOp, SquashOp


@dataclass
class LowerToy(RewritePattern):
    remarks: Remarks

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: GainOp | SquashOp, rewriter: PatternRewriter, /) -> None:
        origin = op.origin
        if isinstance(op, SquashOp):
            made = [nn.SoftsignOp.make(op.input, origin=origin)]
        else:
            factor = nn.ConstantOp.of(np.array(op.factor.value.data, np.float32), "factor")
            made = [factor, nn.MulOp.make(op.input, factor, origin=origin)]
        self.remarks.applied(op, "lower", f"written as {made[-1].name}")
        rewriter.replace(op, made)


@dataclass(frozen=True)
class LowerToyPass(ModulePass):
    """Rewrite what is left of the toy dialect in nn."""

    name = "toy-lower"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        remarks = Remarks(ctx, self.name)
        rewrite(op, LowerToy(remarks))
        remarks.flush()
