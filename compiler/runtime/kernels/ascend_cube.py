"""Exact integer kernels of the matrix engine and of integer pooling.

Accumulators are float32 if that represents them (`integer`), otherwise int32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.ascend import AscendOp, CubeOp
from ...dialects.nn.shapes import Shape, element_of, window_size
from ...ir.dtypes import numpy_dtype
from ..integer import INT32_MAX, matmul_int8, prepare_conv, prepare_matmul
from ..layouts import in_layout
from ..windows import tap_slices
from . import Array, Kernel


def _geometry(op: ascend.ConvolutionOp) -> tuple[dict[str, Any], Shape]:
    """The properties of an integer convolution, and its pads: all begins, then all ends."""
    pads = (*(b for b, _ in op.pad_list), *(e for _, e in op.pad_list))
    geometry = {
        "input_dtype": numpy_dtype(element_of(op.x_value)),
        "zero_point": op.zero_point,
        "strides": op.stride_list,
        "dilations": op.dilation_list,
    }
    return geometry, pads


def convolution(op: ascend.GroupedOp) -> Kernel:
    """A convolution of integers, x in the format of the operation; constant weights are packed once."""
    geometry, pads = _geometry(op)
    geometry["groups"] = op.group_count
    return in_layout(op, _convolution(op, op.nn_filter, geometry, pads))


def depthwise(op: ascend.DepthwiseConv2DOp) -> Kernel:
    """A convolution with one group per channel of x."""
    geometry, pads = _geometry(op)
    geometry["groups"] = op.filter_sizes.channels
    return in_layout(op, _convolution(op, op.nn_filter, geometry, pads))


def _convolution(
    op: ascend.ConvolutionOp, arrange: Callable[[Array], Array], geometry: dict[str, Any], pads: Shape
) -> Callable[..., Array]:
    """Packs weights once if they are constant."""
    if (constants := _constant_weights(op)) is not None:
        weight, bias = constants
        prepared = prepare_conv(np.ascontiguousarray(arrange(weight)), bias, **geometry)

        def run(x: Array, *_: Array) -> Array:
            return prepared(x, pads)

        return run

    def run_once(x: Array, weight: Array, bias: Array | None = None) -> Array:
        return prepare_conv(arrange(weight), bias, **geometry)(x, pads).astype(np.int32, copy=False)

    return run_once


def has_constant_weights(op: CubeOp) -> bool:
    """Whether weight and bias of a matrix engine's operation are constants, which are packed once."""
    weight, bias = _weights(op)
    return nn.constant_of(weight) is not None and (bias is None or nn.constant_of(bias) is not None)


def _constant_weights(op: CubeOp) -> tuple[Array, Array | None] | None:
    """Weight and bias, if they are constants."""
    weight, bias = map(nn.array_of, _weights(op))
    return (weight, bias) if weight is not None and has_constant_weights(op) else None


def _weights(op: CubeOp) -> tuple[SSAValue, SSAValue | None]:
    if isinstance(op, ascend.ConvolutionOp):
        return op.filter_value, op.bias_value
    if isinstance(op, ascend.MatrixOp):
        return op.x2, op.bias
    assert isinstance(op, ascend.FullyConnectionOp)
    return op.w, op.b


