"""Converters from Caffe's layers to `nn`, a module per family. Importing this package registers them all."""

from __future__ import annotations

from ..node import CONVERTERS
from ..rows import by_row
from . import ascend, convolution, elementwise, linear, normalization, pooling, reduction, resize, shape
from .ascend import converter_on_integers

FAMILIES = (ascend, convolution, elementwise, linear, normalization, pooling, reduction, resize, shape)

__all__ = ["CONVERTERS", "FAMILIES", "by_row", "converter_on_integers"]
