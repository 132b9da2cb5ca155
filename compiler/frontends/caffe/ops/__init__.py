"""Converters from Caffe's layers to `nn`, a module per family. Importing this package registers them all."""

from __future__ import annotations

from ..node import CONVERTERS
from . import convolution, elementwise, linear, normalization, pooling, reduction, resize, shape

FAMILIES = (convolution, elementwise, linear, normalization, pooling, reduction, resize, shape)

__all__ = ["CONVERTERS", "FAMILIES"]
