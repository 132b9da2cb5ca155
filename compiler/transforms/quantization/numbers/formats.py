"""Weights in number formats: scales and elements.

Scales cover the largest magnitude. MX's are `2^(floor(log2(largest)) - e)`, e the exponent of the format's largest number (OCP MX
1.0, 6.3), under which some numbers saturate. A search takes other scales where their squared error is less; it needs no data.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from xdsl.dialects.builtin import Float8E8M0FNUType, f32

from ....dialects.nn import blocks_of
from ....ir.array import Array
from ....ir.dtypes import numpy_dtype
from ....ir.number_formats import NumberFormat, largest, saturated_to
from ....runtime.affine import in_blocks, scales_of
from .least_error import fractions

_PIECE = 1 << 22
"""The number of weights that are converted at a time."""
_POWERS = np.array([1.0, 2.0, 0.5])
"""The factors that a search tries on scales that are powers of two."""
_LEAST_EXPONENT = -126
"""The exponent of the smallest normal float32 number."""


def format_scales(
    values: Array, number_format: NumberFormat, axis: int | None, search: bool = False
) -> tuple[Array, Array | None]:
    """The scales of a weight in a number format, of its type: [], [channels] or blocks along an axis; and the factor of all of
    them, float32 [], if the format has one.

    `axis` is that of output channels or, if the format has blocks, that of the input channels of a matrix; with None there is one
    scale.
    """
    kind, tensor_scale, block = numpy_dtype(number_format.scale), None, number_format.block
    if number_format.has_tensor_scale:
        most = np.float64(max(values.max(initial=0.0), -values.min(initial=0.0)))
        tensor_scale = scales_of(np.asarray(most / (number_format.reach * largest(kind))))
    rows = _rows(values, axis, block)
    scales = np.empty((len(rows), 1 if block is None else -(-rows.shape[1] // block)), kind)
    for part, grouped in _grouped(rows, block):
        scales[part] = _scales(grouped, number_format, tensor_scale, search)
    if axis is None or block is None:
        return scales.reshape(() if axis is None else -1), tensor_scale
    scales = np.ascontiguousarray(np.moveaxis(scales, -1, axis))
    assert scales.shape == blocks_of(values.shape, axis, block)
    return scales, tensor_scale


def format_elements(
    values: Array, scales: Array, tensor_scale: Array | None, number_format: NumberFormat, axis: int | None
) -> Array:
    """The elements of a weight under scales of `format_scales`, in the shape of the weight."""
    block = number_format.block
    rows, under = _rows(values, axis, block), _rows(scales, axis, block) if block else scales.reshape(-1, 1)
    elements: Array = np.empty(rows.shape, numpy_dtype(number_format.element))
    for part, grouped in _grouped(rows, block):
        numbers = _elements(grouped, under[part], number_format, tensor_scale).reshape(len(grouped), -1)
        elements[part] = numbers[:, : rows.shape[1]]
    if axis is None:
        return elements.reshape(values.shape)
    if block is not None:
        return np.ascontiguousarray(np.moveaxis(elements, -1, axis))
    others = [size for i, size in enumerate(values.shape) if i != axis]
    return np.ascontiguousarray(np.moveaxis(elements.reshape(values.shape[axis], *others), 0, axis))


def _grouped(rows: Array, block: int | None) -> Iterator[tuple[slice, Array]]:
    """Yields some rows at a time, and their numbers in groups that have a scale each, float32: [rows, groups, numbers]."""
    step = max(1, _PIECE // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        some = np.asarray(rows[part], np.float32)
        yield part, some[:, None, :] if block is None else in_blocks(some, 1, block)


def _rows(values: Array, axis: int | None, block: int | None) -> Array:
    """The numbers under the scales of one row after the other: [rows, numbers]."""
    if axis is None:
        return values.reshape(1, -1)
    if block is not None:
        return np.moveaxis(values, axis, -1)
    return np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)


def _scales(grouped: Array, number_format: NumberFormat, tensor_scale: Array | None, search: bool) -> Array:
    """The scales of numbers [rows, groups, numbers]: [rows, groups] in the format's type."""
    most = np.abs(grouped).max(-1, initial=0.0).astype(np.float64)
    is_power = isinstance(number_format.scale, Float8E8M0FNUType)
    first = _power_scales(most, number_format.reach) if is_power else most / number_format.reach
    if not search:
        return _of_type(first, number_format, tensor_scale)
    best = _of_type(first, number_format, tensor_scale)
    least = np.full(best.shape, np.inf)
    for factor in _POWERS if is_power else fractions(8):
        candidate = _of_type(first * factor, number_format, tensor_scale)
        numbers = _elements(grouped, candidate, number_format, tensor_scale)
        with np.errstate(over="ignore"):  # an error of infinity is never the least
            error = numbers.astype(np.float32) * _reals(candidate, tensor_scale)[..., None] - grouped
            total = np.square(error).sum(-1, dtype=np.float64)
        best = np.where(total < least, candidate, best)
        least = np.minimum(total, least)
    return best


def _power_scales(most: Array, reach: float) -> Array:
    """Powers of two by MX's rule, 1 for an empty block."""
    exponents = np.frexp(most)[1] - np.frexp(reach)[1]
    return np.where(most == 0, 1.0, np.ldexp(1.0, np.maximum(exponents, _LEAST_EXPONENT)))


def _of_type(scales: Array, number_format: NumberFormat, tensor_scale: Array | None) -> Array:
    """Rounds exact scales, float64, to the format's type: not to 0, so that they divide."""
    if tensor_scale is None:
        if number_format.scale == f32:
            return scales_of(scales)
        return np.maximum(scales, 2.0**_LEAST_EXPONENT).astype(numpy_dtype(number_format.scale))
    kind = numpy_dtype(number_format.scale)
    rounded = saturated_to((scales / np.float64(tensor_scale)).astype(np.float32), kind)
    return np.where(rounded.astype(np.float32) == 0, _least(kind), rounded)


def _least(kind: np.dtype[np.generic]) -> Array:
    """The least positive number of a float type of 8 bits."""
    return np.array(1, np.uint8).view(kind)


def _reals(scales: Array, tensor_scale: Array | None) -> Array:
    """The factors of elements, float32."""
    exact = scales.astype(np.float32)
    return exact if tensor_scale is None else exact * tensor_scale


def _elements(grouped: Array, scales: Array, number_format: NumberFormat, tensor_scale: Array | None) -> Array:
    return number_format.elements(grouped / _reals(scales, tensor_scale)[..., None])
