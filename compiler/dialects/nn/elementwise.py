"""Operations on single elements: activations, arithmetic, comparison, cast."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from math import isinf
from typing import ClassVar, TypeVar

from xdsl.dialects.builtin import FloatAttr, i1
from xdsl.irdl import Operand, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from .attributes import PredicateAttr
from .base import ANY_TENSOR, DOUBLE, FLAG, REAL, Double, Flag, HomogeneousOp, NNOp, Real, Result, operation, real
from .constant import constant_of
from .permutations import Moved, Perm
from .shapes import broadcast, element_of, merge_shape, same_element, shape_of, tensor, tensor_of


class ElementwiseOp(NNOp):
    """Base of operations that compute each result element from one element of each operand; operands broadcast."""

    @property
    def acts_by_sample(self) -> bool:
        rank = len(shape_of(self.results[0]))
        return all(len(shape_of(v)) == rank for v in self.operands if constant_of(v) is None)

    def axis_behind(self, axis: int) -> int | None:
        keeps = self.KEEPS_SHAPE or shape_of(self.results[0]) == shape_of(self.operands[0])
        return axis if keeps else None

    def commuted(self, perm: Perm) -> Moved | None:
        if len(shape_of(self.results[0])) != len(perm):
            return None
        return Moved((perm,) * len(self.operands), {}, (perm,))


class ActivationOp(ElementwiseOp):
    """Base of operations that can be the activation function of the operation before them."""

    PYTORCH: ClassVar[str]
    """Name of PyTorch's class."""


_Activation = TypeVar("_Activation", bound=ActivationOp)


def activation(pytorch: str) -> Callable[[type[_Activation]], type[_Activation]]:
    """Defines an activation, `PYTORCH` in PyTorch."""

    def define(kind: type[_Activation]) -> type[_Activation]:
        operation(kind).PYTORCH = pytorch
        return kind

    return define


class UnaryOp(ElementwiseOp):
    """Base of operations with one operand of any shape, and a result of the same type."""

    KEEPS_SHAPE: ClassVar[bool] = True

    input: Operand = operand_def(ANY_TENSOR)
    result: Result = result_def(ANY_TENSOR)

    def infer(self) -> Sequence[Tensor]:
        return [tensor_of(self.input)]


class BoundOp(ActivationOp, UnaryOp):
    """Base of the activations that keep values within bounds."""

    @property
    @abstractmethod
    def bounds(self) -> tuple[float, float]:
        """The least and the largest result."""

    @property
    def is_homogeneous(self) -> bool:
        return all(bound == 0 or isinf(bound) for bound in self.bounds)


@activation("ReLU")
class ReluOp(BoundOp):
    """`max(x, 0)` (ONNX Relu). Any shape and number type."""

    @property
    def bounds(self) -> tuple[float, float]:
        return (0.0, float("inf"))


@activation("ReLU6")
class Relu6Op(BoundOp):
    """`min(max(x, 0), 6)` (TensorFlow Relu6, ONNX Clip(0, 6)). Any shape and number type."""

    @property
    def bounds(self) -> tuple[float, float]:
        return (0.0, 6.0)


@activation("Clip")
class ClipOp(BoundOp):
    """`min(max(x, min), max)` (ONNX Clip with constant bounds). An absent bound has no effect. Any shape and number type."""

    min: Double | None = opt_prop_def(DOUBLE)
    max: Double | None = opt_prop_def(DOUBLE)

    @property
    def bounds(self) -> tuple[float, float]:
        return _number_or(self.min, float("-inf")), _number_or(self.max, float("inf"))


def _number_or(attribute: FloatAttr | None, default: float) -> float:
    return default if attribute is None else attribute.value.data


@activation("LeakyReLU")
class LeakyReluOp(HomogeneousOp, ActivationOp, UnaryOp):
    """`x` where positive, `alpha * x` elsewhere (ONNX LeakyRelu). Any float shape."""

    alpha: Real = prop_def(REAL, default_value=real(0.01))


@activation("ELU")
class EluOp(ActivationOp, UnaryOp):
    """`x` where positive, `alpha * (exp(x) - 1)` elsewhere (ONNX Elu). Any float shape."""

    alpha: Real = prop_def(REAL, default_value=real(1.0))


@activation("SELU")
class SeluOp(ActivationOp, UnaryOp):
    """`gamma * x` where positive, `gamma * alpha * (exp(x) - 1)` elsewhere (ONNX Selu). Any float shape."""

    alpha: Real = prop_def(REAL, default_value=real(1.67326319217681884765625))
    gamma: Real = prop_def(REAL, default_value=real(1.05070102214813232421875))


@activation("Hardsigmoid")
class HardSigmoidOp(ActivationOp, UnaryOp):
    """`max(0, min(1, alpha * x + beta))` (ONNX HardSigmoid). Any float shape."""

    alpha: Real = prop_def(REAL, default_value=real(0.2))
    beta: Real = prop_def(REAL, default_value=real(0.5))


