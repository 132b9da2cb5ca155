"""From `nn` to `ascend`, a module per family of operations."""

from __future__ import annotations

from .lower import LowerToAscendPass

__all__ = ["LowerToAscendPass"]
