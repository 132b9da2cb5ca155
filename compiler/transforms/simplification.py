"""The steps of every command before anything is matched: constants folded, and then what is left canonical."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.passes import ModulePass

from .canonicalization import CanonicalizePass
from .constant_folding import FoldConstantsPass

SIMPLIFY: Sequence[ModulePass] = (FoldConstantsPass(), CanonicalizePass())
"""Biases, bounds and weights that exporters compute from constants (Expand, CastLike, Transpose) are constants behind these."""
