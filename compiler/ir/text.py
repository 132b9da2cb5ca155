"""Reads and writes modules: their text, the file of arrays next to it, and the place of each mistake."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import IO, TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation
from xdsl.parser.core import ForwardDeclaredValue
from xdsl.utils.exceptions import ParseError, VerifyException

from ..support.diagnostics import CompileError, first_line, op_error
from ..support.files import replacing, replacing_all
from .exact_text import ModuleParser, ModulePrinter, WeightSink
from .weights import Weight, WeightError, open_side_file, side_file_of, write_arrays

if TYPE_CHECKING:
    from .array import Array


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
        if parser.used_early:
            _check_defined(module)
        _bind(parser.weights, module.attributes.pop(ARRAYS, None), name)
        return module
    except ParseError as e:
        raise CompileError(first_line(e.msg), where=_place(text, e.span.start, name, line_offset)) from None
    except RecursionError:
        raise CompileError("is nested too deeply", where=_place(text, parser.pos, name, line_offset)) from None
    except (VerifyException, ValueError, OverflowError) as e:
        raise CompileError(first_line(e), where=_place(text, parser.pos, name, line_offset)) from None


def _check_defined(module: ModuleOp) -> None:
    """Raises CompileError for an operand whose name is defined in another region only, which xDSL lets pass."""
    for op in module.walk():
        if any(isinstance(value, ForwardDeclaredValue) for value in op.operands):
            raise op_error(op, "uses a value that is not defined before it")


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


class _Printer(ModulePrinter):
    """Raises CompileError at the operation whose array cannot be read."""

    def print_op(self, op: Operation) -> None:
        try:
            super().print_op(op)
        except WeightError as e:
            raise op_error(op, str(e)) from None


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
    printer = _Printer(stream, generic, locations, sink)
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


def write_side_file(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write `arrays` to `path`, through a temporary file that replaces it when complete. Raises CompileError."""
    with replacing(path) as stream:
        write_arrays(stream, arrays)
