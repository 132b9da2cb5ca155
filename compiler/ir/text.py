"""Reads and writes module text: xDSL's parser and printer with the gaps closed that matter here.

The parser gives every operation a location and reads non-ASCII strings as strings; the printer writes constants so that
they re-parse bit-exactly and decides where arrays go (`WeightSink`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    Float32Type,
    Float64Type,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.parser import AttrParser, UnresolvedOperand
from xdsl.parser.core import ForwardDeclaredValue
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Span

from ..support.diagnostics import CompileError, first_line, op_error
from ..support.files import refuse_pipe, replacing, replacing_all
from .undocumented import ExactParser, parse_optional_text
from .unique_names import Names
from .weights import Weight, WeightError, open_side_file, side_file_of, stored_key, write_arrays

if TYPE_CHECKING:
    from .array import Array

Dense: TypeAlias = DenseIntOrFPElementsAttr[Any]


class ModuleParser(ExactParser):
    """Reads modules, with the weights that their text refers to."""

    def __init__(self, ctx: Context, text: str, name: str = "<stdin>", line_offset: int = 0):
        super().__init__(ctx, text, name, line_offset)
        self.weights: list[Weight] = []
        """The weights that the text refers to in the file next to it."""
        self._used_early: dict[str, Span[str]] = {}

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """Like xDSL, but blank text is an empty module, and an undefined value is reported at its first use."""
        if self.at_end:
            empty = ModuleOp([])
            empty.location = self.place(0)
            return empty
        try:
            module = super().parse_module(allow_implicit_module)
            if self._used_early:
                _check_defined(module)
            return module
        except ParseError as e:
            undefined = [self._used_early[name] for name in self.forward_ssa_references]
            if not undefined or "not defined" not in e.msg:
                raise
            self.raise_error(f"{undefined[0].text} is used but not defined", undefined[0])

    def resolve_operand(self, operand: UnresolvedOperand, type: Attribute) -> SSAValue:
        if operand.operand_name not in self.ssa_values:
            self._used_early.setdefault(operand.operand_name, operand.span)
        return super().resolve_operand(operand, type)


def _check_defined(module: ModuleOp) -> None:
    """Raises CompileError for an operand whose name is defined in another region only, which xDSL lets pass."""
    for op in module.walk():
        if any(isinstance(value, ForwardDeclaredValue) for value in op.operands):
            raise op_error(op, "uses a value that is not defined before it")


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

    With a `sink`, arrays print as keys, and the caller writes the sink. Raises CompileError at the operation whose
    array cannot be read.
    """

    def __init__(self, stream: IO[str], generic: bool = False, locations: bool = False, sink: WeightSink | None = None):
        super().__init__(stream, print_generic_format=generic, print_debuginfo=locations)
        self.sink = sink

    def print_op(self, op: Operation) -> None:
        try:
            super().print_op(op)
        except WeightError as e:
            raise op_error(op, str(e)) from None

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


def read_text(path: Path) -> str:
    """The text of a file. Raises CompileError if it cannot be read, or is not UTF-8."""
    refuse_pipe(path)
    try:
        return path.read_text("utf-8")
    except OSError as e:
        raise CompileError(f"cannot be read: {e.strerror}", where=str(path)) from None
    except UnicodeDecodeError:
        raise CompileError("is not UTF-8 text", where=str(path)) from None


def parse_module(ctx: Context, text: str, name: str = "<stdin>", line_offset: int = 0) -> ModuleOp:
    """Parses module text. `name` is its file: locations contain it, and its side file is looked up next to it.

    Raises CompileError, located at line and column.
    """
    try:
        parser = ModuleParser(ctx, text, name, line_offset)
    except ParseError as e:
        raise CompileError(first_line(e.msg), where=_place(text, e.span.start, name, line_offset)) from None
    try:
        module = parser.parse_module()
        _bind(parser.weights, module.attributes.pop(ARRAYS, None), name)
        return module
    except ParseError as e:
        raise CompileError(first_line(e.msg), where=_place(text, e.span.start, name, line_offset)) from None
    except RecursionError:
        raise CompileError("is nested too deeply", where=_place(text, parser.pos, name, line_offset)) from None
    except (VerifyException, ValueError, OverflowError) as e:
        raise CompileError(first_line(e), where=_place(text, parser.pos, name, line_offset)) from None


