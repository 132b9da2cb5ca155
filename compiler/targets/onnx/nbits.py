"""Operators of onnxruntime whose weight of 2, 4 or 8 bits stays packed at run time: MatMulNBits, for products with a weight in
groups, and GatherBlockQuantized, for tables of embeddings.

Source: onnxruntime, docs/ContribOperators.md. At accuracy level 1 it computes in float32. Scales have the type of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
from onnx import helper
from xdsl.dialects.builtin import Signedness, f16, f32, i32, i64
from xdsl.ir import Operation, SSAValue

from ...configuration.ranges import GroupSize
from ...dialects import nn
from ...dialects.nn.shapes import axis_of, element_of, shape_of
from ...formats.onnx.packing import WIDTHS, packed_rows
from ...ir.dtypes import numpy_dtype
from ..converters import Converters
from ..graph import readers, source
from . import linear, quantization, shape
from .graph import Array
from .layer import OnnxLayer, Written

DOMAIN = "com.microsoft"
OPERATORS = ("MatMulNBits", "GatherBlockQuantized")


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


def gather(op: nn.GatherOp, layer: OnnxLayer) -> Written:
    """A GatherBlockQuantized for rows of a dequantized table; Gather, with a remark, if it cannot be one."""
    if (table := _stored(op.input)) is None:
        return shape.gather(op, layer)
    if (reason := _gather_refused(op, table)) is not None:
        layer.note("matmul-nbits", f"is not written as GatherBlockQuantized: {reason}")
        return shape.gather(op, layer)
    p, array = table.qparams.data, np.asarray(nn.array_of(table.input))
    bits, block, half = p.storage.width.data, _block_of_rows(p, array.shape), _half(p)
    scales, points = p.scales().reshape(len(array), -1), p.zero_points()
    rounded = scales.astype(numpy_dtype(element_of(op.result)))
    if changed := int(np.count_nonzero(rounded != scales)):
        layer.note(
            "float16-scales", f"{changed} of {scales.size} scales are rounded to float16, the type of its result"
        )
    layer.graph.domains.setdefault(DOMAIN, 1)
    product = next((r for r in readers(table.result) if isinstance(r, nn.MatMulOp) and _is_packed(r, table)), None)
    if product is not None and array.shape[1] % block == 0:  # the head's weight is the table: one tensor in the file
        whole = layer.constant(_packed(product, table).weight, "weight")
        packed = layer.helper("Reshape", whole, layer.ints([len(array), -1], "shape"))
    else:
        packed = layer.constant(packed_rows((array.astype(np.int16) + half).astype(np.uint8), bits), "table")
    inputs = [
        packed,
        layer.value(op.indices),
        layer.constant(rounded, "scale"),
    ]
    if points.any():
        every = (np.broadcast_to(points, p.scales().shape).reshape(scales.shape) + half).astype(np.uint8)
        inputs.append(layer.constant(packed_rows(every, bits), "zero_point"))
    made = layer.provisional(op.result)
    sizes: dict[str, Any] = {"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": 1}
    layer.add(helper.make_node("GatherBlockQuantized", inputs, [made], domain=DOMAIN, **sizes), layer.label)
    return made


def dequantize(op: nn.DequantizeOp, layer: OnnxLayer) -> Written:
    """Writes nothing for a weight that only MatMulNBits and GatherBlockQuantized read, which have its integers."""
    found = list(readers(op.result))
    return [None] if found and all(_is_packed(reader, op) for reader in found) else quantization.dequantize(op, layer)


def _is_packed(reader: Operation, op: nn.DequantizeOp) -> bool:
    """Whether the operation that reads a dequantized weight is written with its integers."""
    if isinstance(reader, nn.GatherOp):
        return _stored(reader.input) is op and _gather_refused(reader, op) is None
    return isinstance(reader, nn.MatMulOp) and _dequantized(reader) is op and _refused(reader, op) is None


def with_nbits(converters: Converters[OnnxLayer, Written]) -> Converters[OnnxLayer, Written]:
    """The converters with these instead of those of products and DequantizeLinear."""
    return {
        **converters,
        nn.MatMulOp: matmul,
        nn.MatMulIntegerOp: matmul_integer,
        nn.DequantizeOp: dequantize,
        nn.GatherOp: gather,
    }


def _dequantized(op: nn.MatMulOp) -> nn.DequantizeOp | None:
    """The dequantize of a product's constant weight."""
    return _stored(op.rhs)


