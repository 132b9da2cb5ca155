"""Quantization in explicit steps, with which TensorFlow computes `nn.quantize` and `nn.dequantize` bit for bit.

A float32 division by a constant is wrong: TensorFlow's optimizer (Grappler) turns it into a product with the reciprocal, which
puts many numbers half-way between two integers on the other side. In float64 that reciprocal is close enough that rounding to
float32 gives the quotient itself: two float32 numbers have none nearer than 2^-49 to a point half-way between two others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i16

from ...dialects import nn
from ...dialects.nn.shapes import shape_of
from ...ir.dtypes import integer_range
from ..graph import source
from .graph import Array, Graph, array_of, element_of, stored_quantized
from .layer import TensorFlowLayer, converter

_BITS = range(2, 17)
"""The widths of FakeQuant."""


@converter(nn.QuantizeOp)
def quantize(op: nn.QuantizeOp, layer: TensorFlowLayer) -> str:
    p, x = op.qparams.data, layer.cast(op.input, "float32")
    if layer.graph.form.fake_quant:
        if (reason := _not_fake(op)) is None:
            layer.graph.on_grid[op.result] = _fake(layer, x, p)
            return layer.graph.on_grid[op.result]
        layer.note("plain", f"is written in plain operators: {reason}")
    scales, points = p.broadcastable(shape_of(op.input))
    y = layer.helper("Round", _quotient(layer, x, scales))
    # float32 represents every integer of up to 16 bits and its neighbours, but not the ends of int32
    y = layer.cast(y, "float32" if p.storage.width.data <= 16 else "float64")
    if np.any(points):
        y = layer.helper("AddV2", y, layer.constant(points.astype(layer.graph.elements[y]), "zero_point"))
    low, high = integer_range(p.storage)
    y = layer.helper("Maximum", y, layer.scalar(low, y, "low"))
    y = layer.helper("Minimum", y, layer.scalar(high, y, "high"))
    return layer.cast(y, element_of(op.result))


@converter(nn.DequantizeOp)
def dequantize(op: nn.DequantizeOp, layer: TensorFlowLayer) -> str:
    """The reals of a FakeQuant, for its integers."""
    if stored_quantized(op) is not None:
        return write_weight(op, layer.graph)
    if (grid := layer.graph.on_grid.get(source(op.input))) is not None:
        return layer.cast(grid, element_of(op.result))
    return _reals(layer, layer.value(op.input), op.qparams.data, op, shape_of(op.input))


@converter(nn.ShiftAccumulatorOp)
def shift_accumulator(op: nn.ShiftAccumulatorOp, layer: TensorFlowLayer) -> str:
    """Writes the definition in float32: all steps but the first and the last are exact."""
    scales, _ = op.qparams.data.broadcastable(shape_of(op.input))
    powers = np.exp2(np.array(op.shift_list, np.float32))
    powers = powers.reshape(scales.shape) if powers.size > 1 else powers[0]
    y = layer.helper("Round", _quotient(layer, layer.cast(op.input, "float32"), scales))
    y = layer.helper("Floor", layer.helper("Mul", y, layer.constant(np.asarray(1 / powers, np.float32), "power")))
    low, high = integer_range(i16)
    y = layer.helper("Maximum", y, layer.scalar(low, y, "low"))
    y = layer.helper("Minimum", y, layer.scalar(high, y, "high"))
    y = layer.helper("Mul", y, layer.constant(np.asarray(powers * scales, np.float32), "step"))
    return layer.cast(y, element_of(op.result))


def _quotient(layer: TensorFlowLayer, x: str, scales: Array) -> str:
    """A float32 tensor divided by scales, rounded to float32 once."""
    quotient = layer.helper("RealDiv", layer.cast(x, "float64"), layer.constant(scales.astype(np.float64), "scale"))
    return layer.cast(quotient, "float32")


def write_weight(op: nn.DequantizeOp, graph: Graph, perm: tuple[int, ...] = ()) -> str:
    """The reals of a constant of integers, transposed; written once for each order of axes."""
    key = op, perm
    if key not in graph.weights:
        layer = TensorFlowLayer(graph, op)
        graph.weights[key] = _weight(op, layer, perm)
        layer.flush()
    return graph.weights[key]


def _weight(op: nn.DequantizeOp, layer: TensorFlowLayer, perm: tuple[int, ...]) -> str:
    constant, p = stored_quantized(op), op.qparams.data
    assert constant is not None
    if p.block is not None:
        layer.note("groups", "its scales per group are written as one for each number of the weight")
    if perm:
        p = p.transposed(perm, shape_of(op.input))
    if layer.graph.form.fake_quant:
        if (reason := _no_grid(p, op)) is None:
            integers = array_of(constant)
            integers = integers.transpose(perm) if perm else integers
            scales, points = p.broadcastable(integers.shape)
            reals = (integers.astype(np.float32) - points) * scales
            return layer.cast(
                _fake(layer, layer.graph.add_constant(reals.astype(np.float32), constant.key), p), element_of(op.result)
            )
        layer.note("plain", f"is written in plain operators: {reason}")
    shape = shape_of(op.input)
    return _reals(layer, layer.graph.stored(constant, perm), p, op, [shape[i] for i in perm] if perm else shape)


def _reals(layer: TensorFlowLayer, q: str, p: nn.QParams, op: nn.DequantizeOp, shape: Sequence[int]) -> str:
    scales, points = p.broadcastable(shape)
    y = layer.cast(q, "float32")
    if np.any(points):
        y = layer.helper("Sub", y, layer.constant(points.astype(np.float32), "zero_point"))
    return layer.cast(layer.helper("Mul", y, layer.constant(scales, "scale")), element_of(op.result))


# FakeQuant


def _not_fake(op: nn.QuantizeOp) -> str | None:
    """The reason why a FakeQuant cannot replace this and its readers; None if it can."""
    consumers = [use.operation for use in op.result.uses]
    if not all(isinstance(c, nn.DequantizeOp) and c.qparams == op.qparams for c in consumers):
        return "its integers are used"
    return _no_grid(op.qparams.data, op)


def _no_grid(p: nn.QParams, op: nn.QuantizeOp | nn.DequantizeOp) -> str | None:
    """The reason why a FakeQuant cannot produce the numbers of these parameters."""
    if p.storage.width.data not in _BITS:
        return f"a FakeQuant has {_BITS[0]} to {_BITS[-1]} bits, not {p.storage.width.data}"
    if p.block is not None:
        return "a FakeQuant has no range for each group"
    rank = len(shape_of(op.input))
    if p.axis is not None and p.axis % rank != rank - 1:
        return "a FakeQuant has a range for each index of the last axis only"
    return None


def _fake(layer: TensorFlowLayer, x: str, p: nn.QParams) -> str:
    """A FakeQuant whose range gives these scales and zero points."""
    bits = p.storage.width.data
    least, greatest = (layer.constant(end, role) for end, role in zip(_range(p), ("min", "max"), strict=True))
    op_type = "FakeQuantWithMinMaxVars" if p.axis is None else "FakeQuantWithMinMaxVarsPerChannel"
    return layer.helper(op_type, x, least, greatest, num_bits=None if bits == 8 else bits)


def _range(p: nn.QParams) -> tuple[Array, Array]:
    """The least and the greatest number, float32; if possible, those from which TensorFlow computes exactly this scale."""
    scales, points = np.float64(p.scales()), p.zero_points()
    low, high = integer_range(p.storage)
    least = np.asarray((low - points) * scales, np.float32)
    middle = np.asarray((high - points) * scales, np.float32)
    nearest = [middle, np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(-np.inf))]
    exact = [(g - least) / np.float32(high - low) == p.scales() for g in nearest]
    return least, np.select(exact, nearest, middle)
