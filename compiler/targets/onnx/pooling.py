"""Pooling over windows, and over all of space."""

from __future__ import annotations

from typing import Any

from ...dialects import nn
from .convolution import window
from .float_layers import pooled_input
from .layer import Layer, converter


@converter(nn.MaxPoolOp)
def max_pool(op: nn.MaxPoolOp, layer: Layer) -> str:
    attributes = _pool(op)
    return layer.node("MaxPool", pooled_input(op, layer), **attributes)


@converter(nn.AveragePoolOp)
def average_pool(op: nn.AveragePoolOp, layer: Layer) -> str:
    attributes = _pool(op)
    if attributes["dilations"] is not None:
        layer.require(19, "AveragePool with dilations")
    attributes["count_include_pad"] = None if op.count_include_pad is None else 1
    return layer.node("AveragePool", pooled_input(op, layer), **attributes)


def _pool(op: nn.PoolOp) -> dict[str, Any]:
    """`ceil_mode` only if it changes sizes: before opset 22 ONNX lets a window start in the end padding, runtimes do not."""
    return {**window(op), "ceil_mode": 1 if op.ceil_adds_windows else None}


_GLOBAL: dict[type[nn.GlobalPoolOp], str] = {
    nn.GlobalAveragePoolOp: "GlobalAveragePool",
    nn.GlobalMaxPoolOp: "GlobalMaxPool",
}


@converter(*_GLOBAL)
def global_pool(op: nn.GlobalPoolOp, layer: Layer) -> str:
    return layer.node(_GLOBAL[type(op)], op.input)
