"""InnerProduct."""

from __future__ import annotations

from ....dialects import nn
from ....dialects.nn.shapes import known, size
from ..node import Converted, Node, converter
from .shape import flattened


@converter("InnerProduct")
def inner_product(node: Node) -> Converted:
    """Merges the axes from `axis` on and multiplies by the weight: `[N, K]`, with `transpose` `[K, N]`."""
    p = node.proto.inner_product_param
    axis = node.axis(p.axis)
    columns = size(node.shape(0)[axis:])
    if not known(columns):
        raise node.error("needs to know the sizes of its input, which its weights depend on")
    if not p.num_output:
        raise node.error("has no num_output")
    weight = (columns, p.num_output) if p.transpose else (p.num_output, columns)
    bias = {"bias": (p.num_output,)} if p.bias_term else {}
    constants = [node.sink.value(c) for c in node.parameters(weight=weight, **bias)]
    x = flattened(node, axis, len(node.shape(0)) - 1)
    return node.emit(nn.MatMulOp, x, *constants, transpose_b=not p.transpose).result
