"""Converters from ONNX operators to `nn`, a module per family. Importing this package registers them all."""

from __future__ import annotations

from ..graph import Layer
from ..node import CONVERTERS, Converter
from . import (
    constant,
    convolution,
    elementwise,
    linear,
    normalization,
    pooling,
    quantization,
    reduction,
    resize,
    shape,
)

FAMILIES = (constant, convolution, elementwise, linear, normalization, pooling, quantization, reduction, resize, shape)


def converter_of(layer: Layer) -> Converter | None:
    """The function that converts nodes of this type, None where `nn` has no equivalent."""
    return CONVERTERS.get((layer.domain, layer.proto.op_type))


__all__ = ["FAMILIES", "converter_of"]
