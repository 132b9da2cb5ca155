"""What all `nn` operations share: one text form, one way to build them, result types inferred from operands.

Text form: `nn.name %operands keyword value ... from <origin> {attributes} : types`. Properties print as keyword and value in
the order of the class, those at their default are left out. One type stands for all when operands and results agree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any, ClassVar, Self, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FloatAttr,
    FunctionType,
    IntegerAttr,
    LocationAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    f32,
    f64,
    i1,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Data, Operation, ParametrizedAttribute, SSAValue
from xdsl.irdl import AttrConstraint, IRDLOperation, OptOperandDef, VarOperandDef, base, opt_prop_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ...dtypes import Tensor
from ...text import parse_text
from .attributes import OriginAttr, RealsAttr
from .numbers import f32_text, f64_text, parse_f32, parse_f64
from .shapes import compatible

ANY_TENSOR: AttrConstraint[Tensor] = cast(AttrConstraint[Tensor], base(TensorType))
INTS: AttrConstraint[DenseArrayBase[Any]] = cast(AttrConstraint[DenseArrayBase[Any]], DenseArrayBase.constr(i64))
INT: AttrConstraint[IntegerAttr[Any]] = cast(AttrConstraint[IntegerAttr[Any]], base(IntegerAttr))
BOOL: AttrConstraint[IntegerAttr[Any]] = cast(AttrConstraint[IntegerAttr[Any]], IntegerAttr.constr(i1))
"""`true` or `false` in the text, for a property with a default of i1."""
REAL: AttrConstraint[FloatAttr[Any]] = cast(AttrConstraint[FloatAttr[Any]], base(FloatAttr))
FLAG: AttrConstraint[UnitAttr] = base(UnitAttr)
TEXT: AttrConstraint[StringAttr] = base(StringAttr)


def integer(value: int) -> IntegerAttr[Any]:
    return IntegerAttr(value, i64)


def real(value: float) -> FloatAttr[Any]:
    """A float32 property value (ONNX's and TensorFlow's attributes are float32)."""
    return FloatAttr(value, f32)


def double(value: float) -> FloatAttr[Any]:
    return FloatAttr(value, f64)


def ints(value: DenseArrayBase[Any] | None, default: Sequence[int] = ()) -> tuple[int, ...]:
    """The numbers of a list property, `default` where it is absent."""
    return tuple(default) if value is None else tuple(value.get_values())


class NNOp(IRDLOperation, ABC):
    """Base of the value operations of `nn`: pure, with `origin`, inferred result types and the common text form."""

    traits = traits_def(Pure())

    origin = opt_prop_def(OriginAttr)

    KEYWORDS: ClassVar[Mapping[str, str]] = {}
    """The words that stand for properties in the text where these are not the properties' names."""
    DOUBLES: ClassVar[frozenset[str]] = frozenset()
    """The number properties that are float64; the others are float32."""

    @abstractmethod
    def infer(self) -> Sequence[Tensor]:
        """The result types that operands and properties imply, `?` where a size is not known.

        Raises VerifyException when the operands do not fit together.
        """

    def verify_(self) -> None:
        super().verify_()
        self.verify_operation()

    def verify_operation(self) -> None:
        """The declared result types must be compatible with the inferred ones. Overridden to check more."""
        for i, (result, inferred) in enumerate(zip(self.results, self.infer(), strict=True)):
            if not compatible(cast(Tensor, result.type), inferred):
                which = f"result #{i}" if len(self.results) > 1 else "result"
                raise VerifyException(f"{which} is declared {result.type}, operands and properties give {inferred}")

    @classmethod
    def make(
        cls,
        *operands: SSAValue | Operation | Sequence[SSAValue] | None,
        location: LocationAttr | None = None,
        name: str | None = None,
        result_types: Sequence[Attribute] | None = None,
        **properties: Any,
    ) -> Self:
        """Build the operation from Python values: numbers, tuples, strings, booleans become the properties' attributes.

        None, and a value that equals the default, mean absent; trailing optional operands may be left out. Result types are
        inferred unless given. `name` becomes the name hint of the first result. Raises VerifyException like `infer`.
        """
        definition = cls.get_irdl_definition()
        given: list[Any] = [*operands, *[None] * (len(definition.operands) - len(operands))]
        attributes = {key: attribute_of(cls, key, value) for key, value in properties.items()}
        count = cls.result_count(attributes)
        placeholder: list[Any] = [_PLACEHOLDER] * count
        wanted = placeholder if result_types is None else list(result_types)
        variadic = len(definition.results) == 1 and count != 1
        op = cls(operands=given, result_types=[wanted] if variadic else wanted, properties=attributes)
        if result_types is None:
            try:
                types = op.infer()
            except VerifyException:
                op.drop_all_references()  # what was not built uses nothing
                raise
            for result, type_ in zip(op.results, types, strict=True):
                set_type(result, type_)
        if location is not None:
            op.location = location
        if name is not None and op.results:
            op.results[0].name_hint = name_hint(name)
        return op

    @classmethod
    def result_count(cls, properties: dict[str, Attribute | None]) -> int:
        """How many results an operation with these properties has; one unless overridden."""
        return 1

    def with_operands(self, *, result_type: Attribute | None = None, **operands: SSAValue | None) -> Self:
        """A copy with the named operands replaced; properties, attributes, location and origin are kept."""
        names = [name for name, _ in self.get_irdl_definition().operands]
        if unknown := set(operands) - set(names):
            raise ValueError(f"{self.name} has no operand {', '.join(sorted(unknown))}")
        values: list[Any] = [operands.get(n, getattr(self, n)) for n in names]
        types = list(self.result_types) if result_type is None else [result_type]
        copy = type(self)(operands=values, result_types=types, properties=dict(self.properties))
        copy.attributes.update(self.attributes)
        copy.location = self.location
        copy.results[0].name_hint = self.results[0].name_hint
        return copy

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        properties = parse_properties(cls, parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        types = _parse_types(parser, len(operands or ()), cls.result_count(properties))
        if len(types.inputs) != len(operands or ()):
            parser.raise_error(f"{len(types.inputs)} operand types for {len(operands or ())} operands", start)
        values = [parser.resolve_operand(o, t) for o, t in zip(operands or (), types.inputs, strict=True)]
        return cls.from_parts(values, list(types.outputs), properties, attributes)

    @classmethod
    def from_parts(
        cls,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        properties: dict[str, Attribute | None],
        attributes: dict[str, Attribute],
    ) -> Self:
        """Build from a flat list of operands: optional ones are the last, at most one is variadic."""
        definition = cls.get_irdl_definition()
        groups: list[Any] = []
        rest = list(operands)
        for i, (_, operand) in enumerate(definition.operands):
            following = len(definition.operands) - i - 1
            if isinstance(operand, OptOperandDef):
                groups.append(rest.pop(0) if rest else None)
            elif isinstance(operand, VarOperandDef):
                size = len(rest) - following
                groups.append(rest[:size])
                del rest[:size]
            else:
                groups.append(rest.pop(0) if rest else None)
        groups += rest
        variadic = len(definition.results) == 1 and len(result_types) != 1
        types: list[Any] = [list(result_types)] if variadic else list(result_types)
        return cls(operands=groups, result_types=types, properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        if self.operands:
            printer.print_string(" ")
            printer.print_list(self.operands, printer.print_ssa_value)
        print_properties(self, printer)
        if self.attributes:
            printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        types = (*self.operand_types, *self.result_types)
        if len(self.result_types) == 1 and self.operands and all(t == types[0] for t in types[1:]):
            printer.print_attribute(types[0])
        else:
            printer.print_attribute(FunctionType.from_lists(self.operand_types, self.result_types))


_PLACEHOLDER = TensorType(f32, ())


def set_type(value: SSAValue, type_: Attribute) -> None:
    """Refine the type of a value in place; its uses see the new type."""
    value._type = type_  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]


def name_hint(name: str) -> str | None:
    """A legal SSA name made of `name`: other characters become `_`, a leading digit gets one in front."""
    hint = "".join(c if c.isascii() and (c.isalnum() or c in "_$.-") else "_" for c in name).strip("_")
    hint = f"_{hint}" if hint[:1].isdigit() else hint
    return hint if SSAValue.is_valid_name(hint) else None


def attribute_of(op: type[IRDLOperation], name: str, value: Any) -> Attribute | None:
    """The attribute for a Python value of property `name`; None for absent."""
    if value is None or isinstance(value, Attribute):
        return cast("Attribute | None", value)
    if (kind := _kinds(op).get(name)) is None:
        raise ValueError(f"{op.name} has no property {name}")
    if kind is UnitAttr:
        return UnitAttr() if value else None
    if kind is DenseArrayBase:
        return DenseArrayBase.from_list(i64, [int(v) for v in value])
    if kind is IntegerAttr:
        return IntegerAttr.from_bool(bool(value)) if _is_bool(op, name) else integer(int(value))
    if kind is FloatAttr:
        return FloatAttr(float(value), _float_type(op, name))
    if kind is StringAttr:
        return StringAttr(value)
    if kind is RealsAttr:
        return RealsAttr(tuple(float(v) for v in value))
    if issubclass(kind, EnumAttribute):
        return cast(Any, kind)(kind.enum_type(value))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    raise TypeError(f"{op.name}: property {name} takes an attribute, not {value!r}")


@cache
def _kinds(op: type[IRDLOperation]) -> dict[str, type[Attribute]]:
    """The attribute class of each property."""
    kinds: dict[str, type[Attribute]] = {}
    for name, definition in op.get_irdl_definition().properties.items():
        bases = definition.constr.get_bases()
        if bases is None or len(bases) != 1:
            raise TypeError(f"{op.name}: property {name} is of no single class")
        kinds[name] = next(iter(bases))
    return kinds


def _default(op: type[IRDLOperation], name: str) -> Attribute | None:
    return op.get_irdl_definition().properties[name].default_value


def _is_bool(op: type[IRDLOperation], name: str) -> bool:
    default = _default(op, name)
    return isinstance(default, IntegerAttr) and cast("IntegerAttr[Any]", default).type == i1


def _float_type(op: type[IRDLOperation], name: str) -> Any:
    """float64 for the properties that a class lists in `doubles`, else float32."""
    return f64 if issubclass(op, NNOp) and name in op.DOUBLES else f32


def parse_properties(op: type[IRDLOperation], parser: Parser) -> dict[str, Attribute | None]:
    """Keywords and values up to the first word that names no property."""
    kinds = _kinds(op)
    keywords = {_keyword(op, name): name for name in kinds}
    properties: dict[str, Attribute | None] = {}
    while (word := parser.parse_optional_keyword_in(keywords)) is not None:
        name = keywords[word]
        if name in properties:
            parser.raise_error(f"'{word}' is given twice")
        properties[name] = _parse_value(op, name, kinds[name], parser)
    return properties


@cache
def _keyword(op: type[IRDLOperation], name: str) -> str:
    if name == "origin":
        return "from"
    return op.KEYWORDS.get(name, name) if issubclass(op, NNOp) else name


def _parse_value(op: type[IRDLOperation], name: str, kind: type[Attribute], parser: Parser) -> Attribute:
    if kind is UnitAttr:
        return UnitAttr()
    if kind is DenseArrayBase:
        values = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
        )
        return DenseArrayBase.from_list(i64, values)
    if kind is IntegerAttr:
        if _is_bool(op, name):
            return IntegerAttr.from_bool(parser.parse_boolean())
        return integer(parser.parse_integer(allow_boolean=False))
    if kind is FloatAttr:
        type_ = _float_type(op, name)
        return FloatAttr(parse_f64(parser) if type_ == f64 else parse_f32(parser), type_)
    if kind is StringAttr:
        return StringAttr(parse_text(parser, name))
    if issubclass(kind, EnumAttribute):
        enum = cast("type[Enum]", kind.enum_type)  # pyright: ignore[reportUnknownMemberType]
        return cast(Any, kind)(parser.parse_str_enum(cast(Any, enum)))
    if issubclass(kind, ParametrizedAttribute) and kind.name.startswith(("nn.", "ascend.")):
        return kind.new(kind.parse_parameters(parser))
    if issubclass(kind, Data) and kind.name.startswith(("nn.", "ascend.")):
        return cast("type[Data[Any]]", kind).new(cast("type[Data[Any]]", kind).parse_parameter(parser))
    return parser.parse_attribute()


