"""Arrays outside the text: `#nn.external`, and the mapping from a key to its file."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ...ir.dtypes import Tensor, as_stored, from_stored, numpy_dtype
from ...ir.exact_text import ModuleParser, ModulePrinter, parse_text
from ...ir.weights import Weight, WeightError, separate_key, side_file_of
from ...support.files import lies_beside

if TYPE_CHECKING:
    from ...ir.array import Array


@dataclass(frozen=True)
class External:
    """The content of `#nn.external`: the key of an array, and its tensor type."""

    weight: Weight
    type: Tensor


@irdl_attr_definition
class ExternalAttr(Data[External]):
    """An array stored next to the text, in `<stem>.safetensors` or in the named file of the same folder.

    ```mlir
    #nn.external<"conv1.weight", tensor<64x3x7x7xf32>>
    #nn.external<"backbone.safetensors#conv1.weight", tensor<64x3x7x7xf32>>
    #nn.external<"conv1.weight.folded", tensor<2xf32>, "0x0000803F00000040">
    ```
    The last form contains its bytes (little-endian): an array without a file prints so on stdout.
    """

    name = "nn.external"

    @property
    def type(self) -> Tensor:
        return self.data.type

    @property
    def array(self) -> Array:
        """The values, of the type's shape. Raises WeightError when missing, or when shape or type differ."""
        array = self.data.weight.array
        if array.shape != self.type.get_shape() or array.dtype != numpy_dtype(self.type.element_type):
            key = self.data.weight.key
            raise WeightError(f"array '{key}' is {array.dtype}{list(array.shape)}, the module says {self.type}")
        return array

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> External:
        with parser.in_angle_brackets():
            reference = parse_text(parser, "key")
            parser.parse_punctuation(",")
            start = parser.pos
            type_ = cast(Attribute, parser.parse_type())
            if not isinstance(type_, TensorType):
                parser.raise_error("tensor type expected", start, parser.pos)
            type_ = cast(Tensor, type_)
            if parser.parse_optional_punctuation(",") is not None:
                weight = Weight(reference, array=parse_bytes(parser, type_))
            else:
                weight = referenced_weight(parser, reference)
        return External(weight, type_)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            inline = print_reference(printer, self.data.weight, lambda: self.array)
            printer.print_string(", ")
            printer.print_attribute(self.data.type)
            if inline:
                printer.print_string(f", {hex_text(self.array)}")


_NO_FILE = re.compile(r"<\w+>")
"""The name of a text that is not in a file, such as `<stdin>`."""


def referenced_weight(parser: AttrParser, reference: str) -> Weight:
    """The weight after `"key"` or `"file.safetensors#key"`, looked up next to the module only."""
    module = Path(parser.lexer.input.name)
    file, key = separate_key(reference)
    if Path(file).name != file:
        parser.raise_error(f"'{file}': arrays are read only from the module's own folder")
    if _NO_FILE.fullmatch(parser.lexer.input.name):
        return Weight(key, path=Path(file) if file else None)
    path = module.with_name(file) if file else side_file_of(module)
    if path.is_symlink() and not lies_beside(path, module):
        parser.raise_error(f"'{path.name}' is a link that leaves the module's folder: put a copy of the file there")
    weight = Weight(key, path=path)
    if isinstance(parser, ModuleParser) and not file:
        parser.weights.append(weight)
    return weight


def print_reference(printer: Printer, weight: Weight, array: Callable[[], Array]) -> bool:
    """Prints the quoted key: plain if a side file is written, with the file's name if the array stays where it is.

    Returns whether the array has no file, so that its bytes must follow.
    """
    if isinstance(printer, ModulePrinter) and printer.sink is not None:
        printer.print_string_literal(printer.sink.key_of(weight, array()))
        return False
    printer.print_string_literal(weight.key if weight.path is None else f"{weight.path.name}#{weight.key}")
    return weight.in_memory_only


def hex_text(array: Array) -> str:
    """The bytes of an array (little-endian), quoted."""
    return f'"0x{as_stored(array).tobytes().hex().upper()}"'


def parse_bytes(parser: AttrParser, type_: Tensor) -> Array:
    """An array of this type from its quoted bytes."""
    start = parser.pos
    text = parse_text(parser, "bytes")
    try:
        data = bytes.fromhex(text.removeprefix("0x"))
        return from_stored(data, numpy_dtype(type_.element_type)).reshape(type_.get_shape())
    except ValueError as e:
        parser.raise_error(f"malformed bytes: {e}", start, parser.pos)


__all__ = ["External", "ExternalAttr"]
