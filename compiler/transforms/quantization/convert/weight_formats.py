"""Weights in number formats: scales, elements, and the operations in the module that give the reals back.

Scales cover the largest magnitude. MX's are `2^(floor(log2(largest)) - e)`, e the exponent of the format's largest number (OCP MX
1.0, 6.3), under which some numbers saturate. A search takes other scales where their squared error is less; it needs no data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import Float8E8M0FNUType, UnknownLoc, f32
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ....dialects.nn import ConstantOp, DequantizeFloatOp, NNOp, WeightPlan, array_of, blocks_of, constant_of
from ....ir.array import Array
from ....ir.dtypes import numpy_dtype
from ....ir.number_formats import NUMBER_FORMATS, NumberFormat, largest, saturated_to
from ....runtime.affine import in_blocks, scales_of
from .weight_search import FRACTIONS

_PIECE = 1 << 22
"""The number of weights that are converted at a time."""
_POWERS = np.array([1.0, 2.0, 0.5])
"""The factors that a search tries on scales that are powers of two."""
_LEAST_EXPONENT = -126
"""The exponent of the smallest normal float32 number."""


class Stored(NamedTuple):
    """A weight in a number format."""

    elements: Array
    """In the shape of the weight."""
    scales: Array
    """Shape [], [channels], or blocks along an axis, in the format's type."""
    tensor_scale: Array | None
    """float32 []: a factor of all scales."""


def stored(values: Array, number_format: NumberFormat, axis: int | None, search: bool = False) -> Stored:
    """A weight in a number format. `axis` is that of output channels or, if the format has blocks, that of the input channels of
    a matrix; with None there is one scale.
    """
    kind, tensor_scale = numpy_dtype(number_format.scale), None
    if number_format.has_tensor_scale:
        most = np.float64(max(values.max(initial=0.0), -values.min(initial=0.0)))
        tensor_scale = scales_of(np.asarray(most / (number_format.reach * largest(kind))))
    rows = _rows(values, axis, number_format.block)
    elements = np.empty(rows.shape, numpy_dtype(number_format.element))
    groups = 1 if number_format.block is None else -(-rows.shape[1] // number_format.block)
    scales = np.empty((len(rows), groups), kind)
    step = max(1, _PIECE // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        some = np.asarray(rows[part], np.float32)
        grouped = some[:, None, :] if number_format.block is None else in_blocks(some, 1, number_format.block)
        found = _scales(grouped, number_format, tensor_scale, search)
        scales[part] = found
        numbers = _elements(grouped, found, number_format, tensor_scale).reshape(len(some), -1)
        elements[part] = numbers[:, : rows.shape[1]]
    return Stored(*_as_weight(elements, scales, values.shape, axis, number_format.block), tensor_scale)


def _rows(values: Array, axis: int | None, block: int | None) -> Array:
    """The numbers under the scales of one row after the other: [rows, numbers]."""
    if axis is None:
        return values.reshape(1, -1)
    if block is not None:
        return np.moveaxis(values, axis, -1)
    return np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)


def _as_weight(
    elements: Array, scales: Array, shape: Sequence[int], axis: int | None, block: int | None
) -> tuple[Array, Array]:
    """Elements in the shape of the weight, and scales in that of their axis or blocks, from rows."""
    if axis is None:
        return elements.reshape(shape), scales.reshape(())
    if block is not None:
        moved = (np.ascontiguousarray(np.moveaxis(each, -1, axis)) for each in (elements, scales))
        elements, scales = moved
        assert scales.shape == blocks_of(shape, axis, block)
        return elements, scales
    others = [size for i, size in enumerate(shape) if i != axis]
    back = np.moveaxis(elements.reshape(shape[axis], *others), 0, axis)
    return np.ascontiguousarray(back), scales.reshape(-1)


def _scales(grouped: Array, number_format: NumberFormat, tensor_scale: Array | None, search: bool) -> Array:
    """The scales of numbers [rows, groups, numbers]: [rows, groups] in the format's type."""
    most = np.abs(grouped).max(-1, initial=0.0).astype(np.float64)
    is_power = isinstance(number_format.scale, Float8E8M0FNUType)
    first = _power_scales(most, number_format.reach) if is_power else most / number_format.reach
    if not search:
        return _of_type(first, number_format, tensor_scale)
    best = _of_type(first, number_format, tensor_scale)
    least = np.full(best.shape, np.inf)
    for factor in _POWERS if is_power else FRACTIONS:
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
    """Exact scales, float64, in the format's type: not 0, so that they divide."""
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


def in_format(value: SSAValue, plan: WeightPlan, layer: NNOp) -> SSAValue:
    """A constant weight in the number format of a plan, as the reals that it stands for, placed right after the constant."""
    constant, array = constant_of(value), array_of(value)
    assert constant is not None
    assert array is not None
    assert plan.number_format is not None
    number_format = NUMBER_FORMATS[plan.number_format]
    weight = stored(array, number_format, plan.axis, plan.search)
    key = constant.key.removesuffix(".folded")
    location = layer.location if isinstance(constant.location, UnknownLoc) else constant.location
    elements = ConstantOp.of(weight.elements, f"{key}.{number_format.name}", location)
    scales = ConstantOp.of(weight.scales, f"{key}.scale", location)
    made: list[ConstantOp | DequantizeFloatOp] = [elements, scales]
    scale: SSAValue = scales.result
    if weight.tensor_scale is not None:
        factor = ConstantOp.of(weight.tensor_scale, f"{key}.tensor_scale", location)
        again = DequantizeFloatOp.make(scale, factor.result, location=location, name=f"{key}_scale")
        made += [factor, again]
        scale = again.result
    back = DequantizeFloatOp.make(
        elements.result,
        scale,
        axis=plan.axis,
        block=plan.block,
        result_types=[value.type],
        location=location,
        name=value.name_hint,
    )
    Rewriter.insert_op([*made, back], InsertPoint.after(constant))
    return back.result