def transposed_convolution(op: ascend.TransposedOp) -> Kernel:
    """A convolution, with the flipped kernel, of the input spread out by the strides.

    The gaps are filled with the zero point, which contributes 0, and so does padding.
    """
    groups, zero_point, strides = op.group_count, op.zero_point, op.stride_list
    kernel_shape, extra = op.filter_sizes.kernel, op.output_padding_list
    ones = (1,) * len(strides)
    reaches = [d * (k - 1) for d, k in zip(op.dilation_list, kernel_shape, strict=True)]
    rows = list(zip(reaches, op.pad_list, extra, strict=True))
    pads = (*(reach - b for reach, (b, _), _ in rows), *(reach - e + more for reach, (_, e), more in rows))
    geometry = {**_geometry(op)[0], "strides": ones, "groups": groups}

    order = op.nn_filter

    def arrange(weight: Array) -> Array:
        channels, per_group, *kernel = order(weight).shape
        turned = np.flip(order(weight), axis=(2, 3)).reshape(groups, channels // groups, per_group, *kernel)
        return np.ascontiguousarray(turned.swapaxes(1, 2)).reshape(groups * per_group, channels // groups, *kernel)

    convolve = _convolution(op, arrange, geometry, (0,) * len(pads))

    def spread(x: Array, *rest: Array) -> Array:
        return convolve(_spread(x, strides, pads, zero_point), *rest)

    in_format, order_of = in_layout(op, spread), op.operand_order
    return lambda *arrays: in_format(*(arrays[i] for i in order_of))


def _spread(x: Array, strides: Shape, pads: Sequence[int], fill: int) -> Array:
    """x with `stride - 1` elements of `fill` between its own, and pads around them, cut off where negative."""
    n = len(strides)
    sizes = [(s - 1) * st + 1 for s, st in zip(x.shape[2:], strides, strict=True)]
    begins, ends = pads[:n], pads[n:]
    padded = [max(b, 0) + s + max(e, 0) for b, s, e in zip(begins, sizes, ends, strict=True)]
    y = np.full((*x.shape[:2], *padded), fill, x.dtype)
    rows = zip(begins, sizes, strides, strict=True)
    y[(slice(None), slice(None), *(slice(max(b, 0), max(b, 0) + s, st) for b, s, st in rows))] = x
    inner = (slice(max(-b, 0), p + min(e, 0)) for b, p, e in zip(begins, padded, ends, strict=True))
    return y[(slice(None), slice(None), *inner)]


def matrix_product(op: ascend.MatrixOp) -> Kernel:
    """A product of integers, transposed according to the flags; constant weights are packed once."""
    transpose_x1, transpose_x2 = op.transposes

    def first(x1: Array) -> Array:
        return x1.swapaxes(-1, -2) if transpose_x1 else x1

    def second(x2: Array) -> Array:
        return x2.swapaxes(-1, -2) if transpose_x2 else x2

    if (constants := _constant_weights(op)) is not None:
        weight, bias = constants
        dtype = numpy_dtype(element_of(op.x1))
        prepared = prepare_matmul(second(weight), bias, dtype, zero_point=op.zero_point)

        def run(x1: Array, *_: Array) -> Array:
            return prepared(first(x1))

        return run
    zero_point = op.zero_point

    def run_once(x1: Array, x2: Array, bias: Array | None = None) -> Array:
        return matmul_int8(first(x1), second(x2), bias, zero_point=zero_point)

    return run_once


def inner_product(op: ascend.FullyConnectionOp) -> Kernel:
    """x with the summed axes merged into one."""
    axis, zero_point, transposed = op.first_axis, op.zero_point, op.is_transposed

    def prepare(weight: Array, bias: Array | None = None) -> Callable[[Array], Array]:
        return prepare_matmul(weight if transposed else weight.T, bias, zero_point=zero_point)

    constants = _constant_weights(op)
    prepared = None if constants is None else prepare(*constants)

    def run(x: Array, *weights: Array) -> Array:
        product = prepared or prepare(*weights)
        rows = x.reshape(prod(x.shape[:axis]), prod(x.shape[axis:]))
        return product(rows).reshape(*x.shape[:axis], -1)

    return run


def window_sum(op: ascend.AveragingOp) -> Kernel:
    """The int32 sum of `x - offset_x` over each window; padding, and elements that ceil_mode adds, contribute 0."""
    zero_point, strides, ceil = op.zero_point, op.stride_list, op.rounds_up

    def run(x: Array) -> Array:
        space = x.shape[2:]
        kernel_shape, pads = op.kernel(space), op.resolved_pads(space)
        assert pads is not None
        if 255 * prod(kernel_shape) > INT32_MAX:
            raise ValueError(f"the sum of a window of {list(kernel_shape)} may not fit into int32")
        rows = list(zip(space, kernel_shape, strides, pads, strict=True))
        out = [window_size(s, k, st, 1, b, e, ceil) for s, k, st, (b, e) in rows]
        ends = [max((o - 1) * st + k - s - b, 0) for o, (s, k, st, (b, _)) in zip(out, rows, strict=True)]
        borders = [(b, e) for (b, _), e in zip(pads, ends, strict=True)]
        values = np.pad(x, ((0, 0), (0, 0), *borders), constant_values=zero_point)
        sums = np.full((*x.shape[:2], *out), -zero_point * prod(kernel_shape), np.int32)
        for _, slices in tap_slices(kernel_shape, out, strides, (1,) * len(out)):
            np.add(sums, values[(slice(None), slice(None), *slices)], out=sums)
        return sums

    return in_layout(op, run)


MATRIX_KERNELS: dict[type[AscendOp], Callable[[Any], Kernel]] = {
    ascend.Conv2DOp: convolution,
    ascend.Conv3DOp: convolution,
    ascend.DepthwiseConv2DOp: depthwise,
    ascend.Conv2DTransposeOp: transposed_convolution,
    ascend.MatMulV2Op: matrix_product,
    ascend.BatchMatMulV2Op: matrix_product,
    ascend.Conv2DBackpropInputOp: transposed_convolution,
    ascend.DeconvolutionOp: transposed_convolution,
    ascend.FullyConnectionOp: inner_product,
}
"""Operations that return accumulators, and accept integer data and constant weights in any number type."""

INTEGER_KERNELS: dict[type[AscendOp], Callable[[Any], Kernel]] = {
    **MATRIX_KERNELS,
    ascend.AvgPoolV2Op: window_sum,
    ascend.AvgPoolOp: window_sum,
    ascend.PoolingOp: window_sum,
}
"""Operations that compute in integers if their data is int8 or int16."""
