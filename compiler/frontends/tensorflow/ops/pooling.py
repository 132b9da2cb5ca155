"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....dialects import nn
from ...window import with_pads
from ..node import Converted, Node, converter
from .window import padding, strides_of

_POOLS: dict[str, type[nn.PoolOp]] = {
    "AvgPool": nn.AveragePoolOp,
    "AvgPool3D": nn.AveragePoolOp,
    "MaxPool": nn.MaxPoolOp,
    "MaxPool3D": nn.MaxPoolOp,
}


@converter(*_POOLS)
def pool(node: Node) -> Converted:
    """Averages leave the padding out."""
    if (kernel := node.ints("ksize")) is None:
        raise node.error("has no attribute 'ksize'")
    return _pool(node, _POOLS[node.op_type], kernel, strides_of(node))


@converter("MaxPoolV2")
def max_pool_v2(node: Node) -> Converted:
    """The window and its strides are inputs."""
    return _pool(node, nn.MaxPoolOp, node.known_ints(1), node.known_ints(2))


def _pool(node: Node, op: type[nn.PoolOp], kernel: Sequence[int], strides: Sequence[int]) -> Converted:
    window: dict[str, Any] = {"kernel": node.spatial(kernel), "strides": node.spatial(strides), "layout": node.layout}
    return with_pads(node.emit(op, node.value(0), **window, **padding(node))).result
