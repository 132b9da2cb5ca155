"""Converters from TensorFlow operators to `nn`, a module per family. Importing this package registers them all."""

from __future__ import annotations

from ..node import CONVERTERS, Converter, Node
from ..rows import by_row
from . import (
    ascend,
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
    *ascend.FAMILIES,
)


def converter_of(node: Node) -> Converter | None:
    """The function that converts a node; None if `nn` has no equivalent."""
    return ascend.converter_on_integers(node) or CONVERTERS.get(node.op_type)


__all__ = ["CONVERTERS", "FAMILIES", "by_row", "converter_of"]
