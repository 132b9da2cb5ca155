"""Comparisons and logic. Operands broadcast as in numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import i1, i32, i64
from xdsl.irdl import Operand, operand_def, result_def

from ...ir.dtypes import Tensor
from .. import nn
from ..nn.base import ANY_TENSOR, Result
from ..nn.shapes import broadcast, same_element, shape_of, tensor
from .base import FBD, REAL_NUMBER, AscendOp, ElementTypes, Meaning, declare, i8, i16, operation, ui8
from .elementwise import UnaryOp

EQUAL_TYPES: ElementTypes = (*FBD, i8, i16, i32, i64, ui8, i1)


class TruthOp(AscendOp):
    """x1 and x2 of one type, y of i1."""

    x1: Operand = operand_def(ANY_TENSOR)
    x2: Operand = operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        same_element(self.x1, self.x2)
        return [tensor(i1, broadcast(shape_of(self.x1), shape_of(self.x2)))]


class ComparisonOp(TruthOp):
    """A predicate of `nn`, by default on equality, which any type has."""

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x1": EQUAL_TYPES, "x2": EQUAL_TYPES}
    PREDICATE: ClassVar[nn.Predicate]

    def meaning(self) -> Meaning:
        return self.as_nn(nn.CompareOp, predicate=self.PREDICATE)


class OrderOp(ComparisonOp):
    """A comparison of numbers."""

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x1": REAL_NUMBER, "x2": REAL_NUMBER}


@operation
class EqualOp(ComparisonOp):
    """`x1 == x2`."""

    PREDICATE: ClassVar[nn.Predicate] = nn.Predicate.EQ


@operation
class NotEqualOp(ComparisonOp):
    """`x1 != x2`."""

    PREDICATE: ClassVar[nn.Predicate] = nn.Predicate.NE


@operation
class LessOp(OrderOp):
    """`x1 < x2`."""

    PREDICATE: ClassVar[nn.Predicate] = nn.Predicate.LT


@operation
class LessEqualOp(OrderOp):
    """`x1 <= x2`."""

    PREDICATE: ClassVar[nn.Predicate] = nn.Predicate.LE


@operation
class GreaterOp(OrderOp):
    """`x1 > x2`."""

    PREDICATE: ClassVar[nn.Predicate] = nn.Predicate.GT


@operation
class GreaterEqualOp(OrderOp):
    """`x1 >= x2`."""

    PREDICATE: ClassVar[nn.Predicate] = nn.Predicate.GE


@declare(nn.AndOp, x1=(i1,), x2=(i1,))
class LogicalAndOp(TruthOp):
    """`x1 and x2`."""


@declare(nn.OrOp, x1=(i1,), x2=(i1,))
class LogicalOrOp(TruthOp):
    """`x1 or x2`."""


@declare(nn.NotOp, x=(i1,))
class LogicalNotOp(UnaryOp):
    """`not x`."""


__all__ = [
    "ComparisonOp",
    "EqualOp",
    "GreaterEqualOp",
    "GreaterOp",
    "LessEqualOp",
    "LessOp",
    "LogicalAndOp",
    "LogicalNotOp",
    "LogicalOrOp",
    "NotEqualOp",
    "TruthOp",
]
