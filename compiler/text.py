"""Reading and writing module text: xDSL's parser and printer with the gaps that matter here closed.

The parser gives every operation a location and reads non-ASCII strings as strings; the printer writes constants so that
they re-parse bit-exactly and decides where arrays go (`WeightSink`).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    Float16Type,
    Float32Type,
    Float64Type,
    IntAttr,
    LocationAttr,
    ModuleOp,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Operation
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.mlir_lexer import MLIRTokenKind, StringLiteral

from .diagnostics import CompileError
from .weights import Weight, WeightError, side_file_of, write_side_file


class ModuleParser(Parser):
    """xDSL's parser; operations without `loc(...)` get their place in the file, strings may hold any UTF-8."""

    def __init__(self, ctx: Context, text: str, name: str = "<stdin>", line_offset: int = 0):
        super().__init__(ctx, text, name)
        self._newlines = [i for i, c in enumerate(text) if c == "\n"]
        self._line_offset = line_offset
        self._name = name

    def parse_operation(self) -> Operation:
        start = self._current_token.span.start
        op = super().parse_operation()
        if isinstance(op.location, UnknownLoc):
            op.location = self._place(start)
        return op

    def _place(self, position: int) -> LocationAttr:
        line = bisect_right(self._newlines, position - 1)
        column = position - (self._newlines[line - 1] + 1 if line else 0)
        return FileLineColLoc(StringAttr(self._name), IntAttr(line + 1 + self._line_offset), IntAttr(column + 1))

    def parse_optional_str_literal(self) -> str | None:
        return parse_optional_text(self)

    def _parse_optional_string_attr(self) -> StringAttr | None:
        if self._current_token.kind == MLIRTokenKind.BYTES_LIT:
            text = parse_optional_text(self)
            return None if text is None else StringAttr(text)
        return super()._parse_optional_string_attr()


def parse_optional_text(parser: Parser) -> str | None:
    """A string literal of any UTF-8 characters; xDSL alone reads an escaped non-ASCII string as bytes."""
    token = parser._current_token  # pyright: ignore[reportPrivateUsage]
    if token.kind not in (MLIRTokenKind.STRING_LIT, MLIRTokenKind.BYTES_LIT):
        return None
    try:
        text = StringLiteral.from_span(token.span).bytes_contents.decode()
    except UnicodeDecodeError:
        return None
    parser._consume_token(token.kind)  # pyright: ignore[reportPrivateUsage]
    return text


@dataclass
class WeightSink:
    """Collects the arrays that a module text refers to, under keys that are unique within one side file."""

    arrays: dict[str, Weight] = field(default_factory=dict[str, Weight])
    _keys: dict[Weight, str] = field(default_factory=dict[Weight, str])

    def key_of(self, weight: Weight) -> str:
        if (key := self._keys.get(weight)) is not None:
            return key
        key, n = weight.key, 0
        while key in self.arrays:
            n += 1
            key = f"{weight.key}.{n}"
        self.arrays[key] = weight
        self._keys[weight] = key
        return key


@dataclass(eq=False, repr=False)
class ModulePrinter(Printer):
    """xDSL's printer with exact constants. With a `sink`, arrays print as keys and are left to whoever writes the sink."""

    sink: WeightSink | None = None

    def print_attribute(self, attribute: Attribute) -> None:
        if isinstance(attribute, DenseIntOrFPElementsAttr):
            print_dense(self, attribute)
        else:
            super().print_attribute(attribute)


_DECIMAL_LIMIT = 64


def print_dense(printer: Printer, attribute: DenseIntOrFPElementsAttr) -> None:
    """`dense<...> : type`, in decimals where each element survives them, else as a string of bytes.

    xDSL prints inf, NaN and large floats as hex numbers that its parser reads back as integers.
    """
    element = attribute.get_element_type()
    if not isinstance(element, Float16Type | BFloat16Type | Float32Type | Float64Type):
        Printer.print_attribute(printer, attribute)
        return
    if len(attribute) <= _DECIMAL_LIMIT and _decimals_survive(attribute):
        Printer.print_attribute(printer, attribute)
        return
    printer.print_string(f'dense<"0x{attribute.data.data.hex().upper()}"> : ')
    printer.print_attribute(attribute.type)


def _decimals_survive(attribute: DenseIntOrFPElementsAttr) -> bool:
    element = attribute.get_element_type()
    probe = Printer(StringIO())
    for value in attribute.iter_values():
        probe.stream = text = StringIO()
        probe.print_float(value, element)  # pyright: ignore[reportArgumentType]
        printed = text.getvalue()
        if "x" in printed or element.pack((float(printed),)) != element.pack((value,)):  # pyright: ignore[reportArgumentType]
            return False
    return True


def parse_module(ctx: Context, text: str, name: str = "<stdin>", line_offset: int = 0) -> ModuleOp:
    """Parse module text. `name` is its file: locations carry it, and its side file is looked up beside it.

    Raises CompileError, located at line and column.
    """
    parser = ModuleParser(ctx, text, name, line_offset)
    try:
        return parser.parse_module()
    except ParseError as e:
        line, column = _line_and_column(text, e.span.start)
        where = f"{name}:{line + line_offset}:{column}"
        raise CompileError(e.msg.strip() or "syntax error", where=where) from None
    except VerifyException as e:
        line, column = _line_and_column(text, parser.pos)
        raise CompileError(str(e).splitlines()[0], where=f"{name}:{line + line_offset}:{column}") from None


def _line_and_column(text: str, position: int) -> tuple[int, int]:
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1


def module_text(
    module: ModuleOp, *, generic: bool = False, locations: bool = False, sink: WeightSink | None = None
) -> str:
    """The module as text. Without a sink, arrays that have a file keep the reference and the others print inline as hex."""
    stream = StringIO()
    print_module(module, stream, generic=generic, locations=locations, sink=sink)
    return stream.getvalue()


def print_module(
    module: ModuleOp, stream: IO[str], *, generic: bool = False, locations: bool = False, sink: WeightSink | None = None
) -> None:
    printer = ModulePrinter(stream, print_generic_format=generic, print_debuginfo=locations, sink=sink)
    printer.print_op(module)
    stream.write("\n")


def write_module(module: ModuleOp, path: Path, *, generic: bool = False, locations: bool = False) -> list[Path]:
    """Write `path` and, when the module holds arrays, `<stem>.safetensors` beside it with the live arrays only.

    Returns the files written. Raises CompileError when an array cannot be read.
    """
    from .files import replacing

    sink = WeightSink()
    text = module_text(module, generic=generic, locations=locations, sink=sink)
    side = side_file_of(path)
    try:
        arrays = {key: weight.array for key, weight in sink.arrays.items()}
    except WeightError as e:
        raise CompileError(str(e), where=str(path)) from None
    if arrays:
        write_side_file(side, arrays)
    with replacing(path) as stream:
        stream.write(text.encode())
    return [path, side] if arrays else [path]
