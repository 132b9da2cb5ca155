"""MLIR's own `quant` dialect, which xDSL lacks, as far as it can express `nn`'s quantization.

Its types, and the three casts, in upstream's syntax: https://mlir.llvm.org/docs/Dialects/QuantDialect.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    IntegerType,
    Signedness,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
)
from xdsl.ir import Attribute, Data, Dialect, OpResult, SSAValue, TypeAttribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ..ir.dtypes import Tensor, integer_range, is_float
from ..ir.numbers import f64_text, parse_f64
from ..ir.undocumented import next_text

_PURE = traits_def(Pure())
MOST_BITS = 32
"""The widest stored integer."""


Storage = IntegerType | Float8E4M3FNType | Float8E5M2Type | Float4E2M1FNType
_FLOATS: Mapping[str, tuple[Storage, int]] = {
    "f8E4M3FN": (Float8E4M3FNType(), 448),
    "f8E5M2": (Float8E5M2Type(), 57344),
    "f4E2M1FN": (Float4E2M1FNType(), 6),
}
"""Floats that are stored, and the largest number of each."""


def storage_range(storage: Storage) -> tuple[int, int]:
    """The smallest and the largest number of a storage type."""
    if isinstance(storage, IntegerType):
        return integer_range(storage)
    most = next(most for each, most in _FLOATS.values() if each == storage)
    return -most, most


class Blocks(NamedTuple):
    """An axis that is cut into blocks."""

    axis: int
    size: int
    """Elements in a block."""
    number: int
    """Blocks along the axis."""


@dataclass(frozen=True)
class Uniform:
    """`real = (q - zero_point) * scale` of `expressed` type, `q` from `low` to `high`: per tensor, along `axis` or in blocks."""

    storage: Storage
    """The storage type; signless for signed integers, as in `nn`."""
    low: int
    high: int
    expressed: Attribute
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    """One zero point for each scale."""
    axis: int | None = None
    blocks: tuple[Blocks, ...] = ()
    """The axes that are cut into blocks, each of which has a scale (sub-channel); scales are in row-major order."""

    @property
    def whole(self) -> bool:
        """Whether every number of the storage type is in use."""
        return (self.low, self.high) == storage_range(self.storage)


@irdl_attr_definition
class UniformType(TypeAttribute, Data[Uniform]):
    """Integers that represent reals.

    ```mlir
    !quant.uniform<i8:f32, 0.5:-128>
    !quant.uniform<u8<1:255>:f32, 0.5>
    !quant.uniform<i8:f32:1, {0.5, 0.25:3}>
    !quant.uniform<i4:f32:{0:2, 1:1}, {{0.5, 0.25:3}, {1.0, 2.0}}>
    !quant.uniform<f8E4M3FN:f32, 0.5>
    ```
    """

    name = "quant.uniform"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Uniform:
        with parser.in_angle_brackets():
            storage, low, high = _parse_limited_storage(parser)
            parser.parse_punctuation(":", " (the expressed type follows)")
            expressed = parser.parse_type()
            axis, cut = None, None
            if parser.parse_optional_punctuation(":") is not None:
                cut = parser.parse_optional_comma_separated_list(
                    parser.Delimiter.BRACES, lambda: _parse_block_size(parser)
                )
                axis = parser.parse_integer(allow_boolean=False, allow_negative=False) if cut is None else None
            parser.parse_punctuation(",")
            steps: Sequence[tuple[float, int]]
            counts: Sequence[int] = ()
            if cut is not None:
                steps, counts = _parse_blocks(parser, len(cut))
            elif axis is None:
                steps = [_parse_step(parser)]
            else:
                steps = parser.parse_comma_separated_list(parser.Delimiter.BRACES, lambda: _parse_step(parser))
        scales, points = zip(*steps, strict=True) if steps else ((), ())
        blocks = tuple(Blocks(*each, count) for each, count in zip(cut or (), counts, strict=True))
        return Uniform(storage, low, high, expressed, tuple(scales), tuple(points), axis, blocks)

    def print_parameter(self, printer: Printer) -> None:
        t = self.data
        printer.print_string(f"<{_storage_text(t.storage, t.low, t.high)}:")
        printer.print_attribute(t.expressed)
        points = zip(t.scales, t.zero_points, strict=True)
        steps = [f"{f64_text(s)}:{z}" if z else f64_text(s) for s, z in points]
        if t.blocks:
            for each in reversed(t.blocks):
                steps = [f"{{{', '.join(row)}}}" for row in _rows(steps, each.number)]
            printer.print_string(f":{{{', '.join(f'{each.axis}:{each.size}' for each in t.blocks)}}}")
        elif t.axis is not None:
            printer.print_string(f":{t.axis}")
            steps = [f"{{{', '.join(steps)}}}"]
        printer.print_string(f", {steps[0]}>")

    def verify(self) -> None:
        t = self.data
        _check_range(t.storage, t.low, t.high)
        if not is_float(t.expressed):
            raise VerifyException(f"integers stand for floats, not for {t.expressed}")
        axes = [each.axis for each in t.blocks]
        if axes != sorted(set(axes)) or any(each.size < 1 for each in t.blocks):
            raise VerifyException("blocks need axes in ascending order, and sizes of 1 or more")
        if not t.scales:
            raise VerifyException("there are no scales")
        if outside := [s for s in t.scales if not in_range(s, t.expressed)]:
            raise VerifyException(f"scale {outside[0]:g} is out of the range of {t.expressed}")


@dataclass(frozen=True)
class Unscaled:
    """Numbers that represent reals in a way that is not known, or not known yet."""

    storage: Storage
    low: int
    high: int
    expressed: Attribute | None
    """The type of the reals; None if it is not known."""


@irdl_attr_definition
class AnyType(TypeAttribute, Data[Unscaled]):
    """Numbers that represent reals, without their scales.

    ```mlir
    !quant.any<i8<-8:7>:f32>
    ```
    """

    name = "quant.any"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Unscaled:
        with parser.in_angle_brackets():
            storage, low, high = _parse_limited_storage(parser)
            expressed = None if parser.parse_optional_punctuation(":") is None else parser.parse_type()
        return Unscaled(storage, low, high, expressed)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{_storage_text(self.data.storage, self.data.low, self.data.high)}")
        if self.data.expressed is not None:
            printer.print_string(":")
            printer.print_attribute(self.data.expressed)
        printer.print_string(">")

    def verify(self) -> None:
        _check_range(self.data.storage, self.data.low, self.data.high)
        if self.data.expressed is not None and not is_float(self.data.expressed):
            raise VerifyException(f"integers stand for floats, not for {self.data.expressed}")


class Calibrated(NamedTuple):
    """Reals, and the smallest and the largest of them."""

    expressed: Attribute
    low: float
    high: float


@irdl_attr_definition
class CalibratedType(TypeAttribute, Data[Calibrated]):
    """Reals with the range that calibration has found.

    ```mlir
    !quant.calibrated<f32<-0.998:1.2321>>
    ```
    """

    name = "quant.calibrated"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Calibrated:
        with parser.in_angle_brackets():
            expressed = parser.parse_type()
            with parser.in_angle_brackets():
                low = parse_f64(parser)
                parser.parse_punctuation(":")
                high = parse_f64(parser)
        return Calibrated(expressed, low, high)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<")
        printer.print_attribute(self.data.expressed)
        printer.print_string(f"<{f64_text(self.data.low)}:{f64_text(self.data.high)}>>")

    def verify(self) -> None:
        if not is_float(self.data.expressed):
            raise VerifyException(f"{self.data.expressed} is not a type of floats")
        if not self.data.low < self.data.high:
            raise VerifyException(f"[{self.data.low:g}, {self.data.high:g}] is not a valid range")


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


def _check_range(storage: Storage, low: int, high: int) -> None:
    if isinstance(storage, IntegerType) and storage.width.data > MOST_BITS:
        raise VerifyException(f"integers have at most {MOST_BITS} bits, not {storage.width.data}")
    least, most = storage_range(storage)
    if not least <= low < high <= most:
        raise VerifyException(f"[{low}, {high}] is not a valid range of {storage}")


def _parse_limited_storage(parser: AttrParser) -> tuple[Storage, int, int]:
    """A storage type, and the range of it that is in use: all of it, or the one that follows."""
    storage = _parse_storage(parser)
    low, high = storage_range(storage)
    if parser.parse_optional_punctuation("<") is not None:
        low = parser.parse_integer(allow_boolean=False)
        parser.parse_punctuation(":")
        high = parser.parse_integer(allow_boolean=False)
        parser.parse_punctuation(">")
    return storage, low, high


def _storage_text(storage: Storage, low: int, high: int) -> str:
    limits = "" if (low, high) == storage_range(storage) else f"<{low}:{high}>"
    if not isinstance(storage, IntegerType):
        return f"{storage}{limits}"
    unsigned = storage.signedness.data == Signedness.UNSIGNED
    return f"{'u' if unsigned else 'i'}{storage.width.data}{limits}"


def _rows(texts: list[str], length: int) -> list[list[str]]:
    return [texts[i : i + length] for i in range(0, len(texts), length)]


def _parse_block_size(parser: AttrParser) -> tuple[int, int]:
    """An axis and the number of elements in a block along it: `0:32`."""
    axis = parser.parse_integer(allow_boolean=False, allow_negative=False)
    parser.parse_punctuation(":")
    return axis, parser.parse_integer(allow_boolean=False, allow_negative=False)


def _parse_blocks(parser: AttrParser, depth: int) -> tuple[list[tuple[float, int]], list[int]]:
    """Scales in braces, nested once for each axis; and the number of them along each axis."""
    if depth == 0:
        return [_parse_step(parser)], []
    start = parser.pos
    rows = parser.parse_comma_separated_list(parser.Delimiter.BRACES, lambda: _parse_blocks(parser, depth - 1))
    if not rows or any(counts != rows[0][1] for _, counts in rows):
        parser.raise_error("rows of scales of equal length expected", start, parser.pos)
    return [step for steps, _ in rows for step in steps], [len(rows), *rows[0][1]]


def _parse_storage(parser: AttrParser) -> Storage:
    start = parser.pos
    word = parser.parse_identifier(context_msg=" (the stored integer, i8 or u8)")
    if word in _FLOATS:
        return _FLOATS[word][0]
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

    input: SSAValue = operand_def(TensorType)
    result: OpResult = result_def(TensorType)

    assembly_format: ClassVar[str | None] = "$input attr-dict `:` type($input) `to` type($result)"
    traits = _PURE

    def __init__(self, input: SSAValue, result_type: Attribute):
        super().__init__(operands=[input], result_types=[result_type])

    def check(self, side: SSAValue, wanted: Callable[[Uniform], Attribute]) -> UniformType:
        """The type of the side that is quantized. Raises VerifyException unless the other has the type that it requires."""
        quantized, other = (cast(Tensor, v.type) for v in (side, self.input if side is self.result else self.result))
        type_, element = quantized.element_type, other.element_type
        if not isinstance(type_, UniformType):
            raise VerifyException(f"{type_} is not a !quant.uniform type")
        if element != wanted(type_.data):
            raise VerifyException(f"{element} does not go with {type_}")
        rank = quantized.get_num_dims()
        if rank != other.get_num_dims():
            raise VerifyException("operand and result have different ranks")
        cut = [(each.axis, each.size * each.number, "its blocks") for each in type_.data.blocks]
        if type_.data.axis is not None:
            cut.append((type_.data.axis, len(type_.data.scales), "number of scales"))
        for axis, count, what in cut:
            if axis >= rank:
                raise VerifyException(f"axis {axis} is out of range for rank {rank}")
            if (size := quantized.get_shape()[axis]) not in (DYNAMIC_INDEX, count):
                raise VerifyException(f"size of axis {axis} and {what} differ: {size} and {count}")
        return type_


def expressed(uniform: Uniform) -> Attribute:
    """The type of the reals."""
    return uniform.expressed


def stored(uniform: Uniform) -> IntegerType:
    """The type of the integers in upstream's form: always signless."""
    return IntegerType(uniform.storage.bitwidth)


@irdl_op_definition
class QuantizeCastOp(CastOp):
    """Converts reals to the integers that represent them. The rounding is the target's; here it is that of `nn.quantize`."""

    name = "quant.qcast"

    def verify_(self) -> None:
        self.check(self.result, expressed)


@irdl_op_definition
class DequantizeCastOp(CastOp):
    """Converts integers to the reals that they represent."""

    name = "quant.dcast"

    def verify_(self) -> None:
        self.check(self.input, expressed)


@irdl_op_definition
class StorageCastOp(CastOp):
    """Converts between integers and integers that represent reals; the bits stay the same."""

    name = "quant.scast"

    def verify_(self) -> None:
        to_storage = isinstance(cast(Tensor, self.input.type).element_type, UniformType)
        type_ = self.check(self.input if to_storage else self.result, stored)
        if not isinstance(type_.data.storage, IntegerType):
            raise VerifyException(f"{type_} stores floats, and only integers have a cast to their storage")


QUANT = Dialect("quant", [QuantizeCastOp, DequantizeCastOp, StorageCastOp], [UniformType, AnyType, CalibratedType])
