"""`#nn.plan`: how to quantize a layer, for each operand and result, decided before any data is seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Literal, NamedTuple

from xdsl.ir import Data, Operation
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ...ir.exact_text import parse_text
from ...ir.numbers import f32_text, f64_text, parse_f32, parse_f64
from ...ir.weights import Weight
from .arrays import ExternalAttr
from .how import How
from .qparams import QParamsAttr
from .shapes import shape_of

_KEY = "nn.plan"
_SHIFTS = range(1, 17)


class Unobserved(NamedTuple):
    """The reason why a value does not have a point of its own."""

    kind: Literal["shared with", "derived", "float"]
    """The source of its parameters: another value, or (`derived`) those of its layer's input and weight (a bias); or it
    is not quantized.
    """
    of: str = ""
    """The point of the other value, or the rule that leaves this one in float."""


class Point(NamedTuple):
    """An operand or result of a layer, and how it is quantized."""

    at: Literal["operand", "value", "result"]
    """The place of the point. operand: the layer reads it through a point in front of it, of its own or shared with layers that
    have it equal. value: the operand has its point where it is made. result: all readers read this result through a point.
    """
    number: int
    """The index of the operand or the result."""
    how: How | Unobserved
    name: str = ""
    """The name of the point where it is not that of the operand."""


Aligned = Literal["large", "output", "input", "joint"]
"""The values around a layer that have equal parameters. large: its operands, which take the range that holds all of
them. output: all take those of the result. input: all take those of the operands. joint: all are observed together.
"""
_ALIGNMENTS: tuple[Aligned, ...] = ("large", "output", "input", "joint")


@dataclass(frozen=True)
class Plan:
    """The decision for one layer."""

    rule: str | None = None
    """The rule that leaves the layer in float; the other fields do not apply then."""
    input: bool = False
    """Whether the layer computes on quantized inputs; otherwise only its weights are quantized."""
    points: tuple[Point, ...] = ()
    """The points on results, and on operands other than weights."""
    aligned: Aligned | None = None
    apart: bool = False
    """Whether an operand that others read as well, or that is an output, has an additional point, which alone is aligned."""
    weights: tuple[How, ...] = ()
    """The quantization of its weights: one for a convolution or matrix product, two for a recurrent layer."""
    balance: float | tuple[float, ...] | None = None
    """The share of its input's spread that moves into the weight (DMQ), or the factors of a record."""
    shift: bool | tuple[int, ...] = False
    """Whether its sums keep 16 bits, by the shifts of least error (True) or by these shifts."""

    @property
    def is_float(self) -> bool:
        return self.rule is not None

    @property
    def of_points(self) -> list[How]:
        """The quantization of each value that has a point of its own."""
        return [how for _, _, how, _ in self.points if isinstance(how, How)]


@irdl_attr_definition
class PlanAttr(Data[Plan]):
    """A plan as the attribute `nn.plan` of a layer's operation.

    ```mlir
    #nn.plan<float "skip-layers">
    #nn.plan<input, operand 0 value i8 observer "minmax", operand 2 derived, result i8 observer "minmax", weight i8 axis 0>
    #nn.plan<input, operand 0 shared with "conv1:out", operand 1 float "constant-operand", aligned output apart>
    #nn.plan<input, operand 0 i8 symmetric observer "minmax", weight i8 axis 0 levels 16, balance 0.5, shift>
    #nn.plan<input, operand 0 by <i8, scale = 0.1, zero_point = 3> observer "minmax", weight i8>
    #nn.plan<weight i4 axis 1 asymmetric>
    #nn.plan<weight i4 axis 0 block 128 search>
    #nn.plan<weight "mxfp4" axis 0 block 32>
    #nn.plan<input, weight i8 axis 0 rounding "adaround">
    #nn.plan<input, weight i8 axis 0 epsilon first>
    #nn.plan<input, weight i8 axis 0 portable>
    #nn.plan<input, weight by <i8, scale = [0.1, 0.2], axis = 0>, balance [2.0, 0.5], shift [3, 4]>
    ```
    """

    name = "nn.plan"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Plan:
        with parser.in_angle_brackets():
            if parser.parse_optional_keyword("float") is not None:
                return Plan(parse_text(parser, "rule"))
            parts = parser.parse_comma_separated_list(parser.Delimiter.NONE, lambda: _parse_part(parser))
        weights = tuple(part for part in parts if isinstance(part, How))
        points = tuple(part for part in parts if isinstance(part, Point))
        named = dict(item for part in parts if isinstance(part, dict) for item in part.items())
        return Plan(points=points, weights=weights, **named)  # pyright: ignore[reportArgumentType]

    def print_parameter(self, printer: Printer) -> None:
        plan = self.data
        with printer.in_angle_brackets():
            if plan.rule is not None:
                printer.print_string("float ")
                printer.print_string_literal(plan.rule)
                return
            begin = ""
            if plan.input:
                printer.print_string("input")
                begin = ", "
            for point in plan.points:
                printer.print_string(begin)
                _print_point(point, printer)
                begin = ", "
            if plan.aligned is not None:
                printer.print_string(f"{begin}aligned {plan.aligned}{' apart' if plan.apart else ''}")
                begin = ", "
            for weight in plan.weights:
                printer.print_string(f"{begin}weight ")
                weight.print(printer)
                begin = ", "
            if plan.balance is not None:
                printer.print_string(f"{begin}balance {_balance_text(plan.balance)}")
                begin = ", "
            if plan.shift:
                printer.print_string(f"{begin}shift{'' if plan.shift is True else f' {list(plan.shift)}'}")

    def verify(self) -> None:
        plan = self.data
        for weight in plan.weights:
            weight.check_weight(plan.input)
        if isinstance(plan.balance, tuple):
            if not plan.balance or not all(0 < factor < inf for factor in plan.balance):
                raise VerifyException("balance needs factors that are positive and finite")
        elif plan.balance is not None and not 0 < plan.balance < 1:
            raise VerifyException(f"balance must lie between 0 and 1, not {plan.balance}")
        if isinstance(plan.shift, tuple) and not (plan.shift and all(n in _SHIFTS for n in plan.shift)):
            raise VerifyException(f"shift needs numbers in [{_SHIFTS[0]}, {_SHIFTS[-1]}]")


