"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....dialects import nn
from ...shapes import with_pads
from ..node import Converted, Node, converter
from .window import padding, spatial

_POOLS: dict[str, type[nn.PoolOp]] = {
    "AvgPool": nn.AveragePoolOp,
    "AvgPool3D": nn.AveragePoolOp,
    "MaxPool": nn.MaxPoolOp,
    "MaxPool3D": nn.MaxPoolOp,
}


@converter(*_POOLS)
def pool(node: Node) -> Converted:
    """Pools; averages do not count the padding."""
    return _pool(node, _POOLS[node.op_type], node.ints("ksize"), node.ints("strides"))


@converter("MaxPoolV2")
def max_pool_v2(node: Node) -> Converted:
    """The window and its strides are inputs."""
    return _pool(node, nn.MaxPoolOp, node.known_ints(1), node.known_ints(2))


def _pool(node: Node, op: type[nn.PoolOp], kernel: Sequence[int] | None, strides: Sequence[int] | None) -> Converted:
    rank = len(node.shape(0))
    window: dict[str, Any] = {
        "kernel": spatial(node, "window sizes", kernel, rank),
        "strides": spatial(node, "strides", strides, rank),
        "layout": node.layout,
    }
    return with_pads(node.emit(op, node.value(0), **window, **padding(node))).result
