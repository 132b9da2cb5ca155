"""What modules of `tosa.py` compute: the arithmetic of the TOSA 1.0 specification in numpy, a second source beside IREE."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr, IntegerAttr, ModuleOp, UnregisteredOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, SSAValue

from amct_opt.dialects.nn.shapes import element_of, shape_of
from amct_opt.ir.dtypes import integer_range, numpy_dtype
from amct_opt.ir.functions import main_function
from amct_opt.runtime.kernels import Array
from amct_opt.runtime.windows import tap_slices


def run(module: ModuleOp, inputs: Sequence[Array]) -> list[Array]:
    """The results of a module of `tosa.converted`, in the order of the function, from integers of the types of its arguments.

    Raises OverflowError where a sum leaves int32, which the specification forbids.
    """
    block = main_function(module).body.block
    values: dict[SSAValue, Array] = dict(zip(block.args, inputs, strict=True))
    for op in block.ops:
        if isinstance(op, ReturnOp):
            return [values[v] for v in op.arguments]
        result, (kind, properties) = op.results[0], (cast(UnregisteredOp, op).op_name.data, op.properties)
        if kind in ("tosa.const", "tosa.const_shape"):
            values[result] = _constant(properties["values"])
            continue
        y = _KERNELS[kind](_Call(properties, result), *(values[v] for v in op.operands))
        values[result] = _stored(y, result)
    return []


class _Call:
    """The properties of an operation, and its result."""

    def __init__(self, properties: Mapping[str, Attribute], result: SSAValue):
        self.properties, self.result, self.shape = properties, result, shape_of(result)

    def ints(self, name: str) -> tuple[int, ...]:
        return tuple(int(v) for v in cast("DenseArrayBase[Any]", self.properties[name]).get_values())

    def number(self, name: str) -> int:
        return cast("IntegerAttr[Any]", self.properties[name]).value.data

    @property
    def range(self) -> tuple[int, int]:
        return integer_range(cast(Any, element_of(self.result)))


def _constant(values: Attribute) -> Array:
    dense = cast("DenseIntOrFPElementsAttr[Any]", values)
    return np.array(dense.get_values(), np.int64).reshape(dense.get_shape())


def _stored(y: Array, result: SSAValue) -> Array:
    dtype = numpy_dtype(element_of(result))
    stored = y.astype(dtype)
    if not np.array_equal(stored, y):
        raise OverflowError(f"%{result.name_hint}: a number leaves {dtype}")
    return stored.reshape(shape_of(result))


def apply_scale(value: Array, multiplier: Array, shift: Array) -> Array:
    """`apply_scale_32` with SINGLE_ROUND, and `apply_scale_16`: half is added, then the product is shifted; int64, ties go up."""
    return (value.astype(np.int64) * multiplier + (np.int64(1) << (shift.astype(np.int64) - 1))) >> shift.astype(
        np.int64
    )


def _rescale(call: _Call, x: Array, multiplier: Array, shift: Array, zero: Array, zero_out: Array) -> Array:
    y = apply_scale(x.astype(np.int64) - zero, multiplier, shift)
    if np.any(np.abs(y) >= 2**31):
        raise OverflowError(f"%{call.result.name_hint}: a rescaled number leaves int32")
    return np.clip(y + zero_out, *call.range)


def _taps(call: _Call, x: Array, kernel: Sequence[int], fill: int) -> Sequence[tuple[tuple[int, ...], Array]]:
    """The elements of each position of the window: int64 `[N, OH, OW, C]`."""
    top, bottom, left, right = call.ints("pad")
    x = np.pad(x.astype(np.int64), ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    dilations = call.ints("dilation") if "dilation" in call.properties else (1, 1)
    places = tap_slices(kernel, call.shape[1:3], call.ints("stride"), dilations)
    return [(tap, x[(slice(None), *slices)]) for tap, slices in places]


def _conv2d(call: _Call, x: Array, weight: Array, bias: Array, zero: Array, weight_zero: Array) -> Array:
    taps = _taps(call, x.astype(np.int64) - zero, weight.shape[1:3], 0)
    # products and sums of int8 are exact in float64
    w = (weight - weight_zero).astype(np.float64)
    return bias + sum(np.rint(part.astype(np.float64) @ w[:, i, j].T).astype(np.int64) for (i, j), part in taps)


def _depthwise(call: _Call, x: Array, weight: Array, bias: Array, zero: Array, weight_zero: Array) -> Array:
    taps, w = _taps(call, x.astype(np.int64) - zero, weight.shape[:2], 0), weight - weight_zero
    sums = sum(part[..., None] * w[i, j] for (i, j), part in taps)
    return bias + np.asarray(sums).reshape(call.shape)


def _matmul(call: _Call, a: Array, b: Array, zero: Array, zero_b: Array) -> Array:
    return (a.astype(np.int64) - zero) @ (b.astype(np.int64) - zero_b)


def _max_pool(call: _Call, x: Array) -> Array:
    return np.max([part for _, part in _taps(call, x, call.ints("kernel"), -128)], axis=0)


def _avg_pool(call: _Call, x: Array, zero: Array, zero_out: Array) -> Array:
    kernel = call.ints("kernel")
    total = sum(part for _, part in _taps(call, x.astype(np.int64) - zero, kernel, 0))
    count = np.asarray(sum(part for _, part in _taps(call, np.ones_like(x), kernel, 0)))
    # reciprocal_scale: 31 bits of 1 / count
    bits = np.array([int(n - 1).bit_length() for n in count.reshape(-1)], np.int64).reshape(count.shape)
    multiplier = ((np.int64(1) << 30) + 1 << bits) // count
    return np.clip(apply_scale(np.asarray(total), multiplier, 30 + bits) + zero_out, *call.range)


def _slice(call: _Call, x: Array, starts: Array, sizes: Array) -> Array:
    return x[tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))]


def _clamp(call: _Call, x: Array) -> Array:
    return np.clip(x, call.number("min_val"), call.number("max_val"))


def _table(_: _Call, x: Array, table: Array) -> Array:
    return table[x.astype(np.int64) + 128]


def _add(_: _Call, a: Array, b: Array) -> Array:
    return a.astype(np.int64) + b


def _mul(_: _Call, a: Array, b: Array, shift: Array) -> Array:
    return a.astype(np.int64) * b >> shift


def _maximum(_: _Call, a: Array, b: Array) -> Array:
    return np.maximum(a, b)


def _pad(_: _Call, x: Array, pads: Array, fill: Array) -> Array:
    return np.pad(x, pads.reshape(-1, 2), constant_values=int(fill[0]))


def _reshape(_: _Call, x: Array, shape: Array) -> Array:
    return x.reshape(tuple(shape))


def _transpose(call: _Call, x: Array) -> Array:
    return x.transpose(call.ints("perms"))


def _concat(call: _Call, *inputs: Array) -> Array:
    return np.concatenate(inputs, axis=call.number("axis"))


_KERNELS: Mapping[str, Callable[..., Array]] = {
    f"tosa.{name}": kernel
    for name, kernel in {
        "conv2d": _conv2d,
        "depthwise_conv2d": _depthwise,
        "matmul": _matmul,
        "rescale": _rescale,
        "max_pool2d": _max_pool,
        "avg_pool2d": _avg_pool,
        "slice": _slice,
        "clamp": _clamp,
        "table": _table,
        "add": _add,
        "mul": _mul,
        "maximum": _maximum,
        "pad": _pad,
        "reshape": _reshape,
        "transpose": _transpose,
        "concat": _concat,
    }.items()
}
