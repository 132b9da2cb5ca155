"""`--canonicalize`: brings equal modules into one form, a file per idea.

Every pattern is exact: the result is the same number for number, but for the order in which convolutions add. (The sign of a zero
that `nn.relu` gives is not defined.)
Function signatures and names stay, even if operations before a result are removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import RewritePattern

from ...rewriting import Remarks, rewrite
from ...session import Session
from ..constant_folding import FoldConstantsPass
from ..dead_code import erase_dead
from .arithmetic import RemoveNeutral, merge_bounds, name_bounds, name_prelu, remove_involution, remove_repetition
from .dilation import FormDilation
from .identities import remove_identity
from .pads import MergePad
from .products import FormConvolution
from .reshapes import merge_reshapes, remove_reshape
from .transposes import join_transposes, merge_transposes


@dataclass(frozen=True)
class CanonicalizePass(ModulePass):
    """Applies all patterns until none changes anything, and removes what nothing uses.

    A pad next to a convolution or pooling that stays leaves a missed remark with the reason.
    """

    name = "canonicalize"

    PATTERNS: ClassVar[tuple[type[Any], ...]] = (
        remove_identity, remove_reshape, merge_reshapes, merge_transposes, join_transposes, name_bounds, merge_bounds,
        name_prelu, RemoveNeutral, remove_involution, remove_repetition, MergePad, FormDilation,
        FormConvolution,
    )  # fmt: skip
    """Patterns that make the module smaller or simpler, never the reverse: they end because no two undo each other."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        remarks = Remarks(ctx, self.name)
        rewrite(op, *(kind(remarks) for kind in (*remarks.session.patterns_of(self.name), *self.PATTERNS)))
        erase_dead(list(op.walk()))
        remarks.flush()


SIMPLIFY: Sequence[ModulePass] = (FoldConstantsPass(), CanonicalizePass())
"""The steps of every command before anything is matched; afterwards biases, bounds and weights that exporters compute (Expand,
CastLike, Transpose) are constants.
"""


def patterns_of(op: type[Operation]) -> tuple[RewritePattern, ...]:
    """The patterns of a class for xDSL's own `canonicalize`, which does not keep remarks."""
    remarks = Remarks(Session(), CanonicalizePass.name)
    return tuple(pattern(remarks) for pattern in CanonicalizePass.PATTERNS if issubclass(op, pattern.roots))
