"""Activations, arithmetic, cast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from xdsl.ir import Operation

from ...dialects import ascend, nn
from ...dialects.ascend.base import data_type_number
from ...dialects.nn import Predicate
from ...dialects.nn.shapes import element_of, shape_of
from ...ir.dtypes import is_float, numpy_dtype
from ...rewriting import Condition, condition, requires
from .constants import array_of, constant_numbers
from .rules import Builder, Lowering, Values, lowers, lowers_each

SELU_ALPHA, SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875
"""The float32 constants of Selu, from ONNX."""

_COMPARISONS: Mapping[Predicate, type[ascend.ComparisonOp]] = {
    op.PREDICATE: op for op in ascend.OPERATIONS if issubclass(op, ascend.ComparisonOp)
}


@lowers(nn.CompareOp)
def compare(build: Builder, op: nn.CompareOp) -> Values:
    return [build.add(_COMPARISONS[op.predicate.data], op.lhs, op.rhs).y]


lowers_each(
    {
        nn.LeakyReluOp: (ascend.LeakyReluOp, lambda op: {"negative_slope": op.alpha}),
        nn.EluOp: (ascend.EluOp, lambda op: {"alpha": op.alpha}),
        nn.CastOp: (ascend.CastOp, lambda op: {"dst_type": data_type_number(element_of(op.result))}),
    }
)


class Div(Lowering[nn.DivOp]):
    """RealDiv"""

    float_type: Condition[Any] = requires(
        lambda op: is_float(element_of(op.lhs)), "the operands are floats", "RealDiv does not truncate integers"
    )

    def rewrite(self, build: Builder, op: nn.DivOp) -> Values:
        return [build.add(ascend.RealDivOp, op.lhs, op.rhs).y]


class Selu(Lowering[nn.SeluOp]):
    """Selu"""

    selu_constants: Condition[Any] = requires(
        lambda op: op.alpha.value.data == SELU_ALPHA and op.gamma.value.data == SELU_GAMMA,
        "alpha and gamma are those of the definition",
        "Selu has the constants of its definition only",
    )

    def rewrite(self, build: Builder, op: nn.SeluOp) -> Values:
        return [build.add(ascend.SeluOp, op.input).y]


class Gelu(Lowering[nn.GeluOp]):
    """Gelu by the error function; Ascend IR lacks the form by tanh"""

    def match(self, op: Operation) -> nn.GeluOp | None:
        return op if isinstance(op, nn.GeluOp) and op.tanh_approximation is None else None

    def rewrite(self, build: Builder, op: nn.GeluOp) -> Values:
        return [build.add(ascend.GeluOp, op.input).y]


@lowers(nn.ClipOp)
def clip(build: Builder, op: nn.ClipOp) -> Values:
    """Clip(0, 6) is Relu6; otherwise bounds become constants, an absent one the least or largest value of the type."""
    if op.bounds == (0.0, 6.0):
        return [build.add(ascend.Relu6Op, op.input).y]
    dtype = numpy_dtype(element_of(op.input))
    limits = (-np.inf, np.inf) if is_float(element_of(op.input)) else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    low, high = (min(max(bound, limits[0]), limits[1]) for bound in op.bounds)
    least = build.constant(np.array(low, dtype), f"{build.hint}_min")
    largest = build.constant(np.array(high, dtype), f"{build.hint}_max")
    return [build.add(ascend.ClipByValueOp, op.input, least, largest).y]


class PRelu(Lowering[nn.PReluOp]):
    """PRelu, with one slope, or one per channel of axis 1, as a vector"""

    name = "prelu"

    constant_slope: Condition[Any] = constant_numbers("slope")

    @condition
    def channel_slope(self, op: nn.PReluOp) -> str | None:
        """there is one slope, or one per channel of axis 1"""
        shape = shape_of(op.slope)
        padded = (1,) * (len(shape_of(op.input)) - len(shape)) + shape
        by_channel = all(d == 1 for axis, d in enumerate(padded) if axis != 1)
        return None if by_channel else "PRelu has one slope, or one per channel of axis 1"

    def rewrite(self, build: Builder, op: nn.PReluOp) -> Values:
        slope = np.ascontiguousarray(array_of(op.slope).reshape(-1))
        return [build.add(ascend.PReluOp, op.input, build.constant(slope, f"{build.hint}_slope")).y]


PATTERNS = (Div, Selu, Gelu, PRelu)

_CHECKED = {root for each in PATTERNS for root in each.roots}
lowers_each({op.MEANS: op for op in ascend.OPERATIONS if op.MEANS is not None and op.MEANS not in _CHECKED})
