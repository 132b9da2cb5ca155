"""Activations and arithmetic."""

from __future__ import annotations

from math import inf
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from ...dialects import nn
from ...dialects.nn.shapes import element_of, known, shape_of, static
from ..graph import source
from .layer import CaffeLayer, Written, constant_array, converter
from .net import Array


@converter(nn.PReluOp)
def prelu(op: nn.PReluOp, layer: CaffeLayer) -> Written:
    """Writes PReLU: one slope for all, or one for each channel of axis 1."""
    slope, rank = layer.array(op.slope, "slope"), len(shape_of(op.input))
    full = slope.reshape((1,) * (rank - slope.ndim) + slope.shape)
    if slope.size == 1:
        return layer.layer("PReLU", op.input, blobs=[slope.reshape(())], prelu_param={"channel_shared": True})
    if any(size != 1 for axis, size in enumerate(full.shape) if axis != 1):
        layer.fail(f"has slopes of shape {list(slope.shape)}, PReLU has one for each channel of axis 1")
    return layer.layer("PReLU", op.input, blobs=[slope.reshape(-1)])


_LARGEST = float(np.finfo(np.float32).max)


@converter(nn.ClipOp)
def clip(op: nn.ClipOp, layer: CaffeLayer) -> Written:
    """A ReLU if possible, otherwise Clip, which OpenCV lacks and which needs both bounds."""
    low, high = op.bounds
    if low == 0.0 and high in (6.0, inf):
        return layer.layer("ReLU6" if high == 6.0 else "ReLU", op.input)
    return layer.layer("Clip", op.input, clip_param=_bounds(low, high))


def _bounds(low: float, high: float) -> dict[str, object]:
    return {"min": max(low, -_LARGEST), "max": min(high, _LARGEST)}


@converter(nn.PowOp)
def pow_(op: nn.PowOp, layer: CaffeLayer) -> Written:
    exponent = layer.array(op.rhs, "exponent")
    if exponent.size != 1 or exponent.ndim > len(shape_of(op.lhs)):
        layer.fail(f"has exponents of shape {list(exponent.shape)}, Power has one")
    return layer.layer("Power", op.lhs, power_param={"power": float(exponent.reshape(()))})


# Choices: 1 where a number is above another, 0 elsewhere


@converter(nn.CompareOp)
def compare(op: nn.CompareOp, layer: CaffeLayer) -> Written:
    number = constant_array(source(op.rhs))
    if op.predicate.data is not nn.Predicate.GT or number is None or number.size != 1:
        layer.fail(f"compares by '{op.predicate.data.value}', Caffe's Threshold by > with one number")
    if op.result in layer.net.outputs:
        layer.fail(f"is of {element_of(op.result)}, Caffe computes in float32")
    return layer.layer("Threshold", op.lhs, threshold_param={"threshold": float(number.reshape(()))})


@converter(nn.CastOp)
def cast_(op: nn.CastOp, layer: CaffeLayer) -> Written:
    """Truth values are numbers already."""
    if element_of(op.input) != i1:
        layer.fail(f"converts {element_of(op.input)}, Caffe computes in float32")
    return layer.net.blob(op.input)


@converter(nn.WhereOp)
def where(op: nn.WhereOp, layer: CaffeLayer) -> Written:
    """A product with the truth value, where the other choice is 0."""
    other = constant_array(source(op.on_false))
    equal = len({shape_of(v) for v in (op.condition, op.on_true, op.result)}) == 1
    if other is None or other.any() or not equal:
        layer.fail("chooses between two values, Caffe multiplies one by 0 or 1")
    return _eltwise(layer, "PROD", op.on_true, layer.net.blob(op.condition) or layer.fail("reads a constant"))


# Sums and products with constants


@converter(nn.MulOp)
def mul(op: nn.MulOp, layer: CaffeLayer) -> Written:
    if _addition_behind(op) is not None:
        return None
    if (parts := _with_constant(op)) is not None:
        return affine(layer, parts[0], parts[1], None)
    return _two(op, layer, "PROD", "Scale")


