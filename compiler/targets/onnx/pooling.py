"""Pooling over windows, and over all of space."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dialects import nn
from ...dialects.nn.shapes import element_of
from ...ir.dtypes import numpy_dtype
from .convolution import window
from .float_layers import pooled_input
from .layer import OnnxLayer, converter


@converter(nn.MaxPoolOp)
def max_pool(op: nn.MaxPoolOp, layer: OnnxLayer) -> str:
    """Writes MaxPool, with a Pad before it if pads are as wide as the kernel, as those of SAME with dilations are:
    onnxruntime refuses them.
    """
    attributes, x = _pool(op), pooled_input(op, layer)
    pads: list[int] = attributes["pads"] or []
    if any(p >= k for p, k in zip(pads, op.kernel_shape * 2, strict=False)) and attributes["ceil_mode"] is None:
        n, dtype = op.spatial_rank, numpy_dtype(element_of(op.input))
        least = float(np.iinfo(dtype).min) if dtype.kind in "iu" else -np.inf
        sizes = layer.ints([0, 0, *pads[:n], 0, 0, *pads[n:]], "pads")
        x, attributes["pads"] = layer.helper("Pad", x, sizes, layer.scalar(least, op.input, "value")), None
    return layer.node("MaxPool", x, **attributes)


@converter(nn.AveragePoolOp)
def average_pool(op: nn.AveragePoolOp, layer: OnnxLayer) -> str:
    attributes = _pool(op)
    if attributes["dilations"] is not None:
        layer.require(19, "AveragePool with dilations")
    attributes["count_include_pad"] = None if op.count_include_pad is None else 1
    return layer.node("AveragePool", pooled_input(op, layer), **attributes)


def _pool(op: nn.PoolOp) -> dict[str, Any]:
    """`ceil_mode` only if it changes sizes: before opset 22 ONNX lets a window start in the end padding, runtimes do not."""
    return {**window(op), "ceil_mode": 1 if op.ceil_adds_windows else None}
