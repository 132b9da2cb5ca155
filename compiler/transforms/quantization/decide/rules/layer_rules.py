"""Conditions of layers by their former names, from before patterns had them as members; this module goes with the next
release.
"""

from __future__ import annotations

from warnings import warn

from .....rewriting import Condition
from ..conditions import DecideWeighted, rule
from ..sites import Site

__all__ = ["bias_constant", "rule", "weight_constant"]

bias_constant: Condition[Site] = DecideWeighted.bias_constant
weight_constant: Condition[Site] = DecideWeighted.weight_constant

warn(
    f"{__name__} is deprecated: import rule, and DecideWeighted for its conditions, from decide.conditions",
    DeprecationWarning,
    stacklevel=2,
)
