"""The steps of every command before anything is matched: fold constants, then canonicalize."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.passes import ModulePass

from .canonicalization import CanonicalizePass
from .constant_folding import FoldConstantsPass

SIMPLIFY: Sequence[ModulePass] = (FoldConstantsPass(), CanonicalizePass())
"""The steps; afterwards biases, bounds and weights that exporters compute (Expand, CastLike, Transpose) are constants."""
