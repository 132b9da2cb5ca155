"""The steps from reals to integers and back, of `nn` and of `ascend`. Every product, sum and rounding is one operation of
float32, in the order in which the interpreter computes them, so that the integers are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f32, f64, i32
from xdsl.ir import Attribute, SSAValue

from amct_opt.dialects import ascend, nn
from amct_opt.dialects.ascend.base import i8, i16
from amct_opt.dialects.ascend.quantization import DEFAULT_MODE
from amct_opt.dialects.nn.shapes import element_of, shape_of
from amct_opt.ir.dtypes import integer_range
from amct_opt.lowering.refusal import require

from .build import Array, Builder, Scalars, range_of, reshaped, signless
from .rules import lowers, lowers_to_many

_ROUNDING: Mapping[str, Any] = {
    "Round": math.RoundEvenOp,
    "Floor": math.FloorOp,
    "Ceil": math.CeilOp,
    "Trunc": math.TruncOp,
}


def rounded(s: Scalars, x: SSAValue) -> SSAValue:
    """The nearest integer, ties to even."""
    return s.add(math.RoundEvenOp(x))


def clipped(s: Scalars, x: SSAValue, storage: Attribute, low: float | None = None) -> SSAValue:
    """A rounded float in the range of an integer type, as that type; NaN, which has no integer, becomes the least one."""
    least, most = range_of(storage)
    least = least if low is None else max(least, low)
    y = s.add(arith.MaxnumfOp(x, s.like(least, x)))
    y = s.add(arith.MinnumfOp(y, s.like(most, y)))
    return s.convert(y, y.type, storage)


LEAST_FLOAT = float(np.finfo(np.float32).min)


def product(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
    """A finite product, rounded to float32 before anything is added to it.

    Compilers may contract a product and a sum into one operation that rounds once; IREE does so everywhere. The bound stands
    between them, and no finite product passes it.
    """
    y = s.times(a, b)
    return s.add(arith.MaxnumfOp(y, s.like(LEAST_FLOAT, y)))


def real(s: Scalars, x: SSAValue, source: Attribute) -> SSAValue:
    """A number as float32."""
    return x if x.type == f32 else s.convert(x, source, f32)


def _per_element(build: Builder, like: SSAValue, x: list[SSAValue], element: Attribute, body: Any) -> SSAValue:
    return build.elementwise(x, element, body, build.sizes(like))


# -- nn ----------------------------------------------------------------------------------------------------------------


def _parameters(
    build: Builder, op: nn.QuantizeOp | nn.DequantizeOp | nn.ShiftAccumulatorOp
) -> tuple[SSAValue, SSAValue]:
    """Scales and zero points, float32, in shapes that broadcast to the operand."""
    scales, points = op.qparams.data.broadcastable(shape_of(op.input))
    return build.constant(np.asarray(scales), "scale"), build.constant(np.asarray(points, np.float32), "zero_point")


@lowers(nn.QuantizeOp)
def quantize(build: Builder, op: nn.QuantizeOp, x: SSAValue) -> SSAValue:
    """`clip(rint(x / scale) + zero_point)`; the quotient, the integer and the sum are each rounded to float32."""
    storage = op.qparams.data.storage
    source = element_of(op.input)
    sums = f32 if storage.width.data <= 16 else f64

    def body(s: Scalars, x: SSAValue, scale: SSAValue, point: SSAValue) -> SSAValue:
        y = rounded(s, s.over(real(s, x, source), scale))
        y = s.plus(s.convert(y, f32, sums), s.convert(point, f32, sums))
        return clipped(s, y, storage)

    return _per_element(build, x, [x, *_parameters(build, op)], signless(storage), body)


@lowers(nn.DequantizeOp)
def dequantize(build: Builder, op: nn.DequantizeOp, q: SSAValue) -> SSAValue:
    """`(q - zero_point) * scale`, each rounded to float32."""
    storage, target = op.qparams.data.storage, element_of(op.result)

    def body(s: Scalars, q: SSAValue, scale: SSAValue, point: SSAValue) -> SSAValue:
        y = product(s, s.minus(real(s, q, storage), point), scale)
        return s.convert(y, f32, target)

    return _per_element(build, q, [q, *_parameters(build, op)], target, body)


@lowers(nn.ShiftAccumulatorOp)
def shift_accumulator(build: Builder, op: nn.ShiftAccumulatorOp, x: SSAValue) -> SSAValue:
    scale, _ = op.qparams.data.broadcastable(shape_of(op.input))
    powers = np.exp2(np.array(op.shift_list, np.float32))
    powers = powers.reshape(np.shape(scale)) if powers.size > 1 else powers[0]
    low, high = integer_range(i16)
    source = element_of(op.input)
    constants = [build.constant(np.asarray(a, np.float32)) for a in (scale, powers, powers * scale)]

    def body(s: Scalars, x: SSAValue, scale: SSAValue, power: SSAValue, step: SSAValue) -> SSAValue:
        y = rounded(s, s.over(real(s, x, source), scale))
        y = s.between(s.add(math.FloorOp(s.over(y, power))), low, high)
        return s.convert(product(s, y, step), f32, source)

    return _per_element(build, x, [x, *constants], source, body)


# -- ascend ------------------------------------------------------------------------------------------------------------


@lowers(ascend.AscendQuantOp)
def quant(build: Builder, op: ascend.AscendQuantOp, x: SSAValue) -> SSAValue:
    """`clip(round(x * scale + offset))`; product, sum and integer are each rounded to float32."""
    _require_float32(op)
    scale, offset, source = op.scale.value.data, op.offset.value.data, element_of(op.x)
    squared, rounding = bool(op.sqrt_mode.value.data), _ROUNDING[op.round_mode.data.capitalize()]

    def body(s: Scalars, x: SSAValue) -> SSAValue:
        factor = s.number(scale, f32)
        y = product(s, real(s, x, source), factor)
        y = product(s, y, factor) if squared else y
        y = s.add(rounding(s.plus(y, s.number(offset, f32))))
        return clipped(s, y, op.storage)

    return _per_element(build, x, [x], signless(op.storage), body)


@lowers(ascend.AscendAntiQuantOp)
def anti_quant(build: Builder, op: ascend.AscendAntiQuantOp, q: SSAValue) -> SSAValue:
    """`(x + offset) * scale`; sum and product are each rounded to float32."""
    scale, offset, target = op.scale.value.data, op.offset.value.data, element_of(op.y)
    squared = bool(op.sqrt_mode.value.data)

    def body(s: Scalars, q: SSAValue) -> SSAValue:
        factor = s.number(scale, f32)
        y = product(s, s.plus(real(s, q, i8), s.number(offset, f32)), factor)
        return s.convert(product(s, y, factor) if squared else y, f32, target)

    return _per_element(build, q, [q], target, body)


@lowers(ascend.AscendDequantOp)
def dequant(build: Builder, op: ascend.AscendDequantOp, x: SSAValue, scales: SSAValue) -> SSAValue:
    """`float32(x) * scale`, with shift-N first: `clip(floor(x / 2^N))` and `scale * 2^N`."""
    _require_float32(op)
    squared, relu, target = bool(op.sqrt_mode.value.data), bool(op.relu_flag.value.data), element_of(op.y)
    low, high = integer_range(i16)
    operands = [x, _reshaped(build, scales, op.scale_shape)]
    if op.shifts:
        shifts = np.array(op.shifts, np.int32)
        shape = op.scale_shape if shifts.size > 1 else ()
        operands = [
            x,
            build.constant(np.ldexp(_array(scales).reshape(op.scale_shape), shifts.reshape(shape)), "scale"),
            build.constant(shifts.reshape(shape), "shift"),
        ]

    def body(s: Scalars, x: SSAValue, scale: SSAValue, shift: SSAValue | None = None) -> SSAValue:
        if shift is not None:
            x = s.between(s.add(arith.ShRSIOp(x, shift)), low, high)
        y = product(s, s.convert(x, i32, f32), scale)
        y = product(s, y, scale) if squared else y
        return s.convert(s.most(y, s.like(0, y)) if relu else y, f32, target)

    return _per_element(build, x, operands, target, body)


def _require_float32(op: ascend.AscendQuantOp | ascend.AscendDequantOp) -> None:
    mode = op.fakequant_precision_mode
    require(mode == DEFAULT_MODE, "precision-mode", f"it computes in the precision of {mode.data}")


def _array(value: SSAValue) -> Array:
    array = nn.array_of(value)
    require(array is not None, "constant-scale", "its scales are computed at run time")
    assert array is not None
    return array


def _reshaped(build: Builder, value: SSAValue, shape: tuple[int, ...]) -> SSAValue:
    array = _array(value)
    return value if array.shape == shape else build.constant(array.reshape(shape), "scale")


@lowers(ascend.AscendRequantOp)
def requant(build: Builder, op: ascend.AscendRequantOp, x: SSAValue, scales: SSAValue) -> SSAValue:
    """`clip(rint(float32(x) * scale) + offset)`."""
    offset = op.offset.value.data
    low = offset if op.relu_flag.value.data else None

    def body(s: Scalars, x: SSAValue, scale: SSAValue) -> SSAValue:
        y = rounded(s, s.times(s.convert(x, i32, f32), scale))
        return clipped(s, s.plus(y, s.number(offset, f32)), i8, low)

    return _per_element(build, x, [x, _reshaped(build, scales, op.scale_shape)], i8, body)


@lowers(ascend.AscendDequantS16Op)
def dequant_s16(
    build: Builder, op: ascend.AscendDequantS16Op, x: SSAValue, scales: SSAValue, bias: SSAValue | None = None
) -> SSAValue:
    """`clip(rint(float32(x) * scale) + bias)` to int16."""
    low = 0 if op.relu_flag.value.data else None
    operands = [x, _reshaped(build, scales, op.scale_shape)]
    if bias is not None and op.x1 is not None:
        operands.append(_reshaped(build, bias, op.along_channels(op.x1)))

    def body(s: Scalars, x: SSAValue, scale: SSAValue, bias: SSAValue | None = None) -> SSAValue:
        y = rounded(s, s.times(s.convert(x, i32, f32), scale))
        return clipped(s, y if bias is None else s.plus(y, s.convert(bias, i16, f32)), i16, low)

    return _per_element(build, x, operands, i16, body)


@lowers_to_many(ascend.AscendRequantS16Op)
def requant_s16(
    build: Builder, op: ascend.AscendRequantS16Op, x: SSAValue, scales: SSAValue, other: SSAValue | None = None
) -> list[SSAValue]:
    """`clip(rint(sum * scale))` to int8, and the sum, int16."""
    least, high = integer_range(i16)
    low = 0 if op.relu_flag.value.data else least

    def add(s: Scalars, x: SSAValue, other: SSAValue | None = None) -> SSAValue:
        y = s.convert(x, i16, i32)
        y = y if other is None else s.plus(y, s.convert(other, i16, i32))
        return s.convert(s.between(y, low, high), i32, i16)

    def scale(s: Scalars, x: SSAValue, scale: SSAValue) -> SSAValue:
        return clipped(s, rounded(s, s.times(s.convert(x, i16, f32), scale)), i8)

    total = _per_element(build, x, [x] if other is None else [x, other], i16, add)
    return [_per_element(build, x, [total, _reshaped(build, scales, op.scale_shape)], i8, scale), total]


# -- weights with offsets, and activations with scales per channel -----------------------------------------------------


@lowers(ascend.AscendWeightQuantOp)
def weight_quant(build: Builder, op: ascend.AscendWeightQuantOp, x: SSAValue, offset: SSAValue) -> SSAValue:
    """`x - offset`; a difference out of range, an error of the interpreter, is undefined."""
    return _per_element(build, x, [x, offset], i8, Scalars.minus)


@lowers(ascend.AscendQuantV2Op)
def quant_by_channel(
    build: Builder, op: ascend.AscendQuantV2Op, x: SSAValue, scale: SSAValue, offset: SSAValue | None = None
) -> SSAValue:
    source, squared, rounding = (
        element_of(op.x),
        bool(op.sqrt_mode.value.data),
        _ROUNDING[op.round_mode.data.capitalize()],
    )
    after = op.parameter_shape[1:]
    parameters = [reshaped(build, v, [*build.sizes(v), *after]) for v in (scale, offset) if v is not None]

    def body(s: Scalars, x: SSAValue, *parameters: SSAValue) -> SSAValue:
        factor, *rest = (real(s, p, source) for p in parameters)
        y = product(s, real(s, x, source), factor)
        y = product(s, y, factor) if squared else y
        return clipped(s, s.add(rounding(s.plus(y, rest[0]) if rest else y)), op.storage)

    return _per_element(build, x, [x, *parameters], signless(op.storage), body)


@lowers(ascend.AscendAntiQuantV2Op)
def anti_quant_by_channel(
    build: Builder, op: ascend.AscendAntiQuantV2Op, q: SSAValue, scale: SSAValue, offset: SSAValue | None = None
) -> SSAValue:
    target, squared, source = element_of(op.y), bool(op.sqrt_mode.value.data), element_of(op.scale)

    def body(s: Scalars, q: SSAValue, scale: SSAValue, *offset: SSAValue) -> SSAValue:
        y = real_weight(s, q, scale, *offset, source=source)
        return s.convert(product(s, y, real(s, scale, source)) if squared else y, f32, target)

    return _per_element(build, q, [q, scale, *([] if offset is None else [offset])], target, body)


def real_weight(s: Scalars, q: SSAValue, scale: SSAValue, *offset: SSAValue, source: Attribute) -> SSAValue:
    """`(q + offset) * scale`, each rounded to float32; scale and offset of type `source`."""
    y = real(s, q, i8)
    y = s.plus(y, real(s, offset[0], source)) if offset else y
    return product(s, y, real(s, scale, source))
