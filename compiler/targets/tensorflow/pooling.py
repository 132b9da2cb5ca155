"""Pooling over windows, and over all of space."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from math import inf, prod

import numpy as np

from ...dialects import nn
from ...dialects.nn.shapes import static
from ...ir.dtypes import dtype_named
from .layer import TensorFlowLayer, converter
from .movement import cut, pad_all
from .window import Window, ceil_ends, lifted, padded

_OPERATORS = {2: ("MaxPool", "AvgPool"), 3: ("MaxPool3D", "AvgPool3D")}
"""Operators by the number of spatial axes."""


@converter(nn.MaxPoolOp)
def max_pool(op: nn.MaxPoolOp, layer: TensorFlowLayer) -> str:
    def write(x: str, window: Window) -> str:
        padding = window.padding(explicit=window.rank == 2)
        if padding is not None and _native(window):
            return _pool(layer, _OPERATORS[window.rank][0], x, window, padding)
        *first, last = _taps(layer, padded(layer, x, window, _lowest(layer, x)), window)
        if not first:
            return layer.node("Identity", last)
        return layer.node("Maximum", reduce(lambda a, b: layer.helper("Maximum", a, b), first), last)

    return lifted(layer, Window.of(op), layer.value(op.input), write)


def _lowest(layer: TensorFlowLayer, x: str) -> float:
    dtype = dtype_named(layer.graph.elements[x])
    return int(np.iinfo(dtype).min) if dtype.kind in "iu" else -inf


def _native(window: Window) -> bool:
    """Whether there is a pooling operator: for two axes or three, without dilation."""
    return window.rank in _OPERATORS and set(window.dilations) == {1}


def _pool(layer: TensorFlowLayer, op_type: str, x: str, window: Window, padding: Mapping[str, object]) -> str:
    return layer.node(op_type, x, ksize=[1, *window.kernel, 1], strides=[1, *window.strides, 1], **padding)


def _taps(layer: TensorFlowLayer, x: str, window: Window) -> list[str]:
    """The elements at each position of the windows of an input that needs no padding."""
    rows = list(zip(window.extents, window.strides, window.dilations, strict=True))
    taps: list[str] = []
    for position in np.ndindex(*window.kernel):
        starts = [i * dilation for i, (_, _, dilation) in zip(position, rows, strict=True)]
        space = [
            slice(start, start + 1 - extent or None, stride)
            for start, (extent, stride, _) in zip(starts, rows, strict=True)
        ]
        taps.append(cut(layer, x, [slice(None), *space, slice(None)]))
    return taps


@converter(nn.AveragePoolOp)
def average_pool(op: nn.AveragePoolOp, layer: TensorFlowLayer) -> str:
    """Writes a mean; if padding does not count, the mean with zeros is divided by the share of each window that counts."""
    include = op.count_include_pad is not None

    def write(x: str, window: Window) -> str:
        padding = window.padding()
        if padding is not None and _native(window) and not (include and padding["padding"] == "SAME"):
            return _pool(layer, _OPERATORS[window.rank][1], x, window, padding)
        mean = _mean(layer, padded(layer, x, window, 0), window)
        if (include or window.pads == (0,) * 2 * window.rank) and not window.ceil:
            return mean
        return layer.helper("RealDiv", mean, _mean(layer, _counting(layer, x, window, include), window))

    return lifted(layer, Window.of(op), layer.value(op.input), write)


def _mean(layer: TensorFlowLayer, x: str, window: Window) -> str:
    """The mean of each window of an input that needs no padding."""
    if _native(window):
        return _pool(layer, _OPERATORS[window.rank][1], x, window, {"padding": "VALID"})
    total = layer.helper("AddN", *_taps(layer, x, window))
    return layer.node("RealDiv", total, layer.scalar(prod(window.kernel), x, "count"))


def _counting(layer: TensorFlowLayer, x: str, window: Window, include: bool) -> str:
    """A tensor of 1 for elements that count, 0 for others, as far as windows reach."""
    if static(window.spatial):
        ones = layer.constant(np.ones((1, *window.spatial, 1), dtype_named(layer.graph.elements[x])), "ones")
    else:
        first = slice(None, 1)
        ones = layer.helper("OnesLike", cut(layer, x, [first, *[slice(None)] * window.rank, first]))
    if not include:
        return padded(layer, ones, window, 0)
    if not static(window.spatial):
        raise layer.error(
            "counts padding, and needs its input's size for that", "--infer-shapes sets the sizes of inputs"
        )
    ones = pad_all(layer, ones, [0, *window.begins, 0], [0, *window.ends, 0], 1)
    beyond = [last - end for last, end in zip(ceil_ends(window), window.ends, strict=True)]
    return pad_all(layer, ones, [0] * (window.rank + 2), [0, *beyond, 0], 0)
