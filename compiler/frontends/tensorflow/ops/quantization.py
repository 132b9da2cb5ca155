"""Operators of quantization-aware training: they round to the same numbers as quantize and dequantize."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from ....dialects import nn
from ....dialects.nn.shapes import known
from ....ir.dtypes import integer_range, numpy_dtype
from ..node import Array, Constant, Converted, Node, Unmapped, converter


@dataclass(frozen=True)
class _Grid:
    """The numbers `(q - zero_point) * scale` for the integers q from `low` to `high`, each per tensor or per channel."""

    scale: Array
    """float32"""
    zero_point: Array
    low: Array
    high: Array
    bits: int

    @property
    def storage(self) -> IntegerType:
        """The narrowest signed type for the integers."""
        return IntegerType(next(width for width in (4, 8, 16) if self.bits <= width))

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The least and the greatest number."""
        return self._number(self.low), self._number(self.high)

    @property
    def fills_storage(self) -> bool:
        low, high = integer_range(self.storage)
        return bool(np.all((self.low == low) & (self.high == high)))

    def _number(self, q: Array) -> Array:
        return np.asarray((q - self.zero_point).astype(np.float32) * self.scale)

    def integers(self, x: Array) -> Array:
        """The integers nearest to x, halves rounded up."""
        steps = np.clip(x, *self.bounds) * (np.float32(1) / self.scale) + self.zero_point.astype(np.float32)
        return np.floor(steps + np.float32(0.5)).astype(numpy_dtype(self.storage))

    def parameters(self, axis: int | None, key: str) -> nn.QParamsAttr:
        points = self.zero_point.reshape(-1).tolist()
        return nn.QParamsAttr.of(self.storage, self.scale, points, axis, key)


def _grid(node: Node, least: Array, greatest: Array) -> _Grid:
    """The grid for ranges (float32): ranges move by less than a step so that 0 is on it. A range of only 0 is kept."""
    bits = node.int("num_bits", 8)
    if not 2 <= bits <= 16:
        raise node.error(f"has num_bits {bits}, not 2 to 16")
    if least.shape != greatest.shape:
        raise node.error(f"has a range from {list(least.shape)} to {list(greatest.shape)} numbers")
    zeros = (least == 0) & (greatest == 0)
    if not np.all(np.isfinite(least) & np.isfinite(greatest) & ((least < greatest) | zeros)):
        raise Unmapped("its range is empty or not finite")
    low, high = np.float32(node.flag("narrow_range")), np.float32((1 << bits) - 1)
    scale = np.where(zeros, np.float32(1), (greatest - least) / (high - low))
    if not np.all(scale >= np.finfo(np.float32).tiny):
        raise Unmapped("its range is too small")
    nearest = np.clip(low - least / scale, low, high)
    point = np.trunc(nearest) + (nearest - np.trunc(nearest) >= 0.5)
    center = 1 << (bits - 1)  # the operators count from 0, signed storage from its minimum
    zero_point = np.where(zeros, 0, point - center).astype(np.int64)
    first, last = (np.where(zeros, 0, end - center).astype(np.int64) for end in (low, high))
    return _Grid(np.asarray(scale, np.float32), zero_point, first, last, bits)


@converter("FakeQuantWithMinMaxArgs")
def fake_quant_args(node: Node) -> Converted:
    least, greatest = (np.asarray(node.float(*end), np.float32) for end in (("min", -6.0), ("max", 6.0)))
    return _fake_quantized(node, _grid(node, least, greatest), None)


@converter("FakeQuantWithMinMaxVars")
def fake_quant_vars(node: Node) -> Converted:
    return _fake_quantized(node, _grid(node, node.number(1), node.number(2)), None)


@converter("FakeQuantWithMinMaxVarsPerChannel")
def fake_quant_per_channel(node: Node) -> Converted:
    """A range for each index of the last axis."""
    if (
        not node.shape(0)
        or len(node.shape(1)) != 1
        or (known(node.shape(0)[-1]) and node.shape(1) != node.shape(0)[-1:])
    ):
        raise node.error(f"has ranges of shape {list(node.shape(1))} for numbers of shape {list(node.shape(0))}")
    return _fake_quantized(node, _grid(node, node.known(1), node.known(2)), len(node.shape(0)) - 1)


def _fake_quantized(node: Node, grid: _Grid, axis: int | None) -> Converted:
    """Quantizes and dequantizes; constants become integers at once. Values are clipped first if the grid is narrower."""
    qparams, x = grid.parameters(axis, f"{node.layer.name}.scale"), node.binding(0)
    if isinstance(x, Constant):
        integers = node.constant(grid.integers(x.array), ".integers")
        return node.emit(nn.DequantizeOp, integers, qparams=qparams).result
    within = x if grid.fills_storage else _clipped(node, x, grid)
    integers = node.emit(nn.QuantizeOp, within, qparams=qparams, source="user").result
    return node.emit(nn.DequantizeOp, integers, qparams=qparams).result


def _clipped(node: Node, x: SSAValue, grid: _Grid) -> SSAValue:
    least, greatest = grid.bounds
    if not least.ndim:
        return node.emit(nn.ClipOp, x, min=float(least), max=float(greatest)).result
    x = node.emit(nn.MaxOp, x, node.constant(least, ".least")).result
    return node.emit(nn.MinOp, x, node.constant(greatest, ".greatest")).result
