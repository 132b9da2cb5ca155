"""Exact integer products through float BLAS.

Raw integers are multiplied; the zero point is corrected by `zero_point * sum(w)` in integers, with padding filled by the
zero point, so that the largest product stays that of the raw types (int8: 2^14). A float32 sum of integers is exact as long
as no partial sum exceeds 2^24: proved per layer from the weights (`sum |w| * largest |x|` of every output channel); otherwise the
sum is cut into slices that are exact for any values, at most 1024 products of int8 each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .convolve import convolve
from .kernels import Array
from .multiply import KEPT_WEIGHT, matmul, matmul_by_columns

FLOAT32_EXACT = 1 << 24
"""Largest sum of integers of which every partial sum is a float32."""
INT32_MAX = (1 << 31) - 1

FLOAT64_EXACT = 1 << 53

SHORTEST_SLICE = 64
"""Fewest products of a float32 slice; with fewer (int16 operands), float64 is faster."""

_INT8 = np.dtype(np.int8)
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


def largest_magnitude(dtype: np.dtype[Any]) -> int:
    """The largest |value| of an integer type: 128 for int8, 255 for uint8."""
    import ml_dtypes

    info = ml_dtypes.iinfo(dtype)
    return max(-int(info.min), int(info.max))


def prepare_conv(
    weight: Array,
    bias: Array | None = None,
    input_dtype: np.dtype[Any] = _INT8,
    *,
    zero_point: int = 0,
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int = 1,
) -> Callable[[Array, Sequence[int]], Array]:
    """Pack the weights of a convolution; returns `run(x, pads)`.

    weight `[M, C/groups, *kernel]` int8 (or another integer type of at most 16 bits), bias `[M]` integers. `run` takes x
    `[N, C, *spatial]`, integers of `input_dtype` in any number type, and pads (all begins, then all ends). It returns the
    accumulators `sum((x - zero_point) * w) + bias` as `[N, M, *output]`, padding contributing 0: in float32 if that represents
    every one, otherwise in int32. It raises ValueError if one is outside int32.
    """
    taps, depth = prod(weight.shape[2:]), weight.shape[1]
    window, per_channel = tuple(range(1, weight.ndim)), (-1, *(1 for _ in weight.shape[2:]))
    largest_sum = _absolute_sums(weight, window) * largest_magnitude(input_dtype)
    split = _split(weight, input_dtype, largest_sum, taps)
    parts = [(s, np.ascontiguousarray(weight[:, s], split.dtype)) for s in _slices(depth, split.products // taps)]
    correction = -zero_point * weight.sum(axis=window, dtype=np.int64)
    correction = correction if bias is None else correction + bias
    finish = _finish(correction.reshape(per_channel), largest_sum.reshape(per_channel))
    convolution = partial(
        convolve, strides=tuple(strides), dilations=tuple(dilations), groups=groups, fill=float(zero_point)
    )

    def run(x: Array, pads: Sequence[int]) -> Array:
        if len(parts) == 1:
            return finish(convolution(x, parts[0][1], pads=pads))
        n, space = x.shape[0], x.shape[2:]
        grouped = x.reshape(n, groups, depth, *space)
        channels = (grouped[:, :, s].reshape(n, -1, *space) for s, _ in parts)
        sums = (convolution(c, part, pads=pads) for c, (_, part) in zip(channels, parts, strict=True))
        return finish(_total(sums))

    return run


def matmul_int8(x: Array, weight: Array, bias: Array | None = None, *, zero_point: int = 0) -> Array:
    """Computes one exact matrix product, int32; see `prepare_matmul`, which packs the weights once for many."""
    return prepare_matmul(weight, bias, x.dtype, zero_point=zero_point)(x).astype(np.int32, copy=False)


def prepare_matmul(
    weight: Array, bias: Array | None = None, input_dtype: np.dtype[Any] = _INT8, *, zero_point: int = 0
) -> Callable[[Array], Array]:
    """Pack the weights of a matrix product; returns `run(x)`.

    weight `[..., K, N]` int8 (or another integer type of at most 16 bits), bias `[N]` integers. `run` takes x `[..., M, K]` (two
    axes or more), integers of `input_dtype` in any number type, and returns the accumulators `sum((x - zero_point) * w) + bias`
    as `[..., M, N]`: in float32 if that represents every one, otherwise in int32. It raises ValueError if one is outside int32.
    """
    largest_sum = _absolute_sums(weight, -2) * largest_magnitude(input_dtype)
    split = _split(weight, input_dtype, largest_sum, 1)
    slices = _slices(weight.shape[-2], split.products)
    large = weight.ndim == 2 and weight.size * split.dtype.itemsize >= KEPT_WEIGHT
    parts = [(s, weight[..., s, :] if large else weight[..., s, :].astype(split.dtype)) for s in slices]
    product = matmul_by_columns if large else matmul
    correction = -zero_point * weight.sum(axis=-2, dtype=np.int64, keepdims=True)
    finish = _finish(correction if bias is None else correction + bias, largest_sum[..., None, :])

    def run(x: Array) -> Array:
        floats = x.astype(split.dtype, copy=False)
        if len(parts) == 1:
            return finish(product(floats, parts[0][1]))
        return finish(_total(product(floats[..., s], part) for s, part in parts))

    return run


def matmul_any(a: Array, b: Array) -> Array:
    """`a @ b` of integer arrays in their own type, wrapping around: through float64 if the values allow it."""
    if a.size and b.size and _magnitude(a) * _magnitude(b) * a.shape[-1] <= FLOAT64_EXACT:
        return matmul(a.astype(_F64), b.astype(_F64)).astype(np.int64).astype(a.dtype)
    return np.matmul(a, b)


def _magnitude(array: Array) -> int:
    return max(-int(array.min()), int(array.max()))


class _Split(NamedTuple):
    """The float type to compute in, and the number of products that may be summed in it."""

    dtype: np.dtype[Any]
    products: int


def _split(weight: Array, input_dtype: np.dtype[Any], largest_sum: Array, least: int) -> _Split:
    """The cheapest exact way to sum with these weights; `least` neighbouring products cannot be separated."""
    if int(largest_sum.max(initial=0)) <= FLOAT32_EXACT:
        return _Split(_F32, max(weight.size, least))
    product = largest_magnitude(input_dtype) * _magnitude(weight)
    if FLOAT32_EXACT // product >= max(least, SHORTEST_SLICE):
        return _Split(_F32, FLOAT32_EXACT // product)
    return _Split(_F64, FLOAT64_EXACT // product)


def _slices(depth: int, step: int) -> list[slice]:
    return [slice(k, k + step) for k in range(0, depth, step)] or [slice(0, 0)]


def _absolute_sums(weight: Array, axes: int | tuple[int, ...]) -> Array:
    return np.abs(weight, dtype=np.int32).sum(axis=axes, dtype=np.int64)


def _total(parts: Iterable[Array]) -> Array:
    """The sum of exact float parts, as int64."""
    total: Array | None = None
    for part in parts:
        total = part.astype(np.int64) if total is None else np.add(total, part.astype(np.int64), out=total)
    assert total is not None
    return total


def _finish(correction: Array, largest_sum: Array) -> Callable[[Array], Array]:
    """Converts raw sums, which it may write to, to accumulators: adds `correction`, which broadcasts to them.

    Static bounds decide whether float32 or int32 holds every intermediate value; otherwise the sum is in int64 and checked.
    """
    largest = int((largest_sum + np.abs(correction)).max(initial=0))
    if largest <= FLOAT32_EXACT:
        # raw sums are float32 too; the sum also makes 0 of -0
        floats = correction.astype(_F32)
        return lambda sums: _added(sums, floats)
    if largest <= INT32_MAX:
        narrow = correction.astype(np.int32)
        return lambda sums: _added(sums.astype(np.int32), narrow)
    return lambda sums: _checked(_added(sums.astype(np.int64), correction))


def _added(sums: Array, correction: Array) -> Array:
    return np.add(sums, correction, out=sums)


def _checked(sums: Array) -> Array:
    low, high = (int(sums.min()), int(sums.max())) if sums.size else (0, 0)
    if low < -INT32_MAX - 1 or high > INT32_MAX:
        raise ValueError(f"accumulators from {low} to {high} do not fit into int32")
    return sums.astype(np.int32)
