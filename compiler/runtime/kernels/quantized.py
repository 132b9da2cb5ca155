"""Quantized operations in integers, in the arithmetic of onnxruntime's kernels (MLAS, on x86 with AVX2).

Between `nn.dequantize` and `nn.quantize` an operation has integer operands and results. Sums are exact in int32. The rest is
float32, each step rounded once: sums times `sx * sw / sy`, round half to even, add the zero point, saturate. Activations that
bound the input of the quantization saturate earlier. Additions, products and average pools have formulas of their own, in
which int8 counts as uint8 with the zero point moved by 128, as in the files of profile qdq.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...dialects import nn
from ...dialects.nn import QParams
from ...ir.dtypes import integer_range, numpy_dtype
from ..bounds import UNBOUNDED, Bounds
from ..integer import matmul_int8, prepare_conv, prepare_matmul
from ..layouts import in_layout, per_channel
from ..windows import Window, tap_slices
from . import Array
from .pooling import counts_for, padded_for

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)

Run = Callable[..., Array]
"""A kernel with one result."""
Sums = Callable[..., Array]
"""Maps the integers of one or two operands to their sums: float32 if that represents them, otherwise int32."""


@dataclass(frozen=True)
class Result:
    """The quantization of a result, and the bounds of linear activations before it."""

    params: QParams
    bounds: Bounds = UNBOUNDED

    def quantized(self) -> Callable[[Array], Array]:
        """Rounds float32 in units of the scale to integers. Writes to its operand."""
        zero_point, storage = np.float32(self.params.zero_points()), numpy_dtype(self.params.storage)
        low, high = self.limits

        def run(y: Array) -> Array:
            np.add(np.rint(y, out=y), zero_point, out=y)
            return np.clip(y, low, high, out=y).astype(storage)

        return run

    @property
    def limits(self) -> tuple[int, int]:
        """The bounds as integers. Rounding is monotone, so bounding after it gives the same result."""
        p = self.params
        ends = np.rint(np.array(self.bounds, _F32) / p.scales()) + np.float32(p.zero_points())
        low, high = np.clip(ends, *integer_range(p.storage))
        return int(low), int(high)


@dataclass(frozen=True)
class Weight:
    """Integers of a constant operand, and the bias, if any, at the scale of the sums."""

    params: QParams
    array: Array
    bias: Array | None = None


def quantized_conv(op: nn.ConvolutionOp, x: QParams, weight: Weight, result: Result) -> Run:
    """QLinearConv."""
    window, kernel_shape = Window.of(op), weight.array.shape[2:]
    sums = prepare_conv(
        weight.array,
        weight.bias,
        numpy_dtype(x.storage),
        zero_point=int(x.zero_points()),
        strides=window.strides,
        dilations=window.dilations,
        groups=op.group_count,
    )
    multiplier = per_channel(_multiplier(x, weight.params) / result.params.scales(), weight.array.ndim)
    quantize = result.quantized()

    def run(q: Array) -> Array:
        return quantize(_scaled(sums(q, window.pads_for(q.shape[2:], kernel_shape)), multiplier))

    return in_layout(op, run)


def matmul_sums(op: nn.MatMulOp, x: QParams, weight: Weight) -> Sums:
    """Maps integers to sums."""
    transposed = op.transpose_a is not None
    matrix = weight.array.swapaxes(-1, -2) if op.transpose_b is not None else weight.array
    if vector := matrix.ndim == 1:
        matrix = matrix[:, None]
    sums = prepare_matmul(matrix, weight.bias, numpy_dtype(x.storage), zero_point=int(x.zero_points()))

    def run(q: Array) -> Array:
        q = q.swapaxes(-1, -2) if transposed else q
        y = sums(q[None, :])[..., 0, :] if q.ndim == 1 else sums(q)
        return y[..., 0] if vector else y

    return run


def matmul_of_activations(op: nn.MatMulOp, a: QParams, b: QParams) -> Sums:
    """Maps the integers of both operands to sums."""
    transpose_a, transpose_b = op.transpose_a is not None, op.transpose_b is not None
    zero_a, zero_b = int(a.zero_points()), np.int16(b.zero_points())

    def run(lhs: Array, rhs: Array) -> Array:
        rhs = rhs.astype(np.int16) - zero_b
        lhs = lhs.swapaxes(-1, -2) if transpose_a else lhs
        rhs = rhs.swapaxes(-1, -2) if transpose_b else rhs
        y = matmul_int8(np.atleast_2d(lhs), rhs[:, None] if rhs.ndim == 1 else rhs, zero_point=zero_a)
        y = y[..., 0, :] if lhs.ndim == 1 else y
        return y[..., 0] if rhs.ndim == 1 else y

    return run


def quantized_product(sums: Sums, x: QParams, weight: QParams, result: Result) -> Run:
    """QLinearMatMul and QGemm: scales of the weight are along the last axis."""
    multiplier, quantize = _multiplier(x, weight) / result.params.scales(), result.quantized()

    def run(*q: Array) -> Array:
        return quantize(_scaled(sums(*q), multiplier))

    return run


def float_product(sums: Sums, x: QParams, weight: QParams) -> Run:
    """MatMulIntegerToFloat, and QGemm without result parameters: sums times `sx * sw`."""
    multiplier = _multiplier(x, weight)

    def run(*q: Array) -> Array:
        return _scaled(sums(*q), multiplier)

    return run


def biased(product: Run) -> Run:
    """A product with a float bias as the last operand."""

    def run(*arrays: Array) -> Array:
        *operands, bias = arrays
        y = product(*operands)
        return np.add(y, bias, out=y)

    return run


def quantized_add(a: QParams, b: QParams, result: Result) -> Run:
    """QLinearAdd: `a * (sa / sy) + (b * (sb / sy) + fixed)`, each step a fused multiply-add."""
    scale = result.params.scales()
    ratio_a, ratio_b = a.scales() / scale, b.scales() / scale
    zero_a, zero_b, zero_point = (_unsigned_zero_point(p) for p in (a, b, result.params))
    fixed = zero_point - _fused(ratio_a, zero_a, ratio_b * zero_b)
    every = np.arange(256)
    return _of_pairs(a, b, _fused(every[:, None], ratio_a, _fused(every, ratio_b, fixed)), result)


def quantized_mul(a: QParams, b: QParams, result: Result) -> Run:
    """QLinearMul: the product of integers times `sa * sb / sy`; the zero point is added before it is rounded."""
    every = np.arange(256)
    products = np.multiply.outer(every - int(_unsigned_zero_point(a)), every - int(_unsigned_zero_point(b)))
    reals = _scaled(products, _multiplier(a, b) / result.params.scales())
    return _of_pairs(a, b, reals + _unsigned_zero_point(result.params), result)


def _of_pairs(a: QParams, b: QParams, reals: Array, result: Result) -> Callable[[Array, Array], Array]:
    """Looks up integers of two operands in a table `reals[256, 256]` by unsigned integers; the result is not yet rounded."""
    lowest_a, lowest_b, lowest = (integer_range(p.storage)[0] for p in (a, b, result.params))
    table = np.clip(np.rint(reals) + lowest, *result.limits).astype(numpy_dtype(result.params.storage)).reshape(-1)
    return lambda x, y: table[(x.astype(np.int32) - lowest_a) * 256 + (y.astype(np.int32) - lowest_b)]


def _fused(a: Array, b: Array, c: Array) -> Array:
    """`a * b + c` rounded once to float32: float64 represents the product of 24 and 8 bits, and in this range also the sum."""
    return np.asarray(np.multiply(a, b, dtype=_F64) + c).astype(_F32)


def quantized_average_pool(op: nn.AveragePoolOp, x: QParams, result: Result) -> Run:
    """QLinearAveragePool: adds reals one after the other; the zero point is added before the mean is rounded."""
    window, inside = Window.of(op), padded_for(op)
    zero_in, scale_in = np.float32(x.zero_points()), x.scales()
    p, lowest = result.params, integer_range(result.params.storage)[0]
    zero_point, scale, storage = _unsigned_zero_point(p), p.scales(), numpy_dtype(p.storage)
    low, high = result.limits

    def run(q: Array) -> Array:
        reals, out, pads = inside((q.astype(_F32) - zero_in) * scale_in, 0.0, _F32)
        sums = np.zeros((*q.shape[:2], *out), _F32)
        for _, slices in tap_slices(op.kernel_shape, out, window.strides, window.dilations):
            np.add(sums, reals[(slice(None), slice(None), *slices)], out=sums)
        np.divide(sums, counts_for(op, q.shape[2:], out, pads).astype(_F32), out=sums)
        np.add(np.divide(sums, scale, out=sums), zero_point, out=sums)
        return np.clip(np.rint(sums, out=sums) + lowest, low, high).astype(storage)

    return in_layout(op, run)


def quantized_global_average_pool(op: nn.GlobalAveragePoolOp | nn.ReduceMeanOp, x: QParams, result: Result) -> Run:
    """QLinearGlobalAveragePool: integer sums times `sx / (sy * count)`."""
    zero_point, quantize = int(x.zero_points()), result.quantized()

    def run(q: Array) -> Array:
        axes, count = tuple(range(2, q.ndim)), prod(q.shape[2:])
        sums = q.sum(axis=axes, dtype=np.int64, keepdims=True) - zero_point * count
        return quantize(_scaled(sums, x.scales() / (result.params.scales() * np.float32(count))))

    return run if isinstance(op, nn.ReduceMeanOp) else in_layout(op, run)


def _multiplier(x: QParams, weight: QParams) -> Array:
    """`sx * sw`, rounded to float32."""
    return np.asarray(x.scales() * weight.scales())


def _scaled(sums: Array, multiplier: Array) -> Array:
    """Sums in float32, times the multiplier. May write to sums of float32."""
    y = sums.astype(_F32, copy=False)
    return np.multiply(y, multiplier, out=y)


def _unsigned_zero_point(p: QParams) -> Any:
    """The zero point of the same numbers in an unsigned type."""
    return np.float32(int(p.zero_points()) - integer_range(p.storage)[0])
