"""Conditions of layers by the names that they had before patterns had them as members; this module goes with the next release."""

from __future__ import annotations

from warnings import warn

from ..conditions import DecideWeighted, rule

__all__ = ["bias_constant", "rule", "weight_constant"]

bias_constant, weight_constant = DecideWeighted.bias_constant, DecideWeighted.weight_constant

warn(
    f"{__name__} is deprecated: import rule, and DecideWeighted for its conditions, from decide.conditions",
    DeprecationWarning,
    stacklevel=2,
)