def _stored(value: SSAValue) -> nn.DequantizeOp | None:
    """The dequantize of a constant."""
    owner = source(value).owner
    return owner if isinstance(owner, nn.DequantizeOp) and nn.constant_of(owner.input) is not None else None


def _refused(op: nn.MatMulOp, weight: nn.DequantizeOp) -> str | None:
    """The reason why MatMulNBits does not compute a product."""
    p, rank = weight.qparams.data, len(shape_of(op.rhs))
    if element_of(op.lhs) not in (f32, f16):
        return f"its input is of {element_of(op.lhs)}"
    if rank != 2 or len(shape_of(op.lhs)) < 2:
        return f"it is a product of ranks {len(shape_of(op.lhs))} and {rank}"
    if p.storage.width.data not in WIDTHS:
        return f"its weight is of {p.storage}"
    if p.block is None or p.axis != (0 if op.transpose_b is None else 1):
        return "its weight has no groups of input channels"
    if p.block not in get_args(GroupSize):
        return f"its groups have {p.block} input channels"
    return _scale_refused(p, op.lhs)


def _scale_refused(p: nn.QParams, value: SSAValue) -> str | None:
    """The reason why scales cannot have the type of a value: there they are not normal numbers."""
    if element_of(value) == f32:
        return None
    with np.errstate(over="ignore"):
        sizes = np.abs(p.scales().astype(np.float16))
    normal = np.all((sizes >= np.finfo(np.float16).tiny) & np.isfinite(sizes))
    return None if normal else "a scale of its weight leaves the normal range of float16"


def _scales(op: nn.MatMulOp, weight: nn.DequantizeOp, dtype: np.dtype[np.generic]) -> Array:
    """The scales of a product's weight, [N, groups]."""
    p = weight.qparams.data
    assert p.axis is not None
    assert p.block is not None
    scales = p.scales().reshape(nn.blocks_of(shape_of(weight.input), p.axis, p.block))
    return np.ascontiguousarray(scales if op.transpose_b is not None else scales.T).astype(dtype)


def _gather_refused(op: nn.GatherOp, table: nn.DequantizeOp) -> str | None:
    """The reason why GatherBlockQuantized does not pick the rows of a table."""
    p, sizes = table.qparams.data, shape_of(op.input)
    if len(sizes) != 2 or axis_of(op.axis.value.data, 2) != 0 or op.batch_count:
        return "it does not pick rows of a matrix"
    if element_of(op.result) not in (f32, f16):
        return f"its result is of {element_of(op.result)}"
    if element_of(op.indices) not in (i32, i64):
        return f"its indices are of {element_of(op.indices)}"
    if (bits := p.storage.width.data) not in WIDTHS or (sizes[1] * bits) % 8:
        return f"its table has rows of {sizes[1]} {p.storage}"
    if p.axis is None or p.axis != (0 if p.block is None else 1):
        return "its table has no scales of rows, or of groups in them"
    if p.block is not None and p.block not in get_args(GroupSize):
        return f"its groups have {p.block} columns"
    return _scale_refused(p, op.result)


def _block_of_rows(p: nn.QParams, shape: Sequence[int]) -> int:
    """The size of groups: if a row has one scale, the power of two that is at least the row's length and 16."""
    return max(16, 1 << (shape[1] - 1).bit_length()) if p.block is None else p.block


def _half(p: nn.QParams) -> int:
    """The offset that makes signed integers unsigned."""
    return 0 if p.storage.signedness.data == Signedness.UNSIGNED else 2 ** (p.storage.width.data - 1)


def _packed(op: nn.MatMulOp, weight: nn.DequantizeOp) -> Packed:
    p, array = weight.qparams.data, np.asarray(nn.array_of(weight.input))
    bits, block = p.storage.width.data, p.block
    assert p.axis is not None
    assert block is not None
    half = _half(p)
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
