"""Quantization parameters: `#nn.qparams`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, TypeVar

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerType, TensorType, f32
from xdsl.ir import Data
from xdsl.irdl import base, irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor, from_stored, integer_range, numpy_dtype
from ...ir.numbers import f32 as nearest_f32, f32_text, parse_f32
from ...ir.undocumented import parse_optional_text
from ...ir.weights import Weight, WeightError
from .arrays import hex_text, parse_bytes, print_reference, referenced_weight

if TYPE_CHECKING:
    from ...ir.array import Array

_T = TypeVar("_T")

INLINE_CHANNELS = 16
"""Scales of up to this many channels are in the text."""


@dataclass(frozen=True, eq=False)
class QParams:
    """The mapping of integers to reals: `real = (q - zero_point) * scale`, float32 scales, per tensor, along `axis` or in blocks.

    `scale` contains one number per tensor, one per index of `axis` or, with `block`, one per block: of a tensor `[K, N]` with
    `axis` 0 those of `[ceil(K / block), N]`, in row-major order, as ONNX has them. More than 16 are an external float32 array.
    Those of blocks may be negative. `zero_point` contains one number per scale, or the one that all share.
    """

    storage: IntegerType
    scale: tuple[float, ...] | Weight
    zero_point: tuple[int, ...] = (0,)
    axis: int | None = None
    block: int | None = None
    """Number of elements in a row along `axis` that share a scale; each index of the other axes then has scales of its own."""

    def __post_init__(self) -> None:
        """Normalizes: scales are rounded to float32, equal zero points become one."""
        if not isinstance(self.scale, Weight):
            object.__setattr__(self, "scale", tuple(map(nearest_f32, self.scale)))
        if len(set(self.zero_point)) == 1:
            object.__setattr__(self, "zero_point", self.zero_point[:1])

    def __eq__(self, other: object) -> bool:
        """Whether the numbers are equal, in the same array or not: some files store the scales of a pair twice."""
        return isinstance(other, QParams) and self._compared == other._compared and self._has_scales_of(other)

    def __hash__(self) -> int:
        return hash(self._compared)

    @property
    def _compared(self) -> tuple[object, ...]:
        scale = None if isinstance(self.scale, Weight) else self.scale
        return self.storage, scale, self.zero_point, self.axis, self.block

    def _has_scales_of(self, other: QParams) -> bool:
        import numpy as np

        if self.scale == other.scale:
            return True
        try:
            return np.array_equal(self.scales(), other.scales())
        except WeightError:  # nothing is known of an array that is missing
            return False

    def scales(self) -> Array:
        """float32, shape [] per tensor, [channels] or [blocks].

        Raises WeightError if an external array has another type or shape.
        """
        import numpy as np

        if isinstance(self.scale, Weight):
            array = self.scale.array
            if array.dtype != np.float32 or array.ndim != 1:
                raise WeightError(
                    f"scales '{self.scale.key}' are {array.dtype}{list(array.shape)}, not float32[channels]"
                )
            return array
        scales = np.array(self.scale, np.float32)
        return scales[0] if self.axis is None else scales

    def zero_points(self) -> Array:
        """int32, shape [] if all are equal, otherwise one for each scale."""
        import numpy as np

        points = np.array(self.zero_point, np.int32)
        return points[0] if len(self.zero_point) == 1 else points

    def broadcastable(self, shape: Sequence[int]) -> tuple[Array, Array]:
        """Scales and zero points in shapes that broadcast to a tensor of this shape. Raises WeightError as `scales`, and for
        another number of blocks than the tensor has.
        """
        scales, points = (spread(p, shape, self.axis, self.block) for p in (self.scales(), self.zero_points()))
        return scales, points

    def transposed(self, perm: Sequence[int], shape: Sequence[int]) -> QParams:
        """The parameters of the transposed tensor; `shape` is that of the tensor as it is. Raises WeightError as `scales`."""
        if self.axis is None:
            return self
        axis = tuple(perm).index(self.axis % len(perm))
        if self.block is None:
            return replace(self, axis=axis)
        blocks = blocks_of(shape, self.axis, self.block)
        scale, points = (
            p.reshape(blocks).transpose(perm).reshape(-1) if p.ndim else p for p in (self.scales(), self.zero_points())
        )
        key = self.scale.key if isinstance(self.scale, Weight) else "scale"
        return QParamsAttr.of(self.storage, scale, points.reshape(-1).tolist(), axis, key, self.block).data


def blocks_of(shape: Sequence[int], axis: int, block: int) -> tuple[int, ...]:
    """The numbers of blocks along the axes of a tensor: one for each index, but along `axis` one for `block` indices."""
    axis %= len(shape)
    return tuple(-(-size // block) if i == axis else size for i, size in enumerate(shape))


def spread(parameters: Array, shape: Sequence[int], axis: int | None, block: int | None = None) -> Array:
    """Parameters [] or [n] in a shape that broadcasts to a tensor. Raises WeightError for another number than it has blocks."""
    import numpy as np

    if axis is None or not parameters.ndim:
        return parameters
    axis %= len(shape)
    if block is None:
        return parameters.reshape(-1, *(1,) * (len(shape) - 1 - axis))
    blocks = blocks_of(shape, axis, block)
    if parameters.size != prod(blocks):
        raise WeightError(f"there are {parameters.size} scales or zero points for {prod(blocks)} blocks")
    every = np.repeat(parameters.reshape(blocks), block, axis)
    return every[(slice(None),) * axis + (slice(shape[axis]),)]


@irdl_attr_definition
class QParamsAttr(Data[QParams]):
    """Quantization parameters; scales print so that they re-parse to the same float32, a zero point of 0 is left out.

    ```mlir
    #nn.qparams<i8, scale = 0.023529412, zero_point = -128>
    #nn.qparams<i8, scale = [0.1, 0.2], axis = 0>
    #nn.qparams<i8, scale = "conv1.weight.scale", axis = 0>
    #nn.qparams<i4, scale = "fc.weight.scale", axis = 0, block = 32>
    #nn.qparams<i4, scale = "fc.weight.scale", zero_point = "0x03FD...", axis = 0, block = 32>
    ```
    """

    name = "nn.qparams"

    @staticmethod
    def of(
        storage: IntegerType,
        scale: float | Array,
        zero_point: int | Sequence[int] = 0,
        axis: int | None = None,
        key: str = "scale",
        block: int | None = None,
    ) -> QParamsAttr:
        """Parameters from numbers; vectors longer than 16 are stored outside the text under `key`. Scales are rounded to
        float32.
        """
        import numpy as np

        scales = np.asarray(scale, np.float32).reshape(-1)
        points = (zero_point,) if isinstance(zero_point, int) else tuple(int(z) for z in zero_point)
        if scales.size > INLINE_CHANNELS:
            return QParamsAttr(QParams(storage, Weight(key, array=scales), points, axis, block))
        return QParamsAttr(QParams(storage, tuple(float(s) for s in scales), points, axis, block))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> QParams:
        with parser.in_angle_brackets():
            start = parser.pos
            storage = parser.parse_type()
            if not _INTEGER.verifies(storage):
                parser.raise_error("integer type expected", start, parser.pos)
            parser.parse_punctuation(",")
            parser.parse_keyword("scale")
            parser.parse_punctuation("=")
            scale = _parse_scale(parser)
            points: tuple[int, ...] = (0,)
            sizes: dict[str, int] = {}
            while parser.parse_optional_punctuation(",") is not None:
                word = parser.parse_keyword_in(("zero_point", "axis", "block"))
                parser.parse_punctuation("=")
                if word == "zero_point":
                    points = _parse_points(parser, storage)
                else:
                    sizes[word] = parser.parse_integer(allow_boolean=False, allow_negative=False)
        return QParams(storage, scale, points, **sizes)

    def print_parameter(self, printer: Printer) -> None:
        p = self.data
        with printer.in_angle_brackets():
            printer.print_attribute(p.storage)
            printer.print_string(", scale = ")
            if not isinstance(p.scale, Weight):
                _print_list(printer, [f32_text(s) for s in p.scale], p.axis is not None)
            elif print_reference(printer, p.scale, p.scales):
                printer.print_string(f" : {hex_text(p.scales())}")
            if any(p.zero_point):
                printer.print_string(", zero_point = ")
                if p.block is not None and len(p.zero_point) > INLINE_CHANNELS:
                    printer.print_string(hex_text(p.zero_points().astype(numpy_dtype(p.storage))))
                else:
                    _print_list(printer, [str(z) for z in p.zero_point], len(p.zero_point) > 1)
            if p.axis is not None:
                printer.print_string(f", axis = {p.axis}")
            if p.block is not None:
                printer.print_string(f", block = {p.block}")

    def verify(self) -> None:
        p = self.data
        low, high = integer_range(p.storage)
        if p.axis is None and (isinstance(p.scale, Weight) or len(p.scale) != 1 or len(p.zero_point) != 1):
            raise VerifyException("parameters without an axis have one scale and one zero point")
        if p.block is not None and (p.axis is None or p.block < 1):
            raise VerifyException(f"block must be positive and needs an axis, but is {p.block}")
        if not isinstance(p.scale, Weight):
            if not all(0 < (s if p.block is None else abs(s)) < float("inf") for s in p.scale):
                raise VerifyException("scales must be positive and finite; those of blocks may be negative")
            if len(p.zero_point) not in (1, len(p.scale)):
                raise VerifyException(f"{len(p.zero_point)} zero points for {len(p.scale)} scales")
        if not all(low <= z <= high for z in p.zero_point):
            raise VerifyException(f"zero points must lie in [{low}, {high}]")


_INTEGER = base(IntegerType)
_SCALES: Tensor = TensorType(f32, (DYNAMIC_INDEX,))


def _parse_scale(parser: AttrParser) -> tuple[float, ...] | Weight:
    """Numbers, the key of an array, or a key and its bytes."""
    if (reference := parse_optional_text(parser)) is None:
        return _parse_list(parser, lambda: parse_f32(parser))
    if parser.parse_optional_punctuation(":") is not None:
        return Weight(reference, array=parse_bytes(parser, _SCALES))
    return referenced_weight(parser, reference)


def _parse_points(parser: AttrParser, storage: IntegerType) -> tuple[int, ...]:
    """Numbers, or the bytes of many: one number of the storage type after the other."""
    start = parser.pos
    if (text := parse_optional_text(parser)) is None:
        return _parse_list(parser, lambda: parser.parse_integer(allow_boolean=False))
    try:
        points = from_stored(bytes.fromhex(text.removeprefix("0x")), numpy_dtype(storage))
    except ValueError as e:
        parser.raise_error(f"malformed bytes: {e}", start, parser.pos)
    return tuple(points.astype("int64").tolist())


def _parse_list(parser: AttrParser, parse: Callable[[], _T]) -> tuple[_T, ...]:
    values = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, parse)
    return (parse(),) if values is None else tuple(values)


def _print_list(printer: Printer, texts: Sequence[str], brackets: bool) -> None:
    printer.print_string(f"[{', '.join(texts)}]" if brackets else texts[0])


__all__ = ["QParams", "QParamsAttr", "blocks_of", "spread"]