@activation("Hardswish")
class HardSwishOp(ActivationOp, UnaryOp):
    """`x * max(0, min(1, x / 6 + 0.5))` (ONNX HardSwish). Any float shape."""


@activation("Hardshrink")
class HardShrinkOp(ActivationOp, UnaryOp):
    """`x` where `|x| > lambd`, 0 elsewhere (ONNX Shrink without a bias). Any float shape."""

    lambd: Real = prop_def(REAL, default_value=real(0.5))

    def verify_operation(self) -> None:
        super().verify_operation()
        if not self.lambd.value.data >= 0:
            raise VerifyException("lambd must not be negative")


@activation("GELU")
class GeluOp(ActivationOp, UnaryOp):
    """`x * Phi(x)` by the error function, or with `tanh_approximation` by tanh (ONNX Gelu). Any float shape."""

    tanh_approximation: Flag | None = opt_prop_def(FLAG)


@activation("Sigmoid")
class SigmoidOp(ActivationOp, UnaryOp):
    """`1 / (1 + exp(-x))` (ONNX Sigmoid). Any float shape."""


@activation("Tanh")
class TanhOp(ActivationOp, UnaryOp):
    """Hyperbolic tangent (ONNX Tanh). Any float shape."""


@activation("Softplus")
class SoftplusOp(ActivationOp, UnaryOp):
    """`log(exp(x) + 1)` (ONNX Softplus). Any float shape."""


@activation("Softsign")
class SoftsignOp(ActivationOp, UnaryOp):
    """`x / (1 + |x|)` (ONNX Softsign). Any float shape."""


@activation("Mish")
class MishOp(ActivationOp, UnaryOp):
    """`x * tanh(log(1 + exp(x)))` (ONNX Mish). Any float shape."""


@operation
class ErfOp(UnaryOp):
    """The error function (ONNX Erf). Any float shape."""


@operation
class ExpOp(UnaryOp):
    """`e^x` (ONNX Exp). Any float shape."""


@operation
class LogOp(UnaryOp):
    """Natural logarithm (ONNX Log). Any float shape."""


@operation
class SinOp(UnaryOp):
    """Sine of radians (ONNX Sin). Any float shape."""


@operation
class CosOp(UnaryOp):
    """Cosine of radians (ONNX Cos). Any float shape."""


@operation
class SqrtOp(UnaryOp):
    """Square root (ONNX Sqrt). Any float shape."""


@operation
class RsqrtOp(UnaryOp):
    """`1 / sqrt(x)` (TensorFlow Rsqrt). Any float shape."""


@operation
class ReciprocalOp(UnaryOp):
    """`1 / x` (ONNX Reciprocal). Any float shape."""


@operation
class NegOp(HomogeneousOp, UnaryOp):
    """`-x` (ONNX Neg). Any shape and signed number type."""


@operation
class AbsOp(HomogeneousOp, UnaryOp):
    """`|x|` (ONNX Abs). Any shape and number type."""


@operation
class FloorOp(UnaryOp):
    """The largest integer not above x (ONNX Floor). Any float shape."""


@operation
class CeilOp(UnaryOp):
    """The smallest integer not below x (ONNX Ceil). Any float shape."""


@operation
class RoundOp(UnaryOp):
    """The nearest integer, halves to even (ONNX Round). Any float shape."""


@operation
class NotOp(UnaryOp):
    """Logical negation (ONNX Not). Any shape of i1."""

    def infer(self) -> Sequence[Tensor]:
        if element_of(self.input) != i1:
            raise VerifyException("input must be of i1")
        return super().infer()


@activation("PReLU")
class PReluOp(HomogeneousOp, ActivationOp):
    """`x` where positive, `slope * x` elsewhere (ONNX PRelu). input of any shape, slope broadcasts to it, result as input."""

    KEEPS_SHAPE: ClassVar[bool] = True
    input: Operand = operand_def(ANY_TENSOR)
    slope: Operand = operand_def(ANY_TENSOR)
    result: Result = result_def(ANY_TENSOR)

    def infer(self) -> Sequence[Tensor]:
        same_element(self.input, self.slope)
        x = shape_of(self.input)
        merge_shape(x, broadcast(x, shape_of(self.slope)), "input and broadcast slope")
        return [tensor_of(self.input)]


class BinaryOp(ElementwiseOp):
    """Base of operations with two operands of one element type; shapes broadcast as in numpy."""

    lhs: Operand = operand_def(ANY_TENSOR)
    rhs: Operand = operand_def(ANY_TENSOR)
    result: Result = result_def(ANY_TENSOR)

    def infer(self) -> Sequence[Tensor]:
        return [tensor(same_element(self.lhs, self.rhs), broadcast(shape_of(self.lhs), shape_of(self.rhs)))]


