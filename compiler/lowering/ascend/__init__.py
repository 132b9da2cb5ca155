"""From `nn` to `ascend`, a module per family of operations."""

from __future__ import annotations

from .legalize import LegalizeAscendPass
from .lower import LowerToAscendPass

__all__ = ["LegalizeAscendPass", "LowerToAscendPass"]
