"""`#nn.plan`: how to quantize a layer, for each operand and result, decided before any data is seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Literal, NamedTuple

from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import Data, Operation
from xdsl.irdl import base, irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ...ir.number_formats import NUMBER_FORMATS
from ...ir.text import parse_optional_text, parse_text
from ...ir.weights import Weight
from .arrays import ExternalAttr
from .numbers import f32_text, f64_text, parse_f32, parse_f64
from .qparams import QParamsAttr
from .shapes import shape_of

_KEY = "nn.plan"
_BITS = range(2, 9)
_SHIFTS = range(1, 17)
_INTEGER = base(IntegerType)


@dataclass(frozen=True)
class WeightPlan:
    """How to convert a weight to integers, or to a number format. Scales are computed from its values unless they are given."""

    bits: int
    axis: int | None = None
    """The axis with one scale per index; None for a single scale."""
    block: int | None = None
    """The size of the groups along `axis` that have a scale each, next to one per index of the other axes (`QParams.block`)."""
    asymmetric: bool = False
    levels: int | tuple[int, ...] | None = None
    """The number of distinct integers, or the integers themselves; None for no limit."""
    given: QParamsAttr | None = None
    """Scales and zero points of a record, with these bits and this axis."""
    rounding: str | None = None
    """How `--round-weights` rounds it, with options: `adaround{num-iteration=10000}`; None for the nearest number."""
    epsilon: bool = False
    """Whether computed scales below float32's epsilon are 1, so that such a channel is zero (AMCT)."""
    search: bool = False
    """Whether computed scales are those of least squared error, in place of those that cover all values."""
    first: bool = False
    """Whether the layer computes with the integers of this weight while ranges of activations are found (AMCT)."""
    number_format: str | None = None
    """The number format (`NUMBER_FORMATS`), in place of integers of these bits."""
    portable: bool = False
    """Whether scales are large enough for integers whose sums of products are exact on every processor."""

    @property
    def scaled_by_divergence(self) -> bool:
        """Whether its scales are those that AMCT for PyTorch gives what it rounds by AdaRound."""
        return self.epsilon and self.rounding is not None


class Spec(NamedTuple):
    """How a value is quantized; with parameters it needs no calibration."""

    observer: str
    bits: int
    symmetric: bool
    qparams: QParamsAttr | None = None
    number_format: str | None = None
    """The number format of the point, in place of integers. Text of plans does not contain it, as these points are in no plan."""


class Unobserved(NamedTuple):
    """Why a value has no point of its own."""

    how: Literal["shared with", "derived", "float"]
    """It has the parameters of another value, or those that its layer's input and weight give (a bias), or is not quantized."""
    of: str = ""
    """The point of the other value, or the rule that leaves this one in float."""


class Point(NamedTuple):
    """An operand or result of a layer, and how it is quantized."""

    at: Literal["operand", "value", "result"]
    """operand: the layer reads it through a point in front of it, of its own or shared with layers that have it equal. value: the
    operand has its point where it is made. result: all readers read this result through a point.
    """
    number: int
    """The index of the operand or the result."""
    spec: Spec | Unobserved
    name: str = ""
    """The name of the point where it is not that of the operand."""