def print_properties(op: IRDLOperation, printer: Printer) -> None:
    cls = type(op)
    for name in _order(cls):
        value = op.properties.get(name)
        if value is None or value == _default(cls, name):
            continue
        printer.print_string(f" {_keyword(cls, name)}")
        _print_value(value, printer)


@cache
def _order(op: type[IRDLOperation]) -> tuple[str, ...]:
    """The class's own order, with `origin` last."""
    names = [name for name in _kinds(op) if name != "origin"]
    return (*names, "origin") if "origin" in _kinds(op) else tuple(names)


def _print_value(value: Attribute, printer: Printer) -> None:
    if isinstance(value, UnitAttr):
        return
    printer.print_string(" ")
    match value:
        case DenseArrayBase():
            printer.print_string(f"[{', '.join(str(v) for v in value.get_values())}]")  # pyright: ignore[reportUnknownVariableType]
        case IntegerAttr():
            printer.print_string(str(bool(value.value.data)).lower() if value.type == i1 else str(value.value.data))
        case FloatAttr():
            text = f64_text if value.type == f64 else f32_text
            printer.print_string(text(value.value.data))
        case StringAttr():
            printer.print_string_literal(value.data)
        case EnumAttribute():
            printer.print_string(str(cast(Any, value).data.value))
        case ParametrizedAttribute() if value.name.startswith(("nn.", "ascend.")):
            value.print_parameters(printer)
        case Data() if value.name.startswith(("nn.", "ascend.")):
            cast("Data[Any]", value).print_parameter(printer)
        case _:
            printer.print_attribute(value)


def _parse_types(parser: Parser, operands: int, results: int) -> FunctionType:
    """A function type, or one type that all operands and the result have."""
    if (function := parser.parse_optional_function_type()) is not None:
        return function
    type_ = parser.parse_type()
    return FunctionType.from_lists([type_] * operands, [type_] * results)


__all__ = [
    "ANY_TENSOR",
    "BOOL",
    "FLAG",
    "INT",
    "INTS",
    "REAL",
    "TEXT",
    "NNOp",
    "attribute_of",
    "double",
    "integer",
    "ints",
    "name_hint",
    "real",
    "set_type",
]
