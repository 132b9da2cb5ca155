"""Convolution and transposed convolution. Sums of float16 and bfloat16 are computed in float32."""

from __future__ import annotations

from functools import cache, partial

import numpy as np

from ...dialects import nn
from ...dialects.nn.shapes import Shape
from ..convolve import convolve
from ..layouts import in_layout, per_channel
from ..precision import wide
from ..windows import Window, tap_slices
from . import Array, Kernel, kernel


@kernel(nn.ConvOp)
def conv(op: nn.ConvOp) -> Kernel:
    window = Window.of(op)
    convolution = partial(convolve, strides=window.strides, dilations=window.dilations, groups=op.group_count)

    def run(x: Array, weight: Array, bias: Array | None = None) -> Array:
        pads = window.pads_for(x.shape[2:], weight.shape[2:])
        y = convolution(x, weight.astype(wide(x.dtype), copy=False), pads=pads)
        return _biased(y, bias).astype(x.dtype, copy=False)

    return in_layout(op, run)


@kernel(nn.ConvTransposeOp)
def conv_transpose(op: nn.ConvTransposeOp) -> Kernel:
    """Adds every input element times the kernel into the output at its place (col2im)."""
    strides, dilations, groups = op.stride_list, op.dilation_list, op.group_count
    extra = op.output_padding_list
    pads_for = cache(op.resolved_pads)

    def run(x: Array, weight: Array, bias: Array | None = None) -> Array:
        n, channels, *space = x.shape
        filters, kernel_shape = weight.shape[1] * groups, weight.shape[2:]
        if (pads := pads_for(tuple(space))) is None:
            raise ValueError("pads depend on a kernel size that is not known")
        dtype = wide(x.dtype)
        matrix = weight.astype(dtype, copy=False).reshape(groups, channels // groups, -1).swapaxes(1, 2)
        flat = x.astype(dtype, copy=False).reshape(n, groups, channels // groups, -1)
        products = np.matmul(matrix, flat).reshape(n, filters, *kernel_shape, *space)
        rows = zip(space, kernel_shape, strides, dilations, extra, strict=True)
        full = np.zeros((n, filters, *(st * (s - 1) + d * (k - 1) + 1 + e for s, k, st, d, e in rows)), dtype)
        for tap, slices in tap_slices(kernel_shape, space, strides, dilations):
            full[(slice(None), slice(None), *slices)] += products[(slice(None), slice(None), *tap)]
        return _biased(_cropped(full, pads), bias).astype(x.dtype, copy=False)

    return in_layout(op, run)


def _cropped(full: Array, pads: Shape) -> Array:
    """Cut pads off the spatial axes; add zeros where they are negative."""
    n = len(pads) // 2
    bounds = [(b, size - e) for size, b, e in zip(full.shape[2:], pads[:n], pads[n:], strict=True)]
    inner = tuple(slice(max(b, 0), max(e, 0)) for b, e in bounds)
    cut = full[(slice(None), slice(None), *inner)]
    missing = [(max(-b, 0), max(e - size, 0)) for size, (b, e) in zip(full.shape[2:], bounds, strict=True)]
    return np.pad(cut, ((0, 0), (0, 0), *missing)) if any(map(any, missing)) else cut


def _biased(y: Array, bias: Array | None) -> Array:
    """Adds the bias in place: y belongs to this kernel."""
    if bias is not None:
        np.add(y, per_channel(bias, y.ndim), out=y, casting="same_kind")
    return y
