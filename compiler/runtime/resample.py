"""Resampling of one axis at a time: positions of output elements, and weights of their neighbours (ONNX Resize)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..dialects.nn.attributes import Coordinates, Nearest, ResizeMode
from .kernels import Array


class Sampling(NamedTuple):
    """The sampling of an operation: the properties of `nn.resize`."""

    mode: ResizeMode
    coordinates: Coordinates
    nearest: Nearest
    cubic_coeff: float = -0.75
    exclude_outside: bool = False
    cubic_steps: int | None = None


class Taps(NamedTuple):
    """The input elements and their weights for each output element of an axis: `[output, neighbours]`."""

    indices: Array
    weights: Array


def taps_of(sampling: Sampling, size: int, out: int, scale: float) -> Taps:
    """The taps of one axis of `size` elements, resized to `out` (about `size * scale`) elements."""
    if sampling.mode is ResizeMode.NEAREST:
        x = _positions(sampling.coordinates, size, out, scale, np.float32)  # as onnxruntime and torch: 3 / 0.6 is 5
        indices = _ROUNDINGS[sampling.nearest](x).astype(np.int64)[:, None]
        return Taps(np.clip(indices, 0, size - 1), np.ones((out, 1)))
    x = _positions(sampling.coordinates, size, out, scale, np.float64)
    start = np.floor(x).astype(np.int64)
    fraction = (x - start)[:, None]
    if sampling.mode is ResizeMode.LINEAR:
        indices, weights = start[:, None] + np.arange(2), np.concatenate([1 - fraction, fraction], axis=1)
        return Taps(np.clip(indices, 0, size - 1), weights)
    if sampling.cubic_steps is not None:
        fraction = np.rint(fraction * sampling.cubic_steps) / sampling.cubic_steps
    indices, weights = start[:, None] + np.arange(-1, 3), _cubic(fraction, sampling.cubic_coeff)
    if sampling.exclude_outside:
        weights = np.where((indices >= 0) & (indices < size), weights, 0)
        weights = weights / weights.sum(axis=1, keepdims=True)
    return Taps(np.clip(indices, 0, size - 1), weights)


def _positions(coordinates: Coordinates, size: int, out: int, scale: Any, dtype: type[np.floating[Any]]) -> Array:
    """The positions of output elements among input elements, computed in a float type."""
    i, scale = np.arange(out, dtype=dtype), dtype(scale)
    width = scale * size
    match coordinates:
        case Coordinates.ASYMMETRIC:
            return i / scale
        case Coordinates.ALIGN_CORNERS:
            return i * (size - 1) / (width - 1) if width != 1 else i * 0
        case Coordinates.PYTORCH_HALF_PIXEL if out == 1:
            return i * 0
        case Coordinates.HALF_PIXEL_SYMMETRIC:
            # the centers of input and output coincide, even if size * scale is not an integer
            return size / 2 * (1 - out / width) + (i + 0.5) / scale - 0.5
        case _:
            return (i + 0.5) / scale - 0.5


_ROUNDINGS: dict[Nearest, Callable[[Array], Array]] = {
    Nearest.ROUND_PREFER_FLOOR: lambda x: np.ceil(x - 0.5),
    Nearest.ROUND_PREFER_CEIL: lambda x: np.floor(x + 0.5),
    Nearest.FLOOR: np.floor,
    Nearest.CEIL: np.ceil,
}


def _cubic(fraction: Array, a: float) -> Array:
    """Keys' cubic convolution: weights of the neighbours at distances 1 + f, f, 1 - f and 2 - f."""

    def near(d: Array) -> Array:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Array) -> Array:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return np.concatenate([far(fraction + 1), near(fraction), near(1 - fraction), far(2 - fraction)], axis=1)


def resample(x: Array, axis: int, taps: Taps) -> Array:
    """`x` with one axis resampled; weights are rounded to the type of x."""
    if taps.weights.shape[1] == 1:
        return np.take(x, taps.indices[:, 0], axis=axis)
    shape = (-1, *(1,) * (x.ndim - 1 - axis))
    weights = taps.weights.astype(x.dtype)
    result = np.take(x, taps.indices[:, 0], axis=axis)
    np.multiply(result, weights[:, 0].reshape(shape), out=result)
    for k in range(1, weights.shape[1]):
        product = np.take(x, taps.indices[:, k], axis=axis)
        np.multiply(product, weights[:, k].reshape(shape), out=product)
        np.add(result, product, out=result)
    return result
