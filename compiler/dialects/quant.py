"""MLIR's own `quant` dialect, which xDSL lacks, as far as it can express `nn`'s quantization.

Per-tensor and per-axis `!quant.uniform` types, and the three casts, in upstream's syntax:
https://mlir.llvm.org/docs/Dialects/QuantDialect. Sub-channel and calibrated types are not read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import IntegerType, Signedness, bf16, f16, f32, f64
from xdsl.ir import Attribute, Data, Dialect, SSAValue, TypeAttribute
from xdsl.irdl import IRDLOperation, Operand, irdl_attr_definition, irdl_op_definition, operand_def, result_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ..ir.dtypes import integer_range, is_float
from ..ir.undocumented import next_text
from .nn.base import ANY_TENSOR, PURE, Result
from .nn.numbers import f64_text, parse_f64
from .nn.shapes import element_of, known, merge_dim, shape_of

MOST_BITS = 32
"""The widest stored integer."""


@dataclass(frozen=True)
class Uniform:
    """`real = (q - zero_point) * scale` of `expressed` type, for integers `low` to `high`, per tensor or along `axis`."""

    storage: IntegerType
    """The storage type; signless for signed integers, as in `nn`."""
    low: int
    high: int
    expressed: Attribute
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    """One zero point for each scale."""
    axis: int | None = None

    @property
    def whole(self) -> bool:
        """Whether every integer of the storage type is in use."""
        return (self.low, self.high) == integer_range(self.storage)


@irdl_attr_definition
class UniformType(TypeAttribute, Data[Uniform]):
    """Integers that represent reals.

    ```mlir
    !quant.uniform<i8:f32, 0.5:-128>
    !quant.uniform<u8<1:255>:f32, 0.5>
    !quant.uniform<i8:f32:1, {0.5, 0.25:3}>
    ```
    """

    name = "quant.uniform"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Uniform:
        with parser.in_angle_brackets():
            storage = _parse_storage(parser)
            low, high = integer_range(storage)
            if parser.parse_optional_punctuation("<") is not None:
                low = parser.parse_integer(allow_boolean=False)
                parser.parse_punctuation(":")
                high = parser.parse_integer(allow_boolean=False)
                parser.parse_punctuation(">")
            parser.parse_punctuation(":", " (the expressed type follows)")
            expressed = parser.parse_type()
            axis = None
            if parser.parse_optional_punctuation(":") is not None:
                axis = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_punctuation(",")
            if axis is None:
                steps = [_parse_step(parser)]
            else:
                steps = parser.parse_comma_separated_list(parser.Delimiter.BRACES, lambda: _parse_step(parser))
        scales, points = zip(*steps, strict=True) if steps else ((), ())
        return Uniform(storage, low, high, expressed, tuple(scales), tuple(points), axis)

    def print_parameter(self, printer: Printer) -> None:
        t = self.data
        unsigned = t.storage.signedness.data == Signedness.UNSIGNED
        limits = "" if t.whole else f"<{t.low}:{t.high}>"
        printer.print_string(f"<{'u' if unsigned else 'i'}{t.storage.width.data}{limits}:")
        printer.print_attribute(t.expressed)
        points = zip(t.scales, t.zero_points, strict=True)
        steps = ", ".join(f"{f64_text(s)}:{z}" if z else f64_text(s) for s, z in points)
        printer.print_string(f", {steps}>" if t.axis is None else f":{t.axis}, {{{steps}}}>")

    def verify(self) -> None:
        t = self.data
        least, most = integer_range(t.storage)
        if t.storage.width.data > MOST_BITS:
            raise VerifyException(f"integers have at most {MOST_BITS} bits, not {t.storage.width.data}")
        if not least <= t.low < t.high <= most:
            raise VerifyException(f"[{t.low}, {t.high}] is not a valid range of {t.storage}")
        if not is_float(t.expressed):
            raise VerifyException(f"integers stand for floats, not for {t.expressed}")
        if not t.scales:
            raise VerifyException("there are no scales")
        if outside := [s for s in t.scales if not in_range(s, t.expressed)]:
            raise VerifyException(f"scale {outside[0]:g} is out of the range of {t.expressed}")


_LIMITS: Mapping[Attribute, tuple[float, float]] = {
    f16: (2.0**-24, 65504.0),
    bf16: (2.0**-133, (2 - 2.0**-7) * 2.0**127),
    f32: (2.0**-149, (2 - 2.0**-23) * 2.0**127),
    f64: (2.0**-1074, (2 - 2.0**-52) * 2.0**1023),
}
"""The smallest and the largest positive number of a float type."""


def in_range(scale: float, expressed: Attribute) -> bool:
    """Whether upstream accepts a scale for reals of this type."""
    low, high = _LIMITS[expressed]
    return low <= scale <= high


def _parse_storage(parser: AttrParser) -> IntegerType:
    start = parser.pos
    word = parser.parse_identifier(context_msg=" (the stored integer, i8 or u8)")
    if word[:1] not in ("i", "u") or not word[1:].isdecimal() or not 1 <= int(word[1:]) <= MOST_BITS:
        parser.raise_error(f"'{word}' is not a stored integer, such as i8 or u8", start, parser.pos)
    return IntegerType(int(word[1:]), Signedness.UNSIGNED if word[0] == "u" else Signedness.SIGNLESS)


def _parse_step(parser: AttrParser) -> tuple[float, int]:
    """`scale` or `scale:zero_point`."""
    scale = _parse_scale(parser)
    if parser.parse_optional_punctuation(":") is None:
        return scale, 0
    return scale, parser.parse_integer(allow_boolean=False)


def _parse_scale(parser: AttrParser) -> float:
    """A decimal, or the bits of a float64 in hex, which upstream prints if its decimals are not exact."""
    text = next_text(parser)
    if text[:2].lower() != "0x":
        return parse_f64(parser)
    start = parser.pos
    bits = parser.parse_integer(allow_boolean=False, allow_negative=False)
    if bits >= 1 << 64:
        parser.raise_error("hex number is not a bit pattern of a float64", start, parser.pos)
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


class CastOp(IRDLOperation):
    """Base of the casts: `quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>`."""

    input: Operand = operand_def(ANY_TENSOR)
    result: Result = result_def(ANY_TENSOR)

    assembly_format: ClassVar[str | None] = "$input attr-dict `:` type($input) `to` type($result)"
    traits = PURE

    def __init__(self, input: SSAValue, result_type: Attribute):
        super().__init__(operands=[input], result_types=[result_type])

    def check(self, quantized: SSAValue, other: SSAValue, wanted: Callable[[Uniform], Attribute]) -> None:
        """Raises VerifyException unless one side is quantized and the other has the type that it requires."""
        type_ = element_of(quantized)
        if not isinstance(type_, UniformType):
            raise VerifyException(f"{type_} is not a !quant.uniform type")
        if element_of(other) != wanted(type_.data):
            raise VerifyException(f"{element_of(other)} does not go with {type_}")
        if len(shape_of(quantized)) != len(shape_of(other)):
            raise VerifyException("operand and result have different ranks")
        if (axis := type_.data.axis) is None:
            return
        if axis >= len(shape_of(quantized)):
            raise VerifyException(f"there is no axis {axis}")
        if known(size := shape_of(quantized)[axis]):
            merge_dim(size, len(type_.data.scales), f"size of axis {axis} and number of scales")


def expressed(uniform: Uniform) -> Attribute:
    """The type of the reals."""
    return uniform.expressed


def stored(uniform: Uniform) -> IntegerType:
    """The type of the integers in upstream's form: always signless."""
    return IntegerType(uniform.storage.width.data)


@irdl_op_definition
class QuantizeCastOp(CastOp):
    """Converts reals to the integers that represent them. The rounding is the target's; here it is that of `nn.quantize`."""

    name = "quant.qcast"

    def verify_(self) -> None:
        self.check(self.result, self.input, expressed)


@irdl_op_definition
class DequantizeCastOp(CastOp):
    """Converts integers to the reals that they represent."""

    name = "quant.dcast"

    def verify_(self) -> None:
        self.check(self.input, self.result, expressed)


@irdl_op_definition
class StorageCastOp(CastOp):
    """Converts between integers and integers that represent reals; the bits stay the same."""

    name = "quant.scast"

    def verify_(self) -> None:
        to_storage = isinstance(element_of(self.input), UniformType)
        quantized, other = (self.input, self.result) if to_storage else (self.result, self.input)
        self.check(quantized, other, stored)


QUANT = Dialect("quant", [QuantizeCastOp, DequantizeCastOp, StorageCastOp], [UniformType])
