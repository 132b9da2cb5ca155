"""Reads and writes module text: xDSL's parser and printer with the gaps closed that matter here.

The parser gives every operation a location and reads non-ASCII strings as strings; the printer writes constants so that
they re-parse bit-exactly and decides where arrays go (`WeightSink`).
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    UNKNOWN_LOC,
    AnyFloat,
    ComplexType,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    Float32Type,
    Float64Type,
    IndexType,
    IntAttr,
    IntegerType,
    LocationAttr,
    ModuleOp,
    RankedStructure,
    StringAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute
from xdsl.irdl import base
from xdsl.parser import AttrParser, Parser, ParserState, UnresolvedOperand
from xdsl.parser.core import ForwardDeclaredValue
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind, StringLiteral

from ..support.diagnostics import CompileError, first_line, op_error
from ..support.files import refuse_pipe, replacing, replacing_all
from ..support.limits import MOST_EXPANDED
from .name_hints import name_hint
from .unique_names import Names
from .weights import Weight, WeightError, open_side_file, side_file_of, stored_key, write_arrays

if TYPE_CHECKING:
    from .array import Array

Dense: TypeAlias = DenseIntOrFPElementsAttr[Any]


class _Lexer(MLIRLexer):
    """Replaces xDSL's expression for strings, which needs exponential time for an unterminated string."""

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')


_LARGEST_SPLAT = 1 << 24
"""The maximum number of elements that one number in the text may represent."""


_WIDEST_INTEGER = (1 << 24) - 1
"""Bits of the widest integer type of upstream MLIR. The range of a wider one takes seconds to compute."""
_WIDEST_STORED = 64
"""Bits of the widest integers that xDSL packs into bytes."""


class ModuleParser(Parser):
    """xDSL's parser; operations without `loc(...)` get their place in the file, strings may hold any UTF-8.

    A hex number in a list of floats is the bit pattern of a float, as in upstream MLIR; xDSL reads it as an integer.
    """

    def __init__(self, ctx: Context, text: str, name: str = "<stdin>", line_offset: int = 0):
        super().__init__(ctx, "", name)
        self._parser_state = ParserState(_Lexer(Input(text, name)))
        self._newlines = [m.start() for m in re.finditer("\n", text)]
        self._line_offset = line_offset
        self._name = name
        self.weights: list[Weight] = []
        """The weights that the text refers to in the file next to it."""
        self._used_early: dict[str, Span[str]] = {}
        self.attribute_aliases = _Aliases(self._expand)
        self._alias_sizes: dict[str, int] = {}
        self._expanded = 0

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """Like xDSL, but blank text is an empty module, and an undefined value is reported at its first use."""
        if self.at_end:
            empty = ModuleOp([])
            empty.location = self._place(0)
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

    def _parse_alias_def(self) -> None:
        name, start, before = self._current_token.text, self.pos, self._expanded
        super()._parse_alias_def()
        self._alias_sizes[name] = self.pos - start + self._expanded - before

    def _expand(self, alias: str) -> None:
        """Counts the text that an alias stands for. Raises ParseError if all of them stand for much more than there is."""
        self._expanded += self._alias_sizes[alias]
        if self._expanded > MOST_EXPANDED + _ALIASED * len(self.lexer.input.content):
            self.raise_error("takes too much memory when its aliases are expanded")

    def resolve_operand(self, operand: UnresolvedOperand, type: Attribute) -> SSAValue:
        if operand.operand_name not in self.ssa_values:
            self._used_early.setdefault(operand.operand_name, operand.span)
        return super().resolve_operand(operand, type)

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span) -> None:
        """Like xDSL, which would turn a name such as `%_1` into a hint that it rejects later."""
        super()._register_ssa_definition(name, values, span)
        hint = None if name.isdigit() else name_hint(name)
        for value in values:
            value.name_hint = hint

    @property
    def at_end(self) -> bool:
        """Whether only blanks and comments are left."""
        return self._current_token.kind == MLIRTokenKind.EOF

    def parse_operation(self) -> Operation:
        start = self._current_token.span.start
        op = super().parse_operation()
        if op.location is UNKNOWN_LOC:  # not for an explicit `loc(unknown)`
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

    def _parse_optional_integer_or_float_type(self) -> TypeAttribute | None:
        start = self.pos
        found = super()._parse_optional_integer_or_float_type()
        if isinstance(found, IntegerType) and cast(IntegerType, found).bitwidth > _WIDEST_INTEGER:
            self.raise_error(f"an integer has at most {_WIDEST_INTEGER} bits", start, self.pos)
        return cast("TypeAttribute | None", found)

    def _parse_tensor_literal_element(self) -> AttrParser._TensorLiteralElement:
        element = super()._parse_tensor_literal_element()
        return _HexElement(element.is_negative, element.value, element.span) if _is_hex(element.span.text) else element

    def _parse_dense_literal_type(self) -> RankedStructure[Any]:
        start = self.pos
        type_ = cast("RankedStructure[Any]", self.expect(self.parse_optional_type, "dense attribute must be typed"))
        if not _DENSE_TYPE.verifies(type_):
            self.raise_error("tensor of integers or floats expected", start, self.pos)
        element = type_.get_element_type()
        if isinstance(element, IntegerType) and element.bitwidth > _WIDEST_STORED:
            self.raise_error(f"a constant of {element} cannot be stored", start, self.pos)
        if DYNAMIC_INDEX in type_.get_shape():
            self.raise_error("a dense attribute has a static shape", start, self.pos)
        if math.prod(type_.get_shape()) > max(_LARGEST_SPLAT, len(self.lexer.input.content)):
            self.raise_error("too many elements for a constant in the text", start, self.pos)
        return type_


