"""Converters from ONNX operators to `nn`, a module per family. Importing this package registers them all."""

from . import convolution, elementwise, linear, normalization, pooling, quantization, reduction, shape

__all__ = ["convolution", "elementwise", "linear", "normalization", "pooling", "quantization", "reduction", "shape"]