def plan_of(op: Operation) -> Plan | None:
    """The plan of an operation; None if nothing is decided for it."""
    attribute = op.attributes.get(_KEY)
    return attribute.data if isinstance(attribute, PlanAttr) else None


def set_plan(op: Operation, plan: Plan | None) -> None:
    """Replaces the plan of an operation; None removes it."""
    op.attributes.pop(_KEY, None)
    if plan is not None:
        op.attributes[_KEY] = PlanAttr(plan)


def check_plan(op: Operation) -> None:
    """Raises VerifyException if a plan does not fit the operands of its operation."""
    if (plan := plan_of(op)) is None:
        return
    for at, index, _, _ in plan.points:
        what, values = ("result", op.results) if at == "result" else ("operand", op.operands)
        if index >= len(values):
            raise VerifyException(f"nn.plan has {what} {index}, but the operation has {len(values)}")
    most, first = 2 if op.name == "nn.opaque" else 1, 0 if op.name == "nn.gather" else 1  # a table comes first
    if len(plan.weights) > max(0, min(most, len(op.operands) - first)):
        raise VerifyException(f"nn.plan has {len(plan.weights)} weights, which is more than the operation has")
    for value, weight in zip(op.operands[first:], plan.weights, strict=False):
        rank = len(shape_of(value))
        if weight.axis is not None and weight.axis >= rank:
            raise VerifyException(f"nn.plan: axis {weight.axis} is out of range for a weight of rank {rank}")


def weights_of(root: Operation) -> Iterator[Weight]:
    """Every array that a module or an operation stores next to its text: constants and scales, including scales in plans."""
    for op in root.walk():
        plan = plan_of(op)
        planned = () if plan is None else [how.given for how in (*plan.weights, *plan.of_points)]
        for attribute in (*op.properties.values(), *op.attributes.values(), *planned):
            if isinstance(attribute, ExternalAttr):
                yield attribute.data.weight
            elif isinstance(attribute, QParamsAttr) and isinstance(attribute.data.scale, Weight):
                yield attribute.data.scale


def _parse_part(parser: AttrParser) -> How | Point | dict[str, object]:
    word = parser.parse_keyword_in(("input", "operand", "result", "weight", "aligned", "balance", "shift"))
    if word in ("operand", "result"):
        return _parse_point(parser, word)
    if word == "weight":
        return How.parse(parser)
    if word == "input":
        return {word: True}
    if word == "aligned":
        mode = parser.parse_keyword_in(_ALIGNMENTS)
        return {word: mode, "apart": parser.parse_optional_keyword("apart") is not None}
    if word == "balance":
        factors = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_f32(parser))
        return {word: parse_f64(parser) if factors is None else tuple(factors)}
    shifts = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
    return {word: True if shifts is None else tuple(shifts)}


def _parse_point(parser: AttrParser, word: Literal["operand", "result"]) -> Point:
    index = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    if index is None and word == "operand":
        parser.raise_error("integer expected")
    at = "value" if word == "operand" and parser.parse_optional_keyword("value") is not None else word
    how = _parse_how(parser)
    return Point(at, index or 0, how, parse_text(parser, "name") if parser.parse_optional_keyword("as") else "")


def _parse_how(parser: AttrParser) -> How | Unobserved:
    if parser.parse_optional_keyword("derived") is not None:
        return Unobserved("derived")
    if parser.parse_optional_keyword("float") is not None:
        return Unobserved("float", parse_text(parser, "rule"))
    if parser.parse_optional_keyword("shared") is not None:
        parser.parse_keyword("with")
        return Unobserved("shared with", parse_text(parser, "point"))
    return How.parse(parser)


def _print_point(point: Point, printer: Printer) -> None:
    at, index, how, name = point
    which = f"result{f' {index}' if index else ''}" if at == "result" else f"operand {index}"
    printer.print_string(f"{which}{' value' if at == 'value' else ''} ")
    if isinstance(how, Unobserved):
        printer.print_string(how.kind)
        if how.of:
            printer.print_string(" ")
            printer.print_string_literal(how.of)
        return
    how.print(printer)
    if name:
        printer.print_string(" as ")
        printer.print_string_literal(name)


def _balance_text(balance: float | tuple[float, ...]) -> str:
    return f64_text(balance) if not isinstance(balance, tuple) else f"[{', '.join(map(f32_text, balance))}]"


__all__ = ["Plan", "PlanAttr", "Point", "Unobserved", "plan_of", "set_plan", "weights_of"]