Aligned = Literal["large", "output", "input", "joint"]
"""Which values around a layer have equal parameters. large: its operands, which take the range that holds all of them. output:
all take those of the result. input: all take those of the operands. joint: all are observed together.
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
    """Operands, but for weights, and results."""
    aligned: Aligned | None = None
    apart: bool = False
    """Whether an operand that others read as well, or that is an output, has one more point, which alone is aligned."""
    weights: tuple[WeightPlan, ...] = ()
    """One for a convolution or matrix product, two for a recurrent layer."""
    balance: float | tuple[float, ...] | None = None
    """The share of its input's spread that moves into the weight (DMQ), or the factors of a record."""
    shift: bool | tuple[int, ...] = False
    """Whether its sums keep 16 bits, by the shifts of least error (True) or by these shifts."""

    @property
    def is_float(self) -> bool:
        return self.rule is not None

    @property
    def specs(self) -> list[Spec]:
        """How the values with points of their own are quantized."""
        return [spec for _, _, spec, _ in self.points if isinstance(spec, Spec)]


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
        weights = tuple(part for part in parts if isinstance(part, WeightPlan))
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
                _print_weight(weight, printer)
                begin = ", "
            if plan.balance is not None:
                printer.print_string(f"{begin}balance {_balance_text(plan.balance)}")
                begin = ", "
            if plan.shift:
                printer.print_string(f"{begin}shift{'' if plan.shift is True else f' {list(plan.shift)}'}")

    def verify(self) -> None:
        plan = self.data
        for weight in plan.weights:
            if weight.block is not None and (weight.axis is None or weight.block < 1):
                raise VerifyException(f"block must be positive and needs an axis, but is {weight.block}")
            if weight.bits not in _BITS:
                raise VerifyException(f"bits must lie in [{_BITS[0]}, {_BITS[-1]}], not {weight.bits}")
            if weight.block is not None and plan.input:
                raise VerifyException("a weight with blocks goes with a float input")
            others = weight.asymmetric, weight.block, weight.levels, weight.given, weight.number_format
            if weight.portable and (weight.bits != _BITS[-1] or any(others)):
                raise VerifyException(
                    "a portable weight has 8 bits, without zero points, blocks, levels or given scales"
                )
            _check_format(weight, plan.input)
            _check_levels(weight)
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


def _check_format(weight: WeightPlan, is_input_quantized: bool) -> None:
    if weight.number_format is None:
        return
    if (known := NUMBER_FORMATS.get(weight.number_format)) is None:
        raise VerifyException(f"'{weight.number_format}' is not a number format: {', '.join(NUMBER_FORMATS)}")
    if weight.block != known.block:
        raise VerifyException(f"{known.name} has blocks of {known.block}, not {weight.block}")
    if is_input_quantized:
        raise VerifyException("a weight in a number format goes with a float input")
    only = WeightPlan(weight.bits, weight.axis, weight.block, search=weight.search, number_format=known.name)
    if weight != only:
        raise VerifyException("a number format has no zero points, levels, rounding or given scales")


def _check_levels(weight: WeightPlan) -> None:
    levels, half = weight.levels, 2 ** (weight.bits - 1)
    if isinstance(levels, int) and not 1 <= levels <= 2 * half:
        raise VerifyException(f"{levels} levels of {weight.bits} bits: there are 1 to {2 * half}")
    if isinstance(levels, tuple) and not (levels and all(-half <= level < half for level in levels)):
        raise VerifyException(f"levels must be numbers in [{-half}, {half - 1}]")


def weights_of(module: ModuleOp) -> Iterator[Weight]:
    """Every array that a module stores next to its text: constants and scales, including scales in plans."""
    for op in module.walk():
        plan = plan_of(op)
        planned = () if plan is None else [*(w.given for w in plan.weights), *(spec.qparams for spec in plan.specs)]
        for attribute in (*op.properties.values(), *op.attributes.values(), *planned):
            if isinstance(attribute, ExternalAttr):
                yield attribute.data.weight
            elif isinstance(attribute, QParamsAttr) and isinstance(attribute.data.scale, Weight):
                yield attribute.data.scale


def _parse_part(parser: AttrParser) -> WeightPlan | Point | dict[str, object]:
    word = parser.parse_keyword_in(("input", "operand", "result", "weight", "aligned", "balance", "shift"))
    if word in ("operand", "result"):
        return _parse_point(parser, word)
    if word == "weight":
        return _parse_weight(parser)
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
    spec = _parse_spec(parser)
    return Point(at, index or 0, spec, parse_text(parser, "name") if parser.parse_optional_keyword("as") else "")


def _parse_storage(parser: AttrParser) -> tuple[int, QParamsAttr | None]:
    """The bits, `i8`, or the parameters with which they are given, `by <...>`."""
    if parser.parse_optional_keyword("by") is not None:
        given = QParamsAttr.new(QParamsAttr.parse_parameter(parser))
        return given.data.storage.width.data, given
    start = parser.pos
    storage = parser.parse_type()
    if not _INTEGER.verifies(storage):
        parser.raise_error("integer type expected", start, parser.pos)
    return storage.width.data, None