ARRAYS = "nn.arrays"
"""The attribute of a module text with the hash of the file next to it. A module in memory does not have it."""
_HASH = "sha256:"
_UNKNOWN = f"{_HASH}{'0' * 64}"


def _bind(weights: Sequence[Weight], stated: Attribute | None, name: str) -> None:
    """Connects weights to the side file of a text, if the text has its hash. Raises CompileError if it is another file's."""
    if stated is None or not weights:
        return
    side = side_file_of(name)
    if not isinstance(stated, StringAttr) or not stated.data.startswith(_HASH):
        raise CompileError(f"{ARRAYS} must be a text that begins with {_HASH}", where=name)
    if not side.exists():
        return  # an error for whoever uses the arrays
    try:
        file = open_side_file(side)
    except WeightError as e:
        raise CompileError(str(e).removeprefix(f"{side}: "), where=str(side)) from None
    if file.digest != stated.data.removeprefix(_HASH):
        message = f"does not belong to {name}: its contents are not those that the text was written with"
        hint = f"write the module again; without the attribute {ARRAYS} the text accepts any arrays"
        raise CompileError(message, where=str(side), hint=hint)
    for weight in weights:
        weight.read_from(file)


def _place(text: str, position: int, name: str, line_offset: int) -> str:
    before = text[:position]
    column = position - (before.rfind("\n") + 1) + 1
    return f"{name}:{before.count(chr(10)) + 1 + line_offset}:{column}"


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
    """Writes the `module_text` and a line break to a stream."""
    printer = ModulePrinter(stream, generic, locations, sink)
    printer.print_op(module)
    stream.write("\n")


class ReadableModule(ModuleOp):
    """A module that Python shows in a readable form: `str` gives the text with the names of arrays, `repr` one line."""

    @staticmethod
    def of(module: ModuleOp) -> ReadableModule:
        """A readable module that takes over the operations of another one, which is empty afterwards."""
        body = module.body
        module.detach_region(body)
        readable = ReadableModule(body, module.attributes, module.sym_name)
        readable.location = module.location
        return readable

    def __str__(self) -> str:
        return module_text(self, sink=WeightSink())

    def __repr__(self) -> str:
        return f"<module of {sum(1 for _ in self.walk())} operations>"


_BYTES = re.compile(r'"0x([0-9A-F]+)"')


def elided(text: str, limit: int) -> tuple[str, int]:
    """Module text to look at, with the size of each array of more than `limit` bytes in place of its bytes; and their number.

    Such text cannot be parsed.
    """
    count = 0

    def shown(match: re.Match[str]) -> str:
        nonlocal count
        size = len(match[1]) // 2
        if size <= limit:
            return match[0]
        count += 1
        return f'"{size} bytes"'

    return _BYTES.sub(shown, text), count


def write_module(module: ModuleOp, path: Path, *, generic: bool = False, locations: bool = False) -> list[Path]:
    """Writes `path` and, if the module has arrays, `<stem>.safetensors` in the same folder with only the live arrays.

    Writes both or neither. A device or a pipe gets the whole text, arrays inline. Returns the files written. Raises CompileError
    if an array cannot be read or a file cannot be written.
    """

    def text(sink: WeightSink | None = None) -> str:
        return module_text(module, generic=generic, locations=locations, sink=sink)

    sink = WeightSink()
    if path.exists() and not path.is_file():
        written = text()
    else:
        module.attributes[ARRAYS] = StringAttr(_UNKNOWN)  # the hash follows from the arrays, which the printer finds
        try:
            written = text(sink)
        finally:
            del module.attributes[ARRAYS]
        if not sink.arrays:
            written = text(sink)
    if not sink.arrays:
        with replacing(path) as stream:
            stream.write(written.encode())
        return [path]
    side = side_file_of(path)
    with replacing_all(side, path) as (arrays, stream):
        digest = write_arrays(arrays, sink.arrays)
        stream.write(written.replace(_UNKNOWN, f"{_HASH}{digest}", 1).encode())
    return [path, side]
