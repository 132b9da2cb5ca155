"""Lowers `nn` and `ascend` to linalg on tensors, a module per family of operations."""

from __future__ import annotations

from .lower import ConvertToLinalgPass, lower
from .whole_tensors import WholeBuilder

__all__ = ["ConvertToLinalgPass", "WholeBuilder", "lower"]