def _parse_spec(parser: AttrParser) -> Spec | Unobserved:
    if parser.parse_optional_keyword("derived") is not None:
        return Unobserved("derived")
    if parser.parse_optional_keyword("float") is not None:
        return Unobserved("float", parse_text(parser, "rule"))
    if parser.parse_optional_keyword("shared") is not None:
        parser.parse_keyword("with")
        return Unobserved("shared with", parse_text(parser, "point"))
    bits, given = _parse_storage(parser)
    symmetric = parser.parse_optional_keyword("symmetric") is not None
    parser.parse_keyword("observer")
    return Spec(parse_text(parser, "observer"), bits, symmetric, given)


def _print_point(point: Point, printer: Printer) -> None:
    at, index, spec, name = point
    which = f"result{f' {index}' if index else ''}" if at == "result" else f"operand {index}"
    printer.print_string(f"{which}{' value' if at == 'value' else ''} ")
    if isinstance(spec, Unobserved):
        printer.print_string(spec.how)
        if spec.of:
            printer.print_string(" ")
            printer.print_string_literal(spec.of)
        return
    if spec.qparams is None:
        printer.print_string(f"i{spec.bits}")
    else:
        printer.print_string("by ")
        spec.qparams.print_parameter(printer)
    printer.print_string(" symmetric observer " if spec.symmetric else " observer ")
    printer.print_string_literal(spec.observer)
    if name:
        printer.print_string(" as ")
        printer.print_string_literal(name)


def _parse_weight(parser: AttrParser) -> WeightPlan:
    number_format = parse_optional_text(parser)
    bits, given = (8, None) if number_format is not None else _parse_storage(parser)
    axis, block = (None, None) if given is None else (given.data.axis, given.data.block)
    if given is None:
        if parser.parse_optional_keyword("axis") is not None:
            axis = parser.parse_integer(allow_boolean=False, allow_negative=False)
        if parser.parse_optional_keyword("block") is not None:
            block = parser.parse_integer(allow_boolean=False, allow_negative=False)
    asymmetric = parser.parse_optional_keyword("asymmetric") is not None
    levels: int | tuple[int, ...] | None = None
    if parser.parse_optional_keyword("levels") is not None:
        several = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        levels = parser.parse_integer(allow_boolean=False) if several is None else tuple(several)
    rounding = parse_text(parser, "rounding") if parser.parse_optional_keyword("rounding") is not None else None
    epsilon = parser.parse_optional_keyword("epsilon") is not None
    search = parser.parse_optional_keyword("search") is not None
    first = parser.parse_optional_keyword("first") is not None
    portable = parser.parse_optional_keyword("portable") is not None
    return WeightPlan(
        bits, axis, block, asymmetric, levels, given, rounding, epsilon, search, first, number_format, portable
    )


def _print_weight(weight: WeightPlan, printer: Printer) -> None:
    if weight.given is not None:
        printer.print_string("by ")
        weight.given.print_parameter(printer)
    else:
        axis = "" if weight.axis is None else f" axis {weight.axis}"
        stored = f"i{weight.bits}" if weight.number_format is None else f'"{weight.number_format}"'
        printer.print_string(f"{stored}{axis}{'' if weight.block is None else f' block {weight.block}'}")
    if weight.asymmetric:
        printer.print_string(" asymmetric")
    if weight.levels is not None:
        printer.print_string(f" levels {weight.levels if isinstance(weight.levels, int) else list(weight.levels)}")
    if weight.rounding is not None:
        printer.print_string(" rounding ")
        printer.print_string_literal(weight.rounding)
    if weight.epsilon:
        printer.print_string(" epsilon")
    if weight.search:
        printer.print_string(" search")
    if weight.first:
        printer.print_string(" first")
    if weight.portable:
        printer.print_string(" portable")


def _balance_text(balance: float | tuple[float, ...]) -> str:
    return f64_text(balance) if not isinstance(balance, tuple) else f"[{', '.join(map(f32_text, balance))}]"


__all__ = ["Plan", "PlanAttr", "Point", "Spec", "Unobserved", "WeightPlan", "plan_of", "set_plan", "weights_of"]
