"""Conversion of reals to integers and back, as ONNX QuantizeLinear and DequantizeLinear define it."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any
from weakref import ref

import numpy as np
from xdsl.dialects.builtin import IntegerType, i16
from xdsl.ir import SSAValue

from ...dialects import nn
from ...dialects.nn.shapes import shape_of
from ...ir.dtypes import integer_range, numpy_dtype
from ...ir.number_formats import saturated_to
from ..multiply import KEPT_WEIGHT
from . import Array, Kernel, kernel


@kernel(nn.ObserveOp)
def observe(op: nn.ObserveOp) -> Callable[[Array], Array]:
    return lambda x: x


@kernel(nn.QuantizeOp)
def quantize(op: nn.QuantizeOp) -> Kernel:
    return quantizer(op.qparams.data.storage, *_broadcastable(op))


def quantizer(type_: IntegerType, scale: Array, zero_point: Array) -> Callable[[Array], Array]:
    """Makes integers of floats; `scale` (float32) and `zero_point` (int32) broadcast to them."""
    low, high = integer_range(type_)
    storage = numpy_dtype(type_)
    # float32 represents every integer of up to 16 bits and its neighbours, but not the ends of int32
    sums = np.dtype(np.float32 if type_.width.data <= 16 else np.float64)

    def run(x: Array) -> Array:
        y = np.asarray(np.divide(x.astype(np.float32, copy=False), scale))
        y = np.rint(y, out=y).astype(sums, copy=False)
        np.add(y, zero_point, out=y, casting="same_kind")
        return saturated(y, low, high).astype(storage)

    return run


def saturated(y: Array, low: Any, high: Any) -> Array:
    """Bounds floats before they become integers, in place. NaN, which has no integer, becomes `low`, as in onnxruntime."""
    np.fmax(y, low, out=y)
    return np.minimum(y, high, out=y)


@kernel(nn.DequantizeOp)
def dequantize(op: nn.DequantizeOp) -> Kernel:
    run = dequantizer(numpy_dtype(op.result.type.element_type), *_broadcastable(op))
    return run if nn.constant_of(op.input) is None else _once(run)


def dequantizer(dtype: np.dtype[Any], scale: Array, zero_point: Array) -> Callable[[Array], Array]:
    """Makes floats of integers; `scale` (float32) and `zero_point` (int32) broadcast to them."""
    shifted = bool(np.any(zero_point))

    def run(q: Array) -> Array:
        y = np.asarray(q).astype(np.float32)
        if shifted:
            np.subtract(y, zero_point, out=y)
        return np.multiply(y, scale, out=y).astype(dtype, copy=False)

    return run


@kernel(nn.QuantizeFloatOp)
def quantize_float(op: nn.QuantizeFloatOp) -> Callable[[Array, Array], Array]:
    dtype = numpy_dtype(op.result.type.element_type)
    return lambda x, scale: saturated_to(np.divide(x.astype(np.float32, copy=False), scale), dtype)


@kernel(nn.DequantizeFloatOp)
def dequantize_float(op: nn.DequantizeFloatOp) -> Kernel:
    shape, dtype = shape_of(op.input), numpy_dtype(op.result.type.element_type)
    axis, block = (None if each is None else each.value.data for each in (op.axis, op.block))

    def run(x: Array, scale: Array) -> Array:
        scales = nn.spread(np.asarray(scale, np.float32).reshape(-1 if np.ndim(scale) else ()), shape, axis, block)
        return np.multiply(x.astype(np.float32), scales).astype(dtype, copy=False)

    return _once(run) if nn.constant_of(op.input) is not None and _is_stored(op.scale) else run


def _is_stored(scale: SSAValue) -> bool:
    """Whether a scale is a constant, or a constant with a scale of its own."""
    made = scale.owner
    stored = made.operands if isinstance(made, nn.DequantizeFloatOp) else [scale]
    return all(nn.constant_of(each) is not None for each in stored)


@kernel(nn.ShiftAccumulatorOp)
def shift_accumulator(op: nn.ShiftAccumulatorOp) -> Kernel:
    scale, _ = _broadcastable(op)
    powers = np.exp2(np.array(op.shift_list, np.float32))
    powers = powers.reshape(np.shape(scale)) if powers.size > 1 else powers[0]
    low, high = integer_range(i16)
    step = powers * scale
    dtype = numpy_dtype(op.result.type.element_type)

    def run(x: Array) -> Array:
        y = np.asarray(np.divide(x.astype(np.float32, copy=False), scale))
        y = np.floor(np.divide(np.rint(y, out=y), powers, out=y), out=y)
        return np.multiply(np.clip(y, low, high, out=y), step, out=y).astype(dtype, copy=False)

    return run


def _once(run: Callable[..., Array]) -> Kernel:
    """Dequantizes weights in the first run and keeps them; large ones as long as a thread reads them."""
    kept: list[Array] = []
    read: Callable[[], Array | None] = _nothing
    one = Lock()  # threads run the same layers at the same time, and would each make the weights

    def remembered(*operands: Array) -> Array:
        nonlocal read
        with one:
            if (result := read()) is None:
                result = run(*operands)
                result.setflags(write=False)
                read = ref(result)
                if result.nbytes < KEPT_WEIGHT:
                    kept.append(result)
            return result

    return remembered


def _nothing() -> None:
    return None


def _broadcastable(op: nn.QuantizeOp | nn.DequantizeOp | nn.ShiftAccumulatorOp) -> tuple[Array, Array]:
    """Scales and zero points, float32, in shapes that broadcast to the operand."""
    scales, points = op.qparams.data.broadcastable(shape_of(op.input))
    return scales, points.astype(np.float32)
