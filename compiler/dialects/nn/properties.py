"""Properties: their attributes, made from Python values, and their text form as keyword and value.

One table, `SYNTAXES`, gives the kinds of property; the rest follow from their attribute's class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    f32,
    f64,
    i1,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, BuiltinAttribute, Data, ParametrizedAttribute
from xdsl.irdl import AttrConstraint, IRDLOperation, base
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.str_enum import StrEnum

from ...ir.exact_text import parse_text
from ...ir.numbers import f32_text, f64_text, parse_f32, parse_f64
from .attributes import RangeAttr, RealsAttr, parse_range, parse_reals, reals_text

# The value of a property of each kind, and under the same name in capitals the constraint that declares it.
Ints = DenseArrayBase[IntegerType]
Int = IntegerAttr[IntegerType]
Bool = IntegerAttr[IntegerType]
Real = FloatAttr[Float32Type]
Double = FloatAttr[Float64Type]
Flag = UnitAttr
Text = StringAttr

INTS: AttrConstraint[Ints] = cast("AttrConstraint[Ints]", DenseArrayBase.constr(i64))
INT: AttrConstraint[Int] = cast("AttrConstraint[Int]", IntegerAttr.constr(i64))
BOOL: AttrConstraint[Bool] = cast("AttrConstraint[Bool]", IntegerAttr.constr(i1))
"""`true` or `false` in the text, for a property with a default."""
REAL: AttrConstraint[Real] = cast("AttrConstraint[Real]", FloatAttr.constr(f32))
"""A float32, as ONNX's and TensorFlow's attributes are."""
DOUBLE: AttrConstraint[Double] = cast("AttrConstraint[Double]", FloatAttr.constr(f64))
FLAG: AttrConstraint[Flag] = base(UnitAttr)
"""True when present: a keyword without a value."""
TEXT: AttrConstraint[Text] = base(StringAttr)


def integer(value: int) -> Int:
    """The attribute of an `INT` property."""
    return IntegerAttr(int(value), i64)


def boolean(value: object) -> Bool:
    """The attribute of a `BOOL` property."""
    return IntegerAttr.from_bool(bool(value))


def real(value: float) -> Real:
    """The attribute of a `REAL` property."""
    return FloatAttr(float(value), f32)


def double(value: float) -> Double:
    """The attribute of a `DOUBLE` property."""
    return FloatAttr(float(value), f64)


def int_list(values: Sequence[int]) -> Ints:
    """The attribute of an `INTS` property."""
    return DenseArrayBase.from_list(i64, [int(v) for v in values])


def ints(value: Ints | None, default: Sequence[int] = ()) -> tuple[int, ...]:
    """The numbers of a list property, `default` where it is absent."""
    return tuple(default) if value is None else tuple(value.get_values())


@dataclass(frozen=True)
class Syntax:
    """Functions that make a kind of property from a Python value, parse it, and print it."""

    make: Callable[[Any], Attribute | None]
    parse: Callable[[Parser], Attribute]
    print: Callable[[Any, Printer], None]


def _integer_text(parser: Parser) -> int:
    start = parser.pos
    number = parser.parse_integer(allow_boolean=False)
    if not -(2**63) <= number < 2**63:
        parser.raise_error("number is out of range", start, parser.pos)
    return number


def _numbers(parser: Parser) -> Sequence[int]:
    return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _integer_text(parser))


def _as(text: Callable[[Any], str]) -> Callable[[Any, Printer], None]:
    return lambda value, printer: printer.print_string(text(value))


SYNTAXES: dict[AttrConstraint[Any], Syntax] = {
    INTS: Syntax(int_list, lambda p: int_list(_numbers(p)), _as(lambda v: str(list(ints(v))))),
    INT: Syntax(integer, lambda p: integer(_integer_text(p)), _as(lambda v: str(v.value.data))),
    BOOL: Syntax(boolean, lambda p: boolean(p.parse_boolean()), _as(lambda v: "true" if v.value.data else "false")),
    REAL: Syntax(real, lambda p: real(parse_f32(p)), _as(lambda v: f32_text(v.value.data))),
    DOUBLE: Syntax(double, lambda p: double(parse_f64(p)), _as(lambda v: f64_text(v.value.data))),
    FLAG: Syntax(lambda v: UnitAttr() if v else None, lambda _: UnitAttr(), lambda _, __: None),
    base(RealsAttr): Syntax(RealsAttr, lambda p: RealsAttr(parse_reals(p)), _as(lambda v: reals_text(v.data))),
    base(RangeAttr): Syntax(RangeAttr, lambda p: RangeAttr(parse_range(p)), _as(lambda v: reals_text(v.data))),
    TEXT: Syntax(StringAttr, lambda p: StringAttr(parse_text(p, "text")), lambda v, p: p.print_string_literal(v.data)),
}


def _syntax(constraint: AttrConstraint[Any]) -> Syntax:
    """The syntax for a constraint, otherwise for its class of attribute."""
    if constraint in SYNTAXES:
        return SYNTAXES[constraint]
    classes = constraint.get_bases() or set[type[Attribute]]()
    cls = next(iter(classes)) if len(classes) == 1 else Attribute
    if issubclass(cls, EnumAttribute):
        return _words(cls)
    if issubclass(cls, Data | ParametrizedAttribute) and not issubclass(cls, BuiltinAttribute):
        return _own(cls)
    return Syntax(_refuse, lambda p: p.parse_attribute(), lambda v, p: p.print_attribute(v))


def _words(cls: Any) -> Syntax:
    """An attribute of ours that is one of several words."""
    words: type[StrEnum] = cls.enum_type
    return Syntax(lambda v: cls(words(v)), lambda p: cls(p.parse_str_enum(words)), _as(lambda v: str(v.data.value)))


def _own(cls: Any) -> Syntax:
    """Syntax of any other attribute of the dialect: it prints without its name (`from <onnx, ...>`, not `from
    #nn.origin<...>`).
    """
    if issubclass(cls, Data):
        return _own_data(cls)
    return Syntax(_refuse, lambda p: cls.new(cls.parse_parameters(p)), lambda v, p: v.print_parameters(p))


def _own_data(cls: Any) -> Syntax:
    return Syntax(cls, lambda p: cls.new(cls.parse_parameter(p)), lambda v, p: v.print_parameter(p))


def _refuse(value: object) -> Attribute:
    raise TypeError(f"an attribute is needed, not {value!r}")


class Property(NamedTuple):
    """The text form of a property."""

    name: str
    keyword: str
    default: Attribute | None
    syntax: Syntax


def value_of(attribute: Attribute) -> Any:
    """The Python value of a property: a number, a tuple, a text; True for a flag."""
    if isinstance(attribute, FloatAttr | IntegerAttr):
        return attribute.value.data
    if isinstance(attribute, DenseArrayBase):
        return ints(cast(Ints, attribute))
    return True if isinstance(attribute, UnitAttr) else cast(Any, attribute).data


@cache
def properties_of(op: type[IRDLOperation]) -> dict[str, Property]:
    """The properties of an operation in the order of its class, `origin` last."""
    words: dict[str, str] = {"origin": "from", **getattr(op, "KEYWORDS", {})}
    definitions = sorted(op.get_irdl_definition().properties.items(), key=lambda item: item[0] == "origin")
    return {
        name: Property(name, words.get(name, name), definition.default_value, _syntax(definition.constr))
        for name, definition in definitions
    }


def number_defaults(op: type[IRDLOperation]) -> dict[str, float]:
    """The properties of an operation that are numbers, with their defaults."""
    defaults = {name: known.default for name, known in properties_of(op).items()}
    return {
        name: cast(Real, default).value.data for name, default in defaults.items() if isinstance(default, FloatAttr)
    }


def attribute_of(op: type[IRDLOperation], name: str, value: Any) -> Attribute | None:
    """The attribute for a Python value of property `name`; None for absent."""
    if value is None or isinstance(value, Attribute):
        return value
    if (known := properties_of(op).get(name)) is None:
        raise ValueError(f"{op.name} has no property {name}")
    return known.syntax.make(value)


def parse_properties(op: type[IRDLOperation], parser: Parser) -> dict[str, Attribute | None]:
    """Parses keywords and values up to the first word that is not a keyword of a property."""
    known = {each.keyword: each for each in properties_of(op).values()}
    properties: dict[str, Attribute | None] = {}
    start = parser.pos
    while (word := parser.parse_optional_keyword_in(known)) is not None:
        name, _, _, syntax = known[word]
        if name in properties:
            parser.raise_error(f"'{word}' is given twice", start, parser.pos)
        properties[name] = syntax.parse(parser)
        start = parser.pos
    return properties


def print_properties(op: IRDLOperation, printer: Printer) -> None:
    """Prints keyword and value of each property that differs from its default."""
    for name, keyword, default, syntax in properties_of(type(op)).values():
        value = op.properties.get(name)
        if value is None or value == default:
            continue
        printer.print_string(f" {keyword}")
        if syntax is not SYNTAXES[FLAG]:
            printer.print_string(" ")
            syntax.print(value, printer)