class _Aliases(dict[str, Attribute]):
    """Attributes and types by the names of their aliases; `use` is called with each name that is looked up."""

    def __init__(self, use: Callable[[str], None]):
        super().__init__()
        self._use = use

    def __getitem__(self, name: str) -> Attribute:
        self._use(name)
        return super().__getitem__(name)


_ALIASED = 16
"""How many characters an alias may stand for, for each in the text: locations and types are long, their aliases are not."""
_DENSE_TYPE = base(RankedStructure[IntegerType | IndexType | AnyFloat | ComplexType])
"""The types that a dense attribute can have. xDSL's parser derives this anew for each one, which takes longer than all the rest.
"""


def _check_defined(module: ModuleOp) -> None:
    """Raises CompileError for an operand whose name is defined in another region only, which xDSL lets pass."""
    for op in module.walk():
        if any(isinstance(value, ForwardDeclaredValue) for value in op.operands):
            raise op_error(op, "uses a value that is not defined before it")


class _HexElement(AttrParser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage]
    """A number written in hex: an integer, or the bits of a float."""

    def to_type(self, parser: AttrParser, type: Any) -> Any:
        if not isinstance(type, AnyFloat):
            return super().to_type(parser, type)
        if self.is_negative or cast(int, self.value) >= 1 << 8 * type.compile_time_size:
            parser.raise_error(f"hex number is not a bit pattern of {type}", self.span)
        return type.unpack(cast(int, self.value).to_bytes(type.compile_time_size, "little"), 1)[0]


def _is_hex(text: str) -> bool:
    return text.lstrip("-")[:2].lower() == "0x"


def parse_optional_text(parser: AttrParser) -> str | None:
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


@dataclass(eq=False, repr=False)
class ModulePrinter(Printer):
    """xDSL's printer with exact constants and readable names.

    With a `sink`, arrays print as keys, and the caller writes the sink. Raises CompileError at the operation whose
    array cannot be read.
    """

    sink: WeightSink | None = None

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
        raise CompileError(first_line(str(e)), where=_place(text, parser.pos, name, line_offset)) from None


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
    printer = ModulePrinter(stream, print_generic_format=generic, print_debuginfo=locations, sink=sink)
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
