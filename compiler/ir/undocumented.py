"""The parts of xDSL that its documentation does not promise, each with the reason; nothing else uses a name that begins with `_`.

`make test-versions` runs them with the oldest and the newest xDSL.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    UNKNOWN_LOC,
    AnyFloat,
    ComplexType,
    FileLineColLoc,
    IndexType,
    IntAttr,
    IntegerType,
    LocationAttr,
    RankedStructure,
    StringAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute
from xdsl.ir.core import OpOperands, SSAValues
from xdsl.irdl import base
from xdsl.parser import AttrParser, Parser, ParserState
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind, StringLiteral

from .name_hints import name_hint

# -- values and operands -----------------------------------------------------------------------------------------------


def set_type(value: SSAValue, type_: Attribute) -> None:
    """Refines the type of a value in place; its uses see the new type. xDSL replaces the value instead, with all its uses."""
    value._type = type_  # pyright: ignore[reportPrivateUsage]


_MANY = 16
"""Fewest operands that are kept in a list: fewer are copied in less time than a list of them takes."""


class _Many(list[SSAValue]):
    """Operands as xDSL's `SSAValues`, but one can be replaced."""

    @property
    def types(self) -> tuple[Attribute, ...]:
        return tuple(value.type for value in self)

    def __getitem__(self, index: Any) -> Any:
        return SSAValues([*self][index]) if isinstance(index, slice) else super().__getitem__(int(index))

    def __eq__(self, other: object) -> bool:
        return tuple(self) == (tuple(other) if isinstance(other, _Many) else other)

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return hash(tuple(self))


def _replace(self: OpOperands, idx: int, operand: SSAValue) -> None:
    op: Any = self._op  # pyright: ignore[reportPrivateUsage]
    if len(op._operands) < _MANY:
        _copy(self, idx, operand)
        return
    if not isinstance(op._operands, _Many):
        op._operands = _Many(op._operands)
    use = op._operand_uses[idx]
    op._operands[idx].remove_use(use)
    operand.add_use(use)
    op._operands[idx] = operand


_copy = OpOperands.__setitem__
OpOperands.__setitem__ = _replace
"""xDSL copies all operands of an operation when one is replaced, so that replacing all n takes n * n steps: importing this
module gives its view of operands an assignment that keeps many (Concat, the results of a graph) in a list.
"""

# -- parsers -----------------------------------------------------------------------------------------------------------


class _Lexer(MLIRLexer):
    """Replaces xDSL's expression for strings, which needs exponential time for an unterminated string."""

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')


_LARGEST_SPLAT = 1 << 24
"""The maximum number of elements that one number in the text may represent."""


_WIDEST_INTEGER = (1 << 24) - 1
"""Bits of the widest integer type of upstream MLIR. The range of a wider one takes seconds to compute."""
_WIDEST_STORED = 64
"""Bits of the widest integers that xDSL packs into bytes."""


class ExactParser(Parser):
    """xDSL's parser; operations without `loc(...)` get their place in the file, strings may hold any UTF-8.

    A hex number in a list of floats is the bit pattern of a float, as in upstream MLIR; xDSL reads it as an integer.
    """

    def __init__(self, ctx: Context, text: str, name: str = "<stdin>", line_offset: int = 0):
        super().__init__(ctx, "", name)
        self._parser_state = ParserState(_Lexer(Input(text, name)))
        self._newlines = [m.start() for m in re.finditer("\n", text)]
        self._line_offset = line_offset
        self._name = name
        self.attribute_aliases: dict[str, Attribute] = _Aliases(self._expand)
        self._alias_sizes: dict[str, int] = {}
        self._expanded = 0

    def _parse_alias_def(self) -> None:
        name, start, before = self._current_token.text, self.pos, self._expanded
        super()._parse_alias_def()
        self._alias_sizes[name] = self.pos - start + self._expanded - before

    def _expand(self, alias: str) -> None:
        """Counts the text that an alias stands for. Raises ParseError if all of them stand for much more than there is."""
        self._expanded += self._alias_sizes[alias]
        if self._expanded > _EXPANDED + _ALIASED * len(self.lexer.input.content):
            self.raise_error("takes too much memory when its aliases are expanded")

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
            op.location = self.place(start)
        return op

    def place(self, position: int) -> LocationAttr:
        """The line and column of a position in the text."""
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
        is_hex = element.span.text.lstrip("-")[:2].lower() == "0x"
        return _HexElement(element.is_negative, element.value, element.span) if is_hex else element

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


_EXPANDED = 1 << 20
"""Characters that aliases may stand for in any text. One of a few hundred characters could stand for terabytes."""
_ALIASED = 16
"""How many characters an alias may stand for, for each in the text: locations and types are long, their aliases are not."""


class _Aliases(dict[str, Attribute]):
    """Attributes and types by the names of their aliases; `use` is called with each name that is looked up."""

    def __init__(self, use: Callable[[str], None]):
        super().__init__()
        self._use = use

    def __getitem__(self, name: str) -> Attribute:
        self._use(name)
        return super().__getitem__(name)


_DENSE_TYPE = base(RankedStructure[IntegerType | IndexType | AnyFloat | ComplexType])
"""The types that a dense attribute can have. xDSL's parser derives this anew for each one, which takes longer than all the rest.
"""


class _HexElement(AttrParser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage]
    """A number written in hex: an integer, or the bits of a float."""

    def to_type(self, parser: AttrParser, type: Any) -> Any:
        if not isinstance(type, AnyFloat):
            return super().to_type(parser, type)
        if self.is_negative or cast(int, self.value) >= 1 << 8 * type.compile_time_size:
            parser.raise_error(f"hex number is not a bit pattern of {type}", self.span)
        return type.unpack(cast(int, self.value).to_bytes(type.compile_time_size, "little"), 1)[0]


def next_text(parser: AttrParser) -> str:
    """The text of the next token; xDSL has no token for some forms of upstream's, such as the bits of a float in hex."""
    return parser._current_token.span.text  # pyright: ignore[reportPrivateUsage]


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
