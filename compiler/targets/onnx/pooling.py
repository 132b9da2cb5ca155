"""Pooling over windows, and over all of space."""

from __future__ import annotations

from typing import Any

from ...dialects import nn
from ...dialects.nn.shapes import DYNAMIC, shape_of
from .convolution import window
from .layer import Layer, converter


@converter(nn.MaxPoolOp)
def max_pool(op: nn.MaxPoolOp, layer: Layer) -> str:
    attributes = _pool(op)
    return layer.node("MaxPool", op.input, **attributes)


@converter(nn.AveragePoolOp)
def average_pool(op: nn.AveragePoolOp, layer: Layer) -> str:
    attributes = _pool(op)
    if attributes["dilations"] is not None:
        layer.require(19, "AveragePool with dilations")
    attributes["count_include_pad"] = None if op.count_include_pad is None else 1
    return layer.node("AveragePool", op.input, **attributes)


def _pool(op: nn.PoolOp) -> dict[str, Any]:
    """`ceil_mode` only where it changes sizes: before opset 22, ONNX lets a window start in the end padding, runtimes do not."""
    space = op.spatial(shape_of(op.input))
    same_sizes = DYNAMIC not in space and op.window_output(space, ceil=True) == op.window_output(space)
    return {**window(op), "ceil_mode": None if op.ceil_mode is None or same_sizes else 1}


_GLOBAL: dict[type[nn.GlobalPoolOp], str] = {
    nn.GlobalAveragePoolOp: "GlobalAveragePool",
    nn.GlobalMaxPoolOp: "GlobalMaxPool",
}


@converter(*_GLOBAL)
def global_pool(op: nn.GlobalPoolOp, layer: Layer) -> str:
    return layer.node(_GLOBAL[type(op)], op.input)
