"""MatMulNBits of onnxruntime, for products with a weight of 4 or 8 bits in groups: the weight stays packed at run time.

Source: onnxruntime, docs/ContribOperators.md. At accuracy level 1 it computes in float32. Scales have the type of the input.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from onnx import helper
from xdsl.dialects.builtin import Signedness, f16, f32

from ...configuration.settings import GROUP_SIZES
from ...dialects import nn
from ...dialects.nn.shapes import element_of, shape_of
from ...formats.onnx.packing import packed_rows
from ...ir.dtypes import numpy_dtype
from ..converters import Converters
from ..graph import readers, source
from . import linear, quantization
from .graph import Array
from .layer import OnnxLayer, Written

DOMAIN = "com.microsoft"


class Packed(NamedTuple):
    """The attributes and the weight of a MatMulNBits for a product `[..., K] x [K, N]`."""

    sizes: dict[str, Any]
    weight: Array
    """uint8 [N, groups, bytes of a group]."""
    scales: Array
    """[N, groups] in the type of the input, float32 or float16."""
    zero_points: Array | None
    """uint8 [N, bytes of its zero points]; None if all are half the range, the default."""


def matmul(op: nn.MatMulOp, layer: OnnxLayer) -> Written:
    """A MatMulNBits for a product with a dequantized weight, between a Transpose and an Add; MatMul or Gemm, with a remark, if
    it cannot be one.
    """
    if (weight := _dequantized(op)) is None:
        if isinstance(stored := source(op.rhs).owner, nn.DequantizeFloatOp):
            layer.note("matmul-nbits", f"is not written as MatMulNBits: its weight is of {element_of(stored.input)}")
        return linear.matmul(op, layer)
    if (reason := _refused(op, weight)) is not None:
        layer.note("matmul-nbits", f"is not written as MatMulNBits: {reason}")
        return linear.matmul(op, layer)
    packed = _packed(op, weight)
    if changed := int(np.count_nonzero(packed.scales != _scales(op, weight, np.dtype(np.float32)))):
        layer.note(
            "float16-scales", f"{changed} of {packed.scales.size} scales are rounded to float16, the type of its input"
        )
    layer.graph.domains.setdefault(DOMAIN, 1)
    inputs = [
        layer.value(op.lhs if op.transpose_a is None else linear.transposed(op.lhs, len(shape_of(op.lhs)), layer))
    ]
    inputs += [layer.constant(packed.weight, "weight"), layer.constant(packed.scales, "scale")]
    if packed.zero_points is not None:
        inputs.append(layer.constant(packed.zero_points, "zero_point"))
    made = layer.provisional(op.result)
    node = helper.make_node("MatMulNBits", inputs, [made], domain=DOMAIN, accuracy_level=1, **packed.sizes)
    layer.add(node, layer.label)
    return made if op.bias is None else layer.helper("Add", made, op.bias)


def matmul_integer(op: nn.MatMulIntegerOp, layer: OnnxLayer) -> Written:
    """MatMulInteger, with a remark."""
    layer.note("matmul-nbits", "is not written as MatMulNBits: its input is quantized in each run (dynamic)")
    return linear.matmul_integer(op, layer)


def dequantize(op: nn.DequantizeOp, layer: OnnxLayer) -> Written:
    """Nothing for a weight that only MatMulNBits reads, which has its integers."""
    found = list(readers(op.result))
    if found and all(isinstance(r, nn.MatMulOp) and _dequantized(r) is op and _refused(r, op) is None for r in found):
        return [None]
    return quantization.dequantize(op, layer)


def with_nbits(converters: Converters[OnnxLayer, Written]) -> Converters[OnnxLayer, Written]:
    """The converters with these in place of those of products and DequantizeLinear."""
    return {**converters, nn.MatMulOp: matmul, nn.MatMulIntegerOp: matmul_integer, nn.DequantizeOp: dequantize}


def _dequantized(op: nn.MatMulOp) -> nn.DequantizeOp | None:
    """The dequantize of a product's constant weight."""
    owner = source(op.rhs).owner
    return owner if isinstance(owner, nn.DequantizeOp) and nn.constant_of(owner.input) is not None else None


def _refused(op: nn.MatMulOp, weight: nn.DequantizeOp) -> str | None:
    """The reason why MatMulNBits does not compute a product."""
    p, rank = weight.qparams.data, len(shape_of(op.rhs))
    if element_of(op.lhs) not in (f32, f16):
        return f"its input is of {element_of(op.lhs)}"
    if rank != 2 or len(shape_of(op.lhs)) < 2:
        return f"it is a product of ranks {len(shape_of(op.lhs))} and {rank}"
    if p.storage.width.data not in (4, 8):
        return f"its weight is of {p.storage}"
    if p.block is None or p.axis != (0 if op.transpose_b is None else 1):
        return "its weight has no groups of input channels"
    if p.block not in GROUP_SIZES:
        return f"its groups have {p.block} input channels"
    least = np.abs(_scales(op, weight, numpy_dtype(element_of(op.lhs))))
    normal = np.all((least >= np.finfo(least.dtype).tiny) & np.isfinite(least))
    return None if normal else f"a scale of its weight leaves the normal range of {element_of(op.lhs)}"


def _scales(op: nn.MatMulOp, weight: nn.DequantizeOp, dtype: np.dtype[np.generic]) -> Array:
    """The scales of a product's weight, [N, groups]."""
    p, shape = weight.qparams.data, shape_of(weight.input)
    assert p.axis is not None
    assert p.block is not None
    scales = p.scales().reshape(nn.blocks_of(shape, p.axis, p.block))
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(scales if op.transpose_b is not None else scales.T).astype(dtype)


def _packed(op: nn.MatMulOp, weight: nn.DequantizeOp) -> Packed:
    p, array = weight.qparams.data, np.asarray(nn.array_of(weight.input))
    bits, block = p.storage.width.data, p.block
    assert p.axis is not None
    assert block is not None
    half = 0 if p.storage.signedness.data == Signedness.UNSIGNED else 2 ** (bits - 1)
    blocks = nn.blocks_of(array.shape, p.axis, block)

    def rows(values: Array) -> Array:
        """A row for each output channel."""
        return values if op.transpose_b is not None else values.T

    integers = rows(array.astype(np.int16) + half).astype(np.uint8)
    columns, channels = integers.shape
    groups = -(-channels // block)
    padded = np.zeros((columns, groups * block), np.uint8)
    padded[:, :channels] = integers
    points = np.broadcast_to(p.zero_points(), p.scales().shape).reshape(blocks) + half
    return Packed(
        {"K": channels, "N": columns, "bits": bits, "block_size": block},
        packed_rows(padded.reshape(columns, groups, block), bits),
        _scales(op, weight, numpy_dtype(element_of(op.lhs))),
        None if np.all(points == 2 ** (bits - 1)) else packed_rows(rows(points).astype(np.uint8), bits),
    )
