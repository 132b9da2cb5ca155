"""Lowers `nn` and `ascend` to linalg on tensors, a module per family of operations."""

from __future__ import annotations

from .lower import ConvertToLinalgPass

__all__ = ["ConvertToLinalgPass"]
