"""Converts onnxruntime's attention with its weights: the product with them becomes visible, the rest stays one operator.

`Attention` computes queries, keys and values from its input, and `MultiHeadAttention`, which is carried, has them given; in
onnxruntime both run the same kernel. Source: onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper
from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import SSAValue

from ....dialects import nn
from ....dialects.nn.shapes import DYNAMIC, element_of, known, shape_of, tensor
from ....formats.onnx.attributes import carried
from ..node import Converted, Node, Unmapped, converter

DOMAIN = "com.microsoft"

_MASK, _PAST, _BIAS, _PAST_LENGTH = 3, 4, 5, 6
"""Inputs of Attention after its input, weights and their bias."""


@converter("Attention", domains=(DOMAIN,))
def attention(node: Node) -> Converted:
    """A product with the weights `[K, N]` of queries, keys and values, split, then a carried MultiHeadAttention.

    The cache of both, `[2, batch, heads, past, size]`, is taken apart and joined again.
    """
    _refuse(node)
    heads, columns = node.required_int("num_heads"), node.shape(1)[-1]
    sizes = node.ints("qkv_hidden_sizes") or [columns // 3] * 3
    if not known(columns) or len(sizes) != 3 or sum(sizes) != columns or heads < 1 or any(n % heads for n in sizes):
        raise node.error(f"has {heads} heads, which do not divide its {columns} columns of weights in parts of {sizes}")
    product = node.emit(nn.MatMulOp, node.value(0), node.value(1), node.optional(2)).result
    query, key, value = node.emit(nn.SplitOp, product, axis=-1, sizes=sizes).parts
    past = [_part(node, node.value(_PAST), i) for i in range(2)] if node.has(_PAST) else [None, None]
    given = [query, key, value, None, node.optional(_MASK), node.optional(_BIAS), *past]
    batch, length = shape_of(product)[:2]
    results = [(batch, length, sizes[2])]
    if node.uses_output(1):
        results += [(batch, heads, DYNAMIC, size // heads) for size in sizes[1:]]
    made = node.emit(
        nn.OpaqueOp,
        [v for v in given if v is not None],
        result_types=[tensor(element_of(product), shape) for shape in results],
        framework="onnx",
        op_type="MultiHeadAttention",
        domain=DOMAIN,
        version=1,
        present=[int(v is not None) for v in given],
        attrs=DictionaryAttr(_attributes(node, heads)),
    )
    output, *cache = made.outputs
    if not cache:
        return [output]
    joined = [node.emit(nn.UnsqueezeOp, each, axes=[0]).result for each in cache]
    return [output, node.emit(nn.ConcatOp, joined, axis=0).result]


def _refuse(node: Node) -> None:
    """Raises Unmapped for what MultiHeadAttention does not have."""
    if node.int("do_rotary", 0):
        raise Unmapped("it rotates queries and keys (do_rotary)")
    if node.int("past_present_share_buffer", 0) or node.has(_PAST_LENGTH):
        raise Unmapped("its past and present share a buffer")
    if node.has(_MASK) and len(node.shape(_MASK)) not in (2, 3):
        raise Unmapped(f"its mask is of rank {len(node.shape(_MASK))}")
    if len(node.shape(1)) != 2:
        raise node.error(f"has weights of rank {len(node.shape(1))}, not 2")


def _part(node: Node, past: SSAValue, index: int) -> SSAValue:
    """The keys (0) or the values (1) of a cache."""
    return node.emit(nn.GatherOp, past, node.constant(np.asarray(index, np.int64), f".{index}"), axis=0).result


def _attributes(node: Node, heads: int) -> dict[str, Any]:
    kept = {
        name: node.attributes[name]
        for name in ("mask_filter_value", "scale", "unidirectional")
        if name in node.attributes
    }
    return carried(
        {**kept, "num_heads": helper.make_attribute("num_heads", heads)}, node.shared.tensors, node.layer.where
    )
