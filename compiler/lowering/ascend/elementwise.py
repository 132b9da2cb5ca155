"""Activations, arithmetic, cast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import pi, sqrt

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.ascend.base import FB, data_type_number
from ...dialects.nn import Predicate
from ...dialects.nn.shapes import element_of, shape_of
from ...ir.dtypes import is_float, numpy_dtype
from ..refusal import require
from .rules import Builder, array_of, lowers, lowers_each

SELU_ALPHA, SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875
"""The float32 constants of Selu, from ONNX."""

FLOAT = 0
"""Ascend's number of float32."""

lowers_each({op.MEANS: op for op in ascend.OPERATIONS if op.MEANS is not None})

_COMPARISONS: Mapping[Predicate, type[ascend.ComparisonOp]] = {
    op.PREDICATE: op for op in ascend.OPERATIONS if issubclass(op, ascend.ComparisonOp)
}


@lowers(nn.CompareOp)
def compare(build: Builder, op: nn.CompareOp) -> Sequence[SSAValue]:
    return [build.add(_COMPARISONS[op.predicate.data], op.lhs, op.rhs).y]


@lowers(nn.DivOp)
def div(build: Builder, op: nn.DivOp) -> Sequence[SSAValue]:
    require(is_float(element_of(op.lhs)), "float-type", "RealDiv does not truncate integers")
    return [build.add(ascend.RealDivOp, op.lhs, op.rhs).y]


@lowers(nn.LeakyReluOp)
def leaky_relu(build: Builder, op: nn.LeakyReluOp) -> Sequence[SSAValue]:
    return [build.add(ascend.LeakyReluOp, op.input, negative_slope=op.alpha).y]


@lowers(nn.EluOp)
def elu(build: Builder, op: nn.EluOp) -> Sequence[SSAValue]:
    return [build.add(ascend.EluOp, op.input, alpha=op.alpha).y]


@lowers(nn.SeluOp)
def selu(build: Builder, op: nn.SeluOp) -> Sequence[SSAValue]:
    usual = op.alpha.value.data == SELU_ALPHA and op.gamma.value.data == SELU_GAMMA
    require(usual, "selu-constants", "Selu has the constants of its definition only")
    return [build.add(ascend.SeluOp, op.input).y]


@lowers(nn.GeluOp)
def gelu(build: Builder, op: nn.GeluOp) -> Sequence[SSAValue]:
    """Gelu by the error function; the form by tanh, which Ascend IR lacks, becomes the steps of `nn`, in float32."""
    if op.tanh_approximation is None:
        return [build.add(ascend.GeluOp, op.input).y]
    element, hint = element_of(op.input), build.hint
    require(element in FB, "float-type", f"its steps take {', '.join(map(str, FB))}, not {element}")
    x = op.input if element == f32 else build.add(ascend.CastOp, op.input, dst_type=FLOAT, name=f"{hint}_x").y

    def times(value: SSAValue, number: float, name: str) -> SSAValue:
        return build.add(ascend.MulOp, value, _float32(build, number), name=f"{hint}_{name}").y

    def plus_one(value: SSAValue, name: str) -> SSAValue:
        return build.add(ascend.AddOp, value, _float32(build, 1.0), name=f"{hint}_{name}").y

    y = build.add(ascend.MulOp, x, x, name=f"{hint}_square").y
    y = plus_one(times(y, 0.044715, "share"), "factor")
    y = build.add(ascend.MulOp, y, x, name=f"{hint}_cubic").y
    y = build.add(ascend.TanhOp, times(y, sqrt(2 / pi), "inner"), name=f"{hint}_tanh").y
    y = build.add(ascend.MulOp, plus_one(y, "gate"), x, name=f"{hint}_gated").y
    y = times(y, 0.5, "half")
    return [y if element == f32 else build.add(ascend.CastOp, y, dst_type=data_type_number(element)).y]


def _float32(build: Builder, number: float) -> SSAValue:
    return build.constant(np.array(number, np.float32), f"{build.hint}_number")


@lowers(nn.ClipOp)
def clip(build: Builder, op: nn.ClipOp) -> Sequence[SSAValue]:
    """Clip(0, 6) is Relu6; otherwise bounds become constants, an absent one the least or largest value of the type."""
    if op.bounds == (0.0, 6.0):
        return [build.add(ascend.Relu6Op, op.input).y]
    dtype = numpy_dtype(element_of(op.input))
    limits = (-np.inf, np.inf) if is_float(element_of(op.input)) else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    low, high = (min(max(bound, limits[0]), limits[1]) for bound in op.bounds)
    least = build.constant(np.array(low, dtype), f"{build.hint}_min")
    largest = build.constant(np.array(high, dtype), f"{build.hint}_max")
    return [build.add(ascend.ClipByValueOp, op.input, least, largest).y]


@lowers(nn.PReluOp)
def prelu(build: Builder, op: nn.PReluOp) -> Sequence[SSAValue]:
    """One slope, or one per channel of axis 1, as a vector."""
    slope, rank = array_of(op.slope, "slope"), len(shape_of(op.input))
    padded = (1,) * (rank - slope.ndim) + slope.shape
    by_channel = all(d == 1 for axis, d in enumerate(padded) if axis != 1)
    require(by_channel, "channel-slope", "PRelu has one slope, or one per channel of axis 1")
    weight = build.constant(np.ascontiguousarray(slope.reshape(-1)), f"{build.hint}_slope")
    return [build.add(ascend.PReluOp, op.input, weight).y]


@lowers(nn.CastOp)
def cast(build: Builder, op: nn.CastOp) -> Sequence[SSAValue]:
    return [build.add(ascend.CastOp, op.input, dst_type=data_type_number(element_of(op.result))).y]
