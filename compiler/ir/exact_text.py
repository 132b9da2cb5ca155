"""xDSL's parser and printer with the gaps closed that matter here, and the arrays that a text refers to.

The parser gives every operation a location and reads non-ASCII strings as strings; the printer writes constants so that
they re-parse bit-exactly and decides where arrays go (`WeightSink`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from io import StringIO
from typing import IO, TYPE_CHECKING, Any, TypeAlias, cast

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr, Float32Type, Float64Type, ModuleOp
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import AttrParser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Span

from .undocumented import ExactParser, parse_optional_text
from .unique_names import Names
from .weights import Weight, stored_key

if TYPE_CHECKING:
    from .array import Array

Dense: TypeAlias = DenseIntOrFPElementsAttr[Any]


class ModuleParser(ExactParser):
    """Reads modules, with the weights that their text refers to."""

    def __init__(self, ctx: Context, text: str, name: str = "<stdin>", line_offset: int = 0):
        super().__init__(ctx, text, name, line_offset)
        self.weights: list[Weight] = []
        """The weights that the text refers to in the file next to it."""
        self.used_early: dict[str, Span[str]] = {}
        """The first uses of values whose definitions had not been read yet."""

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """Like xDSL, but blank text is an empty module, and an undefined value is reported at its first use."""
        if self.at_end:
            empty = ModuleOp([])
            empty.location = self.place(0)
            return empty
        try:
            return super().parse_module(allow_implicit_module)
        except ParseError as e:
            undefined = [self.used_early[name] for name in self.forward_ssa_references]
            if not undefined or "not defined" not in e.msg:
                raise
            self.raise_error(f"{undefined[0].text} is used but not defined", undefined[0])

    def resolve_operand(self, operand: UnresolvedOperand, type: Attribute) -> SSAValue:
        if operand.operand_name not in self.ssa_values:
            self.used_early.setdefault(operand.operand_name, operand.span)
        return super().resolve_operand(operand, type)


def parse_text(parser: AttrParser, what: str) -> str:
    """Like `parse_optional_text`, but its absence is an error that `what` was expected."""
    text = parse_optional_text(parser)
    return parser.raise_error(f"{what} expected, a string literal") if text is None else text


@dataclass
class WeightSink:
    """Collects the arrays that a module text refers to, under keys that are unique within one side file."""

    arrays: dict[str, Array] = field(default_factory=dict[str, "Array"])
    _keys: dict[Weight, str] = field(default_factory=dict[Weight, str])
    _names: Names = field(default_factory=lambda: Names(separator=".", unnamed=""))

    def key_of(self, weight: Weight, array: Array) -> str:
        """The key under which the array of a weight is stored."""
        if (key := self._keys.get(weight)) is not None:
            return key
        key = self._names.unique(stored_key(weight.key))
        self.arrays[key] = array
        self._keys[weight] = key
        return key


class ModulePrinter(Printer):
    """xDSL's printer with exact constants and readable names.

    With a `sink`, arrays print as keys, and the caller writes the sink. Raises WeightError if an array cannot be read.
    """

    def __init__(self, stream: IO[str], generic: bool = False, locations: bool = False, sink: WeightSink | None = None):
        super().__init__(stream, print_generic_format=generic, print_debuginfo=locations)
        self.sink = sink

    def print_attribute(self, attribute: Attribute) -> None:
        if isinstance(attribute, DenseIntOrFPElementsAttr):
            print_dense(self, cast(Dense, attribute))
        else:
            super().print_attribute(attribute)

    def print_string_literal(self, string: str) -> None:
        """Prints non-ASCII letters unchanged, which every MLIR parser reads; escapes only characters that are not printable."""
        self.print_string(f'"{"".join(map(_escaped, string))}"')

    def print_float(self, value: float, type: AnyFloat) -> None:
        """Like xDSL, but a finite number is always a decimal; xDSL prints some large ones as hex."""
        digits = _DIGITS.get(type)
        if digits is None or not math.isfinite(value) or "." in f"{value:.{digits}g}":
            super().print_float(value, type)
        else:
            self.print_string(f"{value:.6e}" if float(f"{value:.5e}") == value else f"{value:.{digits - 1}e}")


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return f"\\{letter}"
    return (
        letter
        if letter.isprintable()
        else "".join(f"\\{byte:02X}" for byte in letter.encode(errors="backslashreplace"))
    )


_DIGITS: dict[Attribute, int] = {Float32Type(): 9, Float64Type(): 17}
"""The number of significant digits that distinguish all numbers of a type."""

_DECIMAL_LIMIT = 64


def print_dense(printer: Printer, attribute: Dense) -> None:
    """`dense<...> : type`; floats as decimals if they are few and finite, otherwise as a string of bytes.

    xDSL prints inf, NaN and large floats as hex numbers that its parser reads back as integers, and regards 0.0 and -0.0 as
    the same.
    """
    element = attribute.get_element_type()
    if isinstance(element, AnyFloat) and not _decimals_survive(attribute):
        printer.print_string(f'dense<"0x{attribute.data.data.hex().upper()}"> : ')
        printer.print_attribute(attribute.type)
        return
    text = StringIO()
    Printer.print_attribute(ModulePrinter(text), attribute)
    printer.print_string(text.getvalue())


def _decimals_survive(attribute: Dense) -> bool:
    data, count = attribute.data.data, len(attribute)
    if count == 0:
        return True
    first = data[: len(data) // count]
    if data == first * count:
        values = cast("tuple[float, ...]", attribute.get_element_type().unpack(first, 1))
    elif count > _DECIMAL_LIMIT or attribute.is_splat():
        return False
    else:
        values = cast("tuple[float, ...]", attribute.get_values())
    return all(map(math.isfinite, values))