@converter(nn.AddOp)
def add(op: nn.AddOp, layer: CaffeLayer) -> Written:
    """Writes Add: with a constant a Scale, or a Power if it is one number; OpenCV lacks Bias."""
    if (parts := _with_constant(op)) is None:
        return _two(op, layer, "SUM", "Bias")
    product = source(parts[0]).owner
    if isinstance(product, nn.MulOp) and _addition_behind(product) is op:
        inner = _with_constant(product)
        assert inner is not None
        return affine(layer, inner[0], inner[1], parts[1])
    return affine(layer, parts[0], None, parts[1])


@converter(nn.BiasAddOp)
def bias_add(op: nn.BiasAddOp, layer: CaffeLayer) -> Written:
    rank = len(shape_of(op.input))
    bias = layer.array(op.bias, "bias")
    return affine(layer, op.input, None, bias.reshape(-1, *(1,) * (rank - 1 - op.channel_axis(rank))))


@converter(nn.SubOp)
def sub(op: nn.SubOp, layer: CaffeLayer) -> Written:
    """Adding the negative changes no bit."""
    if (subtrahend := constant_array(source(op.rhs))) is not None:
        return affine(layer, op.lhs, None, -subtrahend)
    if (minuend := constant_array(source(op.lhs))) is not None:
        return affine(layer, op.rhs, np.array(-1, np.float32), minuend)
    if shape_of(op.lhs) != shape_of(op.rhs):
        layer.fail(_differ(op))
    return layer.layer("Eltwise", op.lhs, op.rhs, eltwise_param={"operation": "SUM", "coeff": [1.0, -1.0]})


@converter(nn.DivOp)
def div(op: nn.DivOp, layer: CaffeLayer) -> Written:
    """A product with the reciprocal, rounded once more."""
    if (divisor := constant_array(source(op.rhs))) is not None:
        return affine(layer, op.lhs, (1.0 / divisor.astype(np.float64)).astype(np.float32), None)
    if shape_of(op.lhs) != shape_of(op.rhs):
        layer.fail(_differ(op))
    return _eltwise(layer, "PROD", op.lhs, layer.helper("Power", op.rhs, power_param={"power": -1.0}))


@converter(nn.MaxOp)
def maximum(op: nn.MaxOp, layer: CaffeLayer) -> Written:
    return _two(op, layer, "MAX", "")


@converter(nn.MinOp)
def minimum(op: nn.MinOp, layer: CaffeLayer) -> Written:
    """The minimum, as the negative of the maximum of the negatives."""
    if shape_of(op.lhs) != shape_of(op.rhs):
        layer.fail(_differ(op))
    negatives = [layer.helper("Power", v, power_param={"scale": -1.0}) for v in (op.lhs, op.rhs)]
    larger = layer.helper("Eltwise", *negatives, eltwise_param={"operation": "MAX"})
    return layer.layer("Power", larger, power_param={"scale": -1.0})


def _with_constant(op: nn.BinaryOp) -> tuple[SSAValue, Array] | None:
    """The computed operand, and the numbers of the other one."""
    for x, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if (array := constant_array(source(other))) is not None:
            return x, array
    return None


def _addition_behind(op: nn.MulOp) -> nn.AddOp | None:
    """The sum with a constant that is the only use of a product with a constant: both become one layer."""
    uses = list(op.result.uses)
    if len(uses) != 1 or not isinstance(behind := uses[0].operation, nn.AddOp) or _with_constant(op) is None:
        return None
    parts = _with_constant(behind)
    return behind if parts is not None and parts[0] is op.result else None


