"""Matrix products."""

from __future__ import annotations

from ....dialects import nn
from ..node import Converted, Node, Unmapped, converter


@converter("MatMul")
def matmul(node: Node) -> Converted:
    return _multiplied(node, node.flag("transpose_a"), node.flag("transpose_b"))


@converter("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_matmul(node: Node) -> Converted:
    """Matrix product; adjoint real matrices are transposed ones. The third version specifies the type of its result."""
    if "Tout" in node.attributes and node.type("Tout") != node.dtype(0):
        raise Unmapped(f"it multiplies {node.dtype(0)} to {node.type('Tout')}")
    return _multiplied(node, node.flag("adj_x"), node.flag("adj_y"))


def _multiplied(node: Node, transpose_a: bool, transpose_b: bool) -> Converted:
    if node.dtype(0) != node.dtype(1):
        raise Unmapped(f"it multiplies {node.dtype(0)} by {node.dtype(1)}")
    flags = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    return node.emit(nn.MatMulOp, node.value(0), node.value(1), **flags).result
