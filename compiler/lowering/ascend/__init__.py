"""Lowers `nn` to `ascend`, a module per family of operations."""

from __future__ import annotations

from .legalize import LegalizeAscendPass
from .lower import LowerIntegersPass, LowerToAscendPass

__all__ = ["LegalizeAscendPass", "LowerIntegersPass", "LowerToAscendPass"]