def affine(layer: CaffeLayer, x: SSAValue, factor: Array | None, addend: Array | None) -> str:
    """`x * factor + addend`: a Power for single numbers, otherwise a Scale along the axes on which they vary."""
    shape = shape_of(x)
    arrays = [a for a in (factor, addend) if a is not None]
    if any(a.ndim > len(shape) for a in arrays):
        layer.fail("broadcasts its input to more axes, which Caffe does not")
    if all(a.size == 1 for a in arrays):
        numbers = {"scale": factor, "shift": addend}
        return layer.layer(
            "Power", x, power_param={n: float(a.reshape(())) for n, a in numbers.items() if a is not None}
        )
    full = [a.reshape((1,) * (len(shape) - a.ndim) + a.shape) for a in arrays]
    axes = [i for i in range(len(shape)) if any(a.shape[i] != 1 for a in full)]
    first, last = axes[0], axes[-1] + 1
    span = shape[first:last]
    if not static(span) or any(a.shape[i] not in (1, shape[i]) for a in full for i in axes):
        layer.fail(f"has constants of shape {[list(a.shape) for a in arrays]} for an input of shape {list(shape)}")

    def blob(array: Array | None, default: float) -> Array:
        if array is None:
            return np.full(span, default, np.float32)
        padded = array.reshape((1,) * (len(shape) - array.ndim) + array.shape)
        return np.broadcast_to(padded.reshape(padded.shape[first:last]), span)

    biased = addend is not None
    blobs = [blob(factor, 1.0), *([blob(addend, 0.0)] if biased else [])]
    parameters: dict[str, object] = {
        "axis": first,
        "num_axes": last - first,
        "bias_term": biased,
    }
    return layer.layer("Scale", x, blobs=blobs, scale_param=parameters)


# Sums and products of two blobs


def _two(op: nn.BinaryOp, layer: CaffeLayer, operation: str, broadcasting: str) -> str:
    """Writes Eltwise for two operands of one shape; if one broadcasts, a layer that supports it, if there is one."""
    if shape_of(op.lhs) == shape_of(op.rhs):
        return _eltwise(layer, operation, op.lhs, op.rhs)
    if not broadcasting:
        layer.fail(_differ(op))
    result = shape_of(op.result)
    large, small = (op.lhs, op.rhs) if shape_of(op.lhs) == result else (op.rhs, op.lhs)
    return _broadcast(op, layer, broadcasting, large, small)


def _eltwise(layer: CaffeLayer, operation: str, a: SSAValue, b: SSAValue | str) -> str:
    return layer.layer("Eltwise", a, b, eltwise_param={"operation": operation})


def _differ(op: nn.BinaryOp) -> str:
    return (
        f"has operands of shapes {list(shape_of(op.lhs))} and {list(shape_of(op.rhs))}, Caffe's layer takes one shape"
    )


def _broadcast(op: nn.BinaryOp, layer: CaffeLayer, kind: str, large: SSAValue, small: SSAValue) -> str:
    """Writes Scale and Bias with a second bottom that has the sizes of axes `axis` to `axis + rank` of the first."""
    shape, other = shape_of(large), shape_of(small)
    padded = (1,) * (len(shape) - len(other)) + other
    axes = [i for i, d in enumerate(padded) if d != 1]
    if shape != shape_of(op.result) or not axes or any(padded[i] != shape[i] for i in range(axes[0], axes[-1] + 1)):
        layer.fail(_differ(op))
    first = 0 if other == padded and padded[: axes[0]] == shape[: axes[0]] else axes[0]
    sizes = padded[first : axes[-1] + 1]
    if other != sizes:
        dims = [0, *(-1 if not known(d) else d for d in sizes[1:])] if first == 0 else list(sizes)
        if dims.count(-1) > 1 or not all(known(d) for d in dims):
            layer.fail("broadcasts along axes of unknown sizes")
        small_blob = layer.helper("Reshape", small, reshape_param={"shape": {"dim": dims}})
    else:
        small_blob = layer.net.blob(small) or layer.fail("reads a constant")
    parameters: dict[str, object] = {"axis": first}
    param = {"scale_param": parameters} if kind == "Scale" else {"bias_param": parameters}
    return layer.layer(kind, large, small_blob, **cast("dict[str, Any]", param))
