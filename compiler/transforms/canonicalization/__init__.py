"""`--canonicalize`: brings equal modules into one form, a file per idea.

Every rule is exact: the result is the same number for number (the sign of a zero that `nn.relu` gives is not defined). Function
signatures and names stay, even if operations before a result are removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import RewritePattern

from ...rewriting import Remarks, rewrite
from ...session import Session
from ..constant_folding import FoldConstantsPass
from ..dead_code import erase_dead
from .rules import Canonicalization, rules_of


@dataclass(frozen=True)
class CanonicalizePass(ModulePass):
    """Applies all rules until none changes anything, and removes what nothing uses.

    A pad next to a convolution or pooling that stays leaves a missed remark with the reason.
    """

    name = "canonicalize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        remarks = Remarks(ctx, self.name)
        rewrite(op, Canonicalization(remarks))
        erase_dead(list(op.walk()))
        remarks.flush()


SIMPLIFY: Sequence[ModulePass] = (FoldConstantsPass(), CanonicalizePass())
"""The steps of every command before anything is matched; afterwards biases, bounds and weights that exporters compute (Expand,
CastLike, Transpose) are constants.
"""


def patterns_of(op: type[Operation]) -> tuple[RewritePattern, ...]:
    """The rules of a class for xDSL's own `canonicalize`, which does not keep remarks."""
    return (Canonicalization(Remarks(Session(), CanonicalizePass.name)),) if rules_of(op) else ()
