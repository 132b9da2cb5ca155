"""Converters from TensorFlow operators to `nn`, a module per family. Importing this package registers them all."""

from __future__ import annotations

from ..node import CONVERTERS
from . import (
    blocks,
    comparison,
    constant,
    convolution,
    einsum,
    elementwise,
    identity,
    indexing,
    linear,
    normalization,
    pooling,
    quantization,
    reduction,
    resize,
    shape,
)

FAMILIES = (
    blocks,
    comparison,
    constant,
    convolution,
    einsum,
    elementwise,
    identity,
    indexing,
    linear,
    normalization,
    pooling,
    quantization,
    reduction,
    resize,
    shape,
)

__all__ = ["CONVERTERS", "FAMILIES"]
