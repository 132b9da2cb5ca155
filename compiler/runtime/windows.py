"""Windows that slide over the spatial axes of arrays `[N, C, *spatial]`: their geometry, padding, strided views."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..dialects.nn.attributes import AutoPad
from ..dialects.nn.shapes import Shape, same_pads, window_size
from ..dialects.nn.window import WindowOp
from .kernels import Array
from .scratch import scratch


class Window(NamedTuple):
    """The movement of a window. `pads` lists all begins, then all ends; `same` replaces them once sizes are known."""

    strides: Shape
    dilations: Shape
    pads: Shape
    same: AutoPad | None = None

    @staticmethod
    def of(op: WindowOp) -> Window:
        return Window(op.stride_list, op.dilation_list, op.pad_list, op.auto_pad and op.auto_pad.data)

    def pads_for(self, spatial: Sequence[int], kernel: Sequence[int]) -> Shape:
        """The pads for an input of these spatial sizes."""
        if self.same is None:
            return self.pads
        upper = self.same is AutoPad.SAME_UPPER
        pairs = [same_pads(*row, upper) for row in zip(spatial, kernel, self.strides, self.dilations, strict=True)]
        return (*(b for b, _ in pairs), *(e for _, e in pairs))

    def output_for(self, spatial: Sequence[int], kernel: Sequence[int], ceil: bool = False) -> Shape:
        """The number of windows along each axis. Raises VerifyException if none fits."""
        n, pads = len(spatial), self.pads_for(spatial, kernel)
        rows = zip(spatial, kernel, self.strides, self.dilations, pads[:n], pads[n:], strict=True)
        return tuple(window_size(s, k, stride, d, begin, end, ceil) for s, k, stride, d, begin, end in rows)


def padded(x: Array, pads: Sequence[int], fill: float, dtype: np.dtype[Any]) -> Array:
    """`x` as `dtype` with `fill` around its spatial axes: `x` itself if nothing changes, otherwise scratch memory."""
    n = len(pads) // 2
    if not any(pads):
        if x.dtype == dtype:
            return x
        out = scratch("padded", x.shape, dtype)
        np.copyto(out, x, casting="unsafe")
        return out
    shape = (*x.shape[:2], *(s + b + e for s, b, e in zip(x.shape[2:], pads[:n], pads[n:], strict=True)))
    out = scratch("padded", shape, dtype)
    inner = [slice(None)] * len(shape)
    for axis in range(n):
        begin, end = pads[axis], shape[axis + 2] - pads[axis + n]
        for border in (slice(0, begin), slice(end, None)):
            out[(*inner[: axis + 2], border)] = fill
        inner[axis + 2] = slice(begin, end)
    np.copyto(out[tuple(inner)], x, casting="unsafe")
    return out


def window_view(x: Array, kernel: Shape, out: Shape, strides: Shape, dilations: Shape) -> Array:
    """All windows of a padded `[N, C, *spatial]` array as a read-only view `[N, C, *kernel, *out]`."""
    steps = x.strides[2:]
    inner = [s * d for s, d in zip(steps, dilations, strict=True)]
    outer = [s * stride for s, stride in zip(steps, strides, strict=True)]
    return as_strided(x, (*x.shape[:2], *kernel, *out), (*x.strides[:2], *inner, *outer), writeable=False)


def tap_slices(
    kernel: Sequence[int], out: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Yields each position in the window, and its slices of the padded axes."""
    for tap in product(*map(range, kernel)):
        rows = zip(tap, out, strides, dilations, strict=True)
        yield tap, tuple(slice(t * d, t * d + stride * (o - 1) + 1, stride) for t, o, stride, d in rows)


def combine_windows(x: Array, combine: np.ufunc, kernel: Shape, out: Shape, strides: Shape, dilations: Shape) -> Array:
    """Reduce every window of a padded `[N, C, *spatial]` array with an associative ufunc, one axis after the other."""
    # the last axis first: it is contiguous, and leaves the least work for the others
    for axis in reversed(range(len(kernel))):
        lead = (slice(None),) * (axis + 2)
        taps = tap_slices((kernel[axis],), (out[axis],), (strides[axis],), (dilations[axis],))
        views = [x[(*lead, *slices)] for _, slices in taps]
        x = combine(views[0], views[1]) if len(views) > 1 else views[0].copy()
        for view in views[2:]:
            combine(x, view, out=x)
    return x


def window_counts(low: int, high: int, kernel: int, out: int, stride: int, dilation: int) -> Array:
    """The number of positions in `[low, high)` for each window along one axis; the first window starts at 0."""
    positions = np.arange(out)[:, None] * stride + np.arange(kernel) * dilation
    return ((positions >= low) & (positions < high)).sum(axis=1)
