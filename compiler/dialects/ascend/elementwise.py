"""Operations on single elements: activations, arithmetic, cast."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import bf16, f16, f32, f64, i1, i32, i64
from xdsl.ir import SSAValue
from xdsl.irdl import Operand, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from .. import nn
from ..nn.base import ANY_TENSOR, INT, REAL, Int, Real, Result, real
from ..nn.constant import array_of, constant_of
from ..nn.shapes import broadcast, merge_dim, same_element, shape_of, tensor, tensor_of
from .base import (
    ALL,
    DATA_TYPES,
    FB,
    FBD,
    REAL_NUMBER,
    SIGNED,
    AscendOp,
    ElementTypes,
    Meaning,
    declare,
    i8,
    i16,
    operation,
    ui8,
    ui16,
)

RELU_TYPES: ElementTypes = (*FBD, *SIGNED, ui8, ui16)
RELU6_TYPES: ElementTypes = (f16, f32, i32, bf16)
NUMERIC: ElementTypes = (*FBD, i8, i16, i32, i64, ui8, ui16)
EXTREMUM_TYPES: ElementTypes = (f16, f32, f64, i32, i64, bf16)
NEG_TYPES: ElementTypes = (*FBD, i8, i32, i64)
ABS_TYPES: ElementTypes = (*FBD, i8, i16, i32, i64)


class UnaryOp(AscendOp):
    """x of any shape, y of the same type."""

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": FBD}

    x: Operand = operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        return [tensor_of(self.x)]


@declare(nn.ReluOp, x=RELU_TYPES)
class ReluOp(UnaryOp):
    """`max(x, 0)`."""


@declare(nn.Relu6Op, x=RELU6_TYPES)
class Relu6Op(UnaryOp):
    """`min(max(x, 0), 6)`."""


@declare(x=RELU6_TYPES)
class Relu6DOp(UnaryOp):
    """`min(max(x, 0), 6 * scale)`: Relu6 of numbers that were multiplied by `scale` before. 6 * scale is rounded to float32."""

    scale: Real = prop_def(REAL, default_value=real(1.0))

    def meaning(self) -> Meaning:
        return self.as_nn(nn.ClipOp, min=0.0, max=6 * self.scale.value.data)


@operation
class LeakyReluOp(UnaryOp):
    """`x` where positive, `negative_slope * x` elsewhere."""

    negative_slope: Real = prop_def(REAL, default_value=real(0.0))

    def meaning(self) -> Meaning:
        return self.as_nn(nn.LeakyReluOp, alpha=self.negative_slope)


@operation
class EluOp(UnaryOp):
    """`scale * x` where positive, `scale * alpha * (exp(x) - 1)` elsewhere; `input_scale` must be 1."""

    alpha: Real = prop_def(REAL, default_value=real(1.0))
    scale: Real = prop_def(REAL, default_value=real(1.0))
    input_scale: Real = prop_def(REAL, default_value=real(1.0))

    def derive(self) -> Sequence[Tensor]:
        if self.input_scale.value.data != 1:
            raise VerifyException("input_scale must be 1")
        return super().derive()

    def meaning(self) -> Meaning:
        if self.scale.value.data == 1.0:
            return self.as_nn(nn.EluOp, alpha=self.alpha)
        return self.as_nn(nn.SeluOp, alpha=self.alpha, gamma=self.scale)


@declare(nn.SigmoidOp)
class SigmoidOp(UnaryOp):
    """`1 / (1 + exp(-x))`."""


@declare(nn.TanhOp)
class TanhOp(UnaryOp):
    """Hyperbolic tangent."""


@declare(nn.HardSwishOp, x=FB)
class HardSwishOp(UnaryOp):
    """`x * min(max(x + 3, 0), 6) / 6`."""


@declare(nn.HardSigmoidOp, input_x=FB)
class HardSigmoidOp(AscendOp):
    """`max(0, min(1, alpha * x + beta))`. The header calls operand and result input_x and output_y."""

    input_x: Operand = operand_def(ANY_TENSOR)
    alpha: Real = prop_def(REAL, default_value=real(0.16666666))
    beta: Real = prop_def(REAL, default_value=real(0.5))
    output_y: Result = result_def(ANY_TENSOR)


@declare(nn.GeluOp, x=FB)
class GeluOp(UnaryOp):
    """`x * Phi(x)` by the error function."""


@declare(nn.SoftplusOp)
class SoftplusOp(UnaryOp):
    """`log(exp(x) + 1)`."""


@declare(nn.MishOp, x=FB)
class MishOp(UnaryOp):
    """`x * tanh(log(1 + exp(x)))`."""


@declare(nn.ErfOp)
class ErfOp(UnaryOp):
    """The error function."""


class NaturalOp(UnaryOp):
    """A power or a logarithm of a base, of which only e is taken."""

    base: Real = prop_def(REAL, default_value=real(-1.0))
    scale: Real = prop_def(REAL, default_value=real(1.0))
    shift: Real = prop_def(REAL, default_value=real(0.0))

    def derive(self) -> Sequence[Tensor]:
        if (self.base.value.data, self.scale.value.data, self.shift.value.data) != (-1, 1, 0):
            raise VerifyException("base, scale and shift must be -1, 1 and 0")
        return super().derive()


@declare(nn.ExpOp)
class ExpOp(NaturalOp):
    """`e ^ x`: base -1 stands for e, scale must be 1 and shift 0."""


@declare(nn.SqrtOp)
class SqrtOp(UnaryOp):
    """Square root."""


@declare(nn.RsqrtOp)
class RsqrtOp(UnaryOp):
    """`1 / sqrt(x)`."""


@declare(nn.ReciprocalOp)
class ReciprocalOp(UnaryOp):
    """`1 / x`."""


@declare(nn.NegOp, x=NEG_TYPES)
class NegOp(UnaryOp):
    """`-x`."""


@declare(nn.AbsOp, x=ABS_TYPES)
class AbsOp(UnaryOp):
    """`|x|`."""


@declare(x=FB, weight=FB)
class PReluOp(AscendOp):
    """`x` where positive, `weight * x` elsewhere; weight has one number, or one per channel (axis 1). y has the type of x."""

    x: Operand = operand_def(ANY_TENSOR)
    weight: Operand = operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        x, weight = shape_of(self.x), shape_of(self.weight)
        if len(weight) != 1:
            raise VerifyException(f"weight must be of rank 1, not {len(weight)}")
        if weight != (1,):
            if len(x) < 2:
                raise VerifyException(f"x must be of rank 2 or more, not {len(x)}")
            merge_dim(x[1], weight[0], "channels and weight length")
        same_element(self.x, self.weight)
        return [tensor_of(self.x)]


class ClippingOp(AscendOp):
    """`min(max(x, clip_value_min), clip_value_max)`."""

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {
        "x": REAL_NUMBER,
        "clip_value_min": REAL_NUMBER,
        "clip_value_max": REAL_NUMBER,
    }

    x: Operand = operand_def(ANY_TENSOR)
    clip_value_min: Operand = operand_def(ANY_TENSOR)
    clip_value_max: Operand = operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        same_element(*self.operands)
        for name, value in (("clip_value_min", self.clip_value_min), ("clip_value_max", self.clip_value_max)):
            self.check_bound(name, value)
        return [tensor_of(self.x)]

    @abstractmethod
    def check_bound(self, name: str, value: SSAValue) -> None:
        """Raises VerifyException for a bound that the operation does not take."""


@operation
class ClipByValueOp(ClippingOp):
    """`min(max(x, clip_value_min), clip_value_max)`; the bounds are constants of one element each."""

    def check_bound(self, name: str, value: SSAValue) -> None:
        if shape_of(value) not in ((), (1,)):
            raise VerifyException(f"{name} must hold one number")
        if constant_of(value) is None:
            raise VerifyException(f"{name} must be a constant")

    def meaning(self) -> Meaning:
        low, high = (bound.item() for v in self.operands[1:] if (bound := array_of(v)) is not None)
        return self.as_nn(nn.ClipOp, 1, min=low, max=high)


class BinaryOp(AscendOp):
    """x1 and x2 of one element type; shapes broadcast as in numpy."""

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x1": NUMERIC, "x2": NUMERIC}

    x1: Operand = operand_def(ANY_TENSOR)
    x2: Operand = operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        return [tensor(same_element(self.x1, self.x2), broadcast(shape_of(self.x1), shape_of(self.x2)))]


@declare(nn.AddOp, x1=(*NUMERIC, i1), x2=(*NUMERIC, i1))
class AddOp(BinaryOp):
    """`x1 + x2`, broadcasting."""


@declare(nn.SubOp)
class SubOp(BinaryOp):
    """`x1 - x2`, broadcasting."""


@declare(nn.MulOp, x1=(*NUMERIC, i1), x2=(*NUMERIC, i1))
class MulOp(BinaryOp):
    """`x1 * x2`, broadcasting."""


@declare(nn.DivOp)
class RealDivOp(BinaryOp):
    """`x1 / x2`, broadcasting."""


@declare(nn.MaxOp, x1=EXTREMUM_TYPES, x2=EXTREMUM_TYPES)
class MaximumOp(BinaryOp):
    """The larger one, broadcasting."""


@declare(nn.MinOp, x1=EXTREMUM_TYPES, x2=EXTREMUM_TYPES)
class MinimumOp(BinaryOp):
    """The smaller one, broadcasting."""


@declare(nn.PowOp)
class PowOp(BinaryOp):
    """`x1 ^ x2`, broadcasting."""


@declare(x=ALL)
class CastOp(AscendOp):
    """Converts elements to the type with number `dst_type`. x of any shape."""

    x: Operand = operand_def(ANY_TENSOR)
    dst_type: Int = prop_def(INT)
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        if (element := DATA_TYPES.get(self.dst_type.value.data)) is None:
            raise VerifyException(f"dst_type {self.dst_type.value.data} names no element type")
        return [tensor(element, shape_of(self.x))]

    def meaning(self) -> Meaning:
        return self.as_nn(nn.CastOp, result_types=self.result_types)


@declare(nn.LogOp)
class LogOp(NaturalOp):
    """Natural logarithm: base -1 stands for e, scale must be 1 and shift 0."""


@declare(nn.SinOp)
class SinOp(UnaryOp):
    """Sine of radians."""


@declare(nn.CosOp)
class CosOp(UnaryOp):
    """Cosine of radians."""


@declare(nn.FloorOp)
class FloorOp(UnaryOp):
    """The largest integer not above x."""


@declare(nn.CeilOp)
class CeilOp(UnaryOp):
    """The smallest integer not below x."""


@declare(nn.RoundOp)
class RintOp(UnaryOp):
    """The nearest integer, halves to even."""


@declare(nn.SoftsignOp)
class SoftsignOp(UnaryOp):
    """`x / (1 + |x|)`."""


__all__ = [
    "AbsOp",
    "AddOp",
    "BinaryOp",
    "CastOp",
    "CeilOp",
    "ClipByValueOp",
    "CosOp",
    "EluOp",
    "ErfOp",
    "ExpOp",
    "FloorOp",
    "GeluOp",
    "HardSigmoidOp",
    "HardSwishOp",
    "LeakyReluOp",
    "LogOp",
    "MaximumOp",
    "MinimumOp",
    "MishOp",
    "MulOp",
    "NegOp",
    "PReluOp",
    "PowOp",
    "RealDivOp",
    "ReciprocalOp",
    "Relu6DOp",
    "Relu6Op",
    "ReluOp",
    "RintOp",
    "RsqrtOp",
    "SigmoidOp",
    "SinOp",
    "SoftplusOp",
    "SoftsignOp",
    "SqrtOp",
    "SubOp",
    "TanhOp",
    "UnaryOp",
]
