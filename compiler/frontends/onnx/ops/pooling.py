"""Pooling."""

from __future__ import annotations

from ....dialects import nn
from ...shapes import with_pads
from ..node import Converted, Node, Unmapped, converter
from .window import geometry


@converter("MaxPool")
def max_pool(node: Node) -> Converted:
    if node.uses_output(1):
        raise Unmapped("its indices are used")
    return _pool(node, nn.MaxPoolOp)


@converter("AveragePool")
def average_pool(node: Node) -> Converted:
    return _pool(node, nn.AveragePoolOp, count_include_pad=bool(node.int("count_include_pad", 0)))


def _pool(node: Node, op: type[nn.PoolOp], **properties: bool) -> Converted:
    kernel = node.required_ints("kernel_shape")
    ceil_mode = bool(node.int("ceil_mode", 0))
    made = node.emit(op, node.value(0), kernel=kernel, ceil_mode=ceil_mode, **geometry(node), **properties)
    return with_pads(made).result