class ArithmeticOp(BinaryOp):
    """Base of sums, differences, products and quotients; with a constant they are affine functions of one operand."""


@operation
class AddOp(ArithmeticOp):
    """`lhs + rhs`, broadcasting (ONNX Add)."""


@operation
class SubOp(ArithmeticOp):
    """`lhs - rhs`, broadcasting (ONNX Sub)."""


@operation
class MulOp(HomogeneousOp, ArithmeticOp):
    """`lhs * rhs`, broadcasting (ONNX Mul)."""


@operation
class DivOp(HomogeneousOp, ArithmeticOp):
    """`lhs / rhs`, broadcasting; integers truncate towards zero (ONNX Div)."""


@operation
class MinOp(BinaryOp):
    """The smaller one, broadcasting; NaN wins (ONNX Min of two)."""


@operation
class MaxOp(BinaryOp):
    """The larger one, broadcasting; NaN wins (ONNX Max of two)."""


@operation
class PowOp(ElementwiseOp):
    """`lhs ^ rhs`, broadcasting; the exponent may be of another number type (ONNX Pow). Result has the base's type."""

    lhs: Operand = operand_def(ANY_TENSOR)
    rhs: Operand = operand_def(ANY_TENSOR)
    result: Result = result_def(ANY_TENSOR)

    def infer(self) -> Sequence[Tensor]:
        return [tensor(element_of(self.lhs), broadcast(shape_of(self.lhs), shape_of(self.rhs)))]


class LogicalOp(BinaryOp):
    """Base of the operations on two operands of i1."""

    def infer(self) -> Sequence[Tensor]:
        if same_element(self.lhs, self.rhs) != i1:
            raise VerifyException("operands must be of i1")
        return super().infer()


@operation
class AndOp(LogicalOp):
    """Logical and of i1, broadcasting (ONNX And)."""


@operation
class OrOp(LogicalOp):
    """Logical or of i1, broadcasting (ONNX Or)."""


@operation
class CompareOp(ElementwiseOp):
    """`lhs predicate rhs`, broadcasting, with a result of i1 (ONNX Equal, Less, Greater, LessOrEqual, GreaterOrEqual)."""

    lhs: Operand = operand_def(ANY_TENSOR)
    rhs: Operand = operand_def(ANY_TENSOR)
    predicate: PredicateAttr = prop_def(PredicateAttr)
    result: Result = result_def(ANY_TENSOR)

    def infer(self) -> Sequence[Tensor]:
        same_element(self.lhs, self.rhs)
        return [tensor(i1, broadcast(shape_of(self.lhs), shape_of(self.rhs)))]


@operation
class WhereOp(ElementwiseOp):
    """`on_true` where condition holds, else `on_false`; all three broadcast (ONNX Where). condition is i1."""

    condition: Operand = operand_def(ANY_TENSOR)
    on_true: Operand = operand_def(ANY_TENSOR)
    on_false: Operand = operand_def(ANY_TENSOR)
    result: Result = result_def(ANY_TENSOR)

    def infer(self) -> Sequence[Tensor]:
        if element_of(self.condition) != i1:
            raise VerifyException("condition must be of i1")
        element = same_element(self.on_true, self.on_false)
        return [tensor(element, broadcast(*(shape_of(v) for v in self.operands)))]


@operation
class CastOp(ElementwiseOp):
    """Converts elements to the result's type (ONNX Cast). Floats to integers truncate; to i1, everything but 0 is true."""

    KEEPS_SHAPE: ClassVar[bool] = True

    input: Operand = operand_def(ANY_TENSOR)
    result: Result = result_def(ANY_TENSOR)

    def infer(self) -> Sequence[Tensor]:
        return [tensor(element_of(self.result), shape_of(self.input))]


__all__ = [
    "AbsOp",
    "ActivationOp",
    "AddOp",
    "AndOp",
    "ArithmeticOp",
    "BinaryOp",
    "BoundOp",
    "CastOp",
    "CeilOp",
    "ClipOp",
    "CompareOp",
    "CosOp",
    "DivOp",
    "ElementwiseOp",
    "EluOp",
    "ErfOp",
    "ExpOp",
    "FloorOp",
    "GeluOp",
    "HardShrinkOp",
    "HardSigmoidOp",
    "HardSwishOp",
    "LeakyReluOp",
    "LogOp",
    "MaxOp",
    "MinOp",
    "MishOp",
    "MulOp",
    "NegOp",
    "NotOp",
    "OrOp",
    "PReluOp",
    "PowOp",
    "ReciprocalOp",
    "Relu6Op",
    "ReluOp",
    "RoundOp",
    "RsqrtOp",
    "SeluOp",
    "SigmoidOp",
    "SinOp",
    "SoftplusOp",
    "SoftsignOp",
    "SqrtOp",
    "SubOp",
    "TanhOp",
    "UnaryOp",
    "WhereOp",
]
