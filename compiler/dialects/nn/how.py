"""`How`: the quantization of a weight, an input or a result as one value, and its text in `#nn.plan`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType
from xdsl.irdl import base
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ...ir.exact_text import parse_text
from ...ir.number_formats import NUMBER_FORMATS
from ...ir.undocumented import parse_optional_text
from .qparams import QParamsAttr

_BITS = range(2, 9)
_WIDTHS = 2, 4, 8, 16
_INTEGER = base(IntegerType)


@dataclass(frozen=True)
class How:
    """The quantization of a value to integers, or to floats of a number format, and the source of its scales: they are
    `given`, or follow from the range that an observer finds in data, or from the weight's own numbers.
    """

    bits: int = 8
    symmetric: bool = True
    """Whether the zero point is 0."""
    observer: str | None = None
    """The observer, with its parameters, that finds the range of an input or a result in data; None for a weight."""
    axis: int | None = None
    """The axis with one scale per index; None for a single scale."""
    block: int | None = None
    """The size of the groups along `axis` that have a scale each, for each index of the other axes (`QParams.block`)."""
    number_format: str | None = None
    """The number format (`NUMBER_FORMATS`), in place of integers of these bits."""
    levels: int | tuple[int, ...] | None = None
    """The number of distinct integers, or the integers themselves; None for no limit."""
    given: QParamsAttr | None = None
    """Scales and zero points of a record, with these bits and this axis."""
    rounding: str | None = None
    """The method of `--round-weights` for this weight, with options: `adaround{num-iteration=10000}`; None for the
    nearest number.
    """
    epsilon: bool = False
    """Whether computed scales below float32's epsilon are 1, so that such a channel is zero (AMCT)."""
    search: bool = False
    """Whether computed scales are those of least squared error, instead of those that cover all values."""
    first: bool = False
    """Whether the layer computes with the integers of this weight while ranges of activations are found (AMCT)."""
    portable: bool = False
    """Whether scales are large enough for integers whose sums of products are exact on every processor."""

    @property
    def storage(self) -> IntegerType:
        """The type that its integers are stored in: 4 bits for 3, 8 bits for 5 to 7 (AMCT)."""
        return IntegerType(next(width for width in _WIDTHS if self.bits <= width))

    @property
    def scaled_by_divergence(self) -> bool:
        """Whether its scales are those that AMCT for PyTorch gives weights that it rounds by AdaRound."""
        return self.epsilon and self.rounding is not None

    @property
    def granularity(self) -> str:
        """The extent of one scale, in words: `tensor`, `channel` or `group of 32`."""
        return "tensor" if self.axis is None else "channel" if self.block is None else f"group of {self.block}"

    @classmethod
    def parse(cls, parser: AttrParser) -> How:
        """The text that `print` gives."""
        number_format, given, bits = parse_optional_text(parser), None, 8
        if number_format is None and parser.parse_optional_keyword("by") is not None:
            given = QParamsAttr.new(QParamsAttr.parse_parameter(parser))
            bits = given.data.storage.width.data
        elif number_format is None:
            bits = _parse_bits(parser)
        axis, block = (None, None) if given is None else (given.data.axis, given.data.block)
        if given is None and _has(parser, "axis"):
            axis = parser.parse_integer(allow_boolean=False, allow_negative=False)
        if given is None and _has(parser, "block"):
            block = parser.parse_integer(allow_boolean=False, allow_negative=False)
        symmetric, asymmetric = _has(parser, "symmetric"), _has(parser, "asymmetric")
        observer = parse_text(parser, "observer") if _has(parser, "observer") else None
        levels: int | tuple[int, ...] | None = None
        if _has(parser, "levels"):
            several = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
            levels = parser.parse_integer(allow_boolean=False) if several is None else tuple(several)
        return cls(
            bits,
            symmetric or (observer is None and not asymmetric),
            observer,
            axis,
            block,
            number_format,
            levels,
            given,
            rounding=parse_text(parser, "rounding") if _has(parser, "rounding") else None,
            epsilon=_has(parser, "epsilon"),
            search=_has(parser, "search"),
            first=_has(parser, "first"),
            portable=_has(parser, "portable"),
        )

    def print(self, printer: Printer) -> None:
        """`i8 symmetric observer "minmax"`, `i4 axis 0 block 128 search`, `by <i8, scale = 0.1>`, `"mxfp4" axis 0 block 32`.

        A weight is symmetric unless the text says `asymmetric`; a value with an observer is asymmetric unless the text says
        `symmetric`.
        """
        if self.given is not None:
            printer.print_string("by ")
            self.given.print_parameter(printer)
        else:
            printer.print_string(f"i{self.bits}" if self.number_format is None else f'"{self.number_format}"')
            printer.print_string("" if self.axis is None else f" axis {self.axis}")
            printer.print_string("" if self.block is None else f" block {self.block}")
        if self.observer is not None:
            printer.print_string(" symmetric observer " if self.symmetric else " observer ")
            printer.print_string_literal(self.observer)
        elif not self.symmetric:
            printer.print_string(" asymmetric")
        if self.levels is not None:
            printer.print_string(f" levels {self.levels if isinstance(self.levels, int) else list(self.levels)}")
        if self.rounding is not None:
            printer.print_string(" rounding ")
            printer.print_string_literal(self.rounding)
        for flag in ("epsilon", "search", "first", "portable"):
            printer.print_string(f" {flag}" if getattr(self, flag) else "")

    def check_weight(self, is_input_quantized: bool) -> None:
        """Raises VerifyException for settings that a weight cannot have."""
        if self.block is not None and (self.axis is None or self.block < 1):
            raise VerifyException(f"block must be positive and needs an axis, but is {self.block}")
        if self.bits not in _BITS:
            raise VerifyException(f"bits must lie in [{_BITS[0]}, {_BITS[-1]}], not {self.bits}")
        if self.block is not None and is_input_quantized:
            raise VerifyException("a weight with blocks goes with a float input")
        others = not self.symmetric, self.block, self.levels, self.given, self.number_format
        if self.portable and (self.bits != _BITS[-1] or any(others)):
            raise VerifyException("a portable weight has 8 bits, without zero points, blocks, levels or given scales")
        if self.number_format is not None:
            self._check_format(is_input_quantized)
        half = 2 ** (self.bits - 1)
        if isinstance(self.levels, int) and not 1 <= self.levels <= 2 * half:
            raise VerifyException(f"{self.levels} levels of {self.bits} bits: there are 1 to {2 * half}")
        if isinstance(self.levels, tuple) and not (self.levels and all(-half <= level < half for level in self.levels)):
            raise VerifyException(f"levels must be numbers in [{-half}, {half - 1}]")

    def _check_format(self, is_input_quantized: bool) -> None:
        if (known := NUMBER_FORMATS.get(self.number_format or "")) is None:
            raise VerifyException(f"'{self.number_format}' is not a number format: {', '.join(NUMBER_FORMATS)}")
        if self.block != known.block:
            raise VerifyException(f"{known.name} has blocks of {known.block}, not {self.block}")
        if is_input_quantized:
            raise VerifyException("a weight in a number format goes with a float input")
        only = How(self.bits, axis=self.axis, block=self.block, number_format=known.name, search=self.search)
        if self != only:
            raise VerifyException("a number format has no zero points, levels, rounding or given scales")


def _has(parser: AttrParser, word: str) -> bool:
    return parser.parse_optional_keyword(word) is not None


def _parse_bits(parser: AttrParser) -> int:
    start = parser.pos
    storage = parser.parse_type()
    if not _INTEGER.verifies(storage):
        parser.raise_error("integer type expected", start, parser.pos)
    return storage.width.data


__all__ = ["How"]
