"""Attributes of the `nn` dialect: layouts, provenance, arrays beside the text, quantization parameters."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import DictionaryAttr, IntegerType, StringAttr, TensorType
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Data, ParametrizedAttribute, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.str_enum import StrEnum

from ...dtypes import Tensor, numpy_dtype
from ...text import ModulePrinter, parse_optional_text
from ...weights import Weight, side_file_of

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]


class Layout(StrEnum):
    """Where channels stand: second (`nchw`) or last (`nhwc`), whatever the number of spatial axes."""

    NCHW = "nchw"
    NHWC = "nhwc"


@irdl_attr_definition
class LayoutAttr(EnumAttribute[Layout], SpacedOpaqueSyntaxAttribute):
    name = "nn.layout"


class AutoPad(StrEnum):
    """Padding that depends on sizes: the odd element goes to the end in `same_upper` (TensorFlow's SAME), else to the start."""

    SAME_UPPER = "same_upper"
    SAME_LOWER = "same_lower"


@irdl_attr_definition
class AutoPadAttr(EnumAttribute[AutoPad], SpacedOpaqueSyntaxAttribute):
    name = "nn.auto_pad"


class PadMode(StrEnum):
    CONSTANT = "constant"
    REFLECT = "reflect"
    EDGE = "edge"
    WRAP = "wrap"


@irdl_attr_definition
class PadModeAttr(EnumAttribute[PadMode], SpacedOpaqueSyntaxAttribute):
    name = "nn.pad_mode"


class Predicate(StrEnum):
    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"


@irdl_attr_definition
class PredicateAttr(EnumAttribute[Predicate], SpacedOpaqueSyntaxAttribute):
    name = "nn.predicate"


class DepthMode(StrEnum):
    """Order of the channels that depth_to_space takes apart: depth-column-row or column-row-depth (ONNX DepthToSpace)."""

    DCR = "dcr"
    CRD = "crd"


@irdl_attr_definition
class DepthModeAttr(EnumAttribute[DepthMode], SpacedOpaqueSyntaxAttribute):
    name = "nn.depth_mode"


class ResizeMode(StrEnum):
    NEAREST = "nearest"
    LINEAR = "linear"
    CUBIC = "cubic"


@irdl_attr_definition
class ResizeModeAttr(EnumAttribute[ResizeMode], SpacedOpaqueSyntaxAttribute):
    name = "nn.resize_mode"


class Coordinates(StrEnum):
    """How an output index maps to an input position (ONNX Resize, coordinate_transformation_mode)."""

    HALF_PIXEL = "half_pixel"
    HALF_PIXEL_SYMMETRIC = "half_pixel_symmetric"
    PYTORCH_HALF_PIXEL = "pytorch_half_pixel"
    ALIGN_CORNERS = "align_corners"
    ASYMMETRIC = "asymmetric"


@irdl_attr_definition
class CoordinatesAttr(EnumAttribute[Coordinates], SpacedOpaqueSyntaxAttribute):
    name = "nn.coordinates"


class Nearest(StrEnum):
    """How `resize nearest` rounds an input position (ONNX Resize, nearest_mode)."""

    ROUND_PREFER_FLOOR = "round_prefer_floor"
    ROUND_PREFER_CEIL = "round_prefer_ceil"
    FLOOR = "floor"
    CEIL = "ceil"


@irdl_attr_definition
class NearestAttr(EnumAttribute[Nearest], SpacedOpaqueSyntaxAttribute):
    name = "nn.nearest"


class ParamsSource(StrEnum):
    """Where quantization parameters came from."""

    USER = "user"
    RECORD = "record"
    DATA = "data"
    SYNTHETIC = "synthetic"


@irdl_attr_definition
class ParamsSourceAttr(EnumAttribute[ParamsSource], SpacedOpaqueSyntaxAttribute):
    name = "nn.params_source"


def f32_text(value: float) -> str:
    """The shortest decimal (6 to 9 digits, always with a point) that reads back as the same float32; `inf`, `nan` as words."""
    return _shortest(value, "<f", range(6, 10))


def f64_text(value: float) -> str:
    """As `f32_text`, for float64 (up to 17 digits)."""
    return _shortest(value, "<d", range(6, 18))


def _shortest(value: float, form: str, digits: range) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return repr(value)
    wanted = struct.pack(form, value)
    text = next(t for d in digits if struct.pack(form, float(t := f"{value:.{d}g}")) == wanted)
    mantissa, e, exponent = text.partition("e")
    return (mantissa if "." in mantissa else mantissa + ".0") + e + exponent


def parse_number(parser: AttrParser) -> float:
    """A decimal, or one of the words `inf`, `-inf`, `nan`."""
    negative = parser.parse_optional_punctuation("-") is not None
    if (word := parser.parse_optional_keyword_in(("inf", "nan"))) is not None:
        return -float(word) if negative else float(word)
    value = float(parser.parse_number())
    return -value if negative else value


def parse_text(parser: AttrParser, what: str) -> str:
    """A string literal of any UTF-8 characters."""
    text = parse_optional_text(parser)  # pyright: ignore[reportArgumentType]
    return parser.raise_error(f"{what} expected, a string literal") if text is None else text


@irdl_attr_definition
class OriginAttr(ParametrizedAttribute):
    """The source layer an operation comes from: framework, operator type, layer name, and the source's attributes.

    AMCT's tables judge the source layer (its transposes, axis, dilations), not what import made of it.

    ```mlir
    #nn.origin<onnx, "Gemm", "fc", {transB = 1 : i64}>
    ```
    """

    name = "nn.origin"

    framework: StringAttr
    op_type: StringAttr
    layer: StringAttr
    attributes: DictionaryAttr

    @staticmethod
    def of(framework: str, op_type: str, layer: str, attributes: Mapping[str, Attribute] | None = None) -> OriginAttr:
        return OriginAttr(
            StringAttr(framework), StringAttr(op_type), StringAttr(layer), DictionaryAttr(attributes or {})
        )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            framework = parser.parse_identifier(" (the source framework)")
            parser.parse_punctuation(",")
            op_type = parse_text(parser, "operator type")
            parser.parse_punctuation(",")
            layer = parse_text(parser, "layer name")
            attributes: dict[str, Attribute] = {}
            if parser.parse_optional_punctuation(",") is not None:
                attributes = parser.parse_optional_dictionary_attr_dict()
        return StringAttr(framework), StringAttr(op_type), StringAttr(layer), DictionaryAttr(attributes)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.framework.data}, ")
            printer.print_string_literal(self.op_type.data)
            printer.print_string(", ")
            printer.print_string_literal(self.layer.data)
            if self.attributes.data:
                printer.print_string(", ")
                printer.print_attr_dict(self.attributes.data)


@dataclass(frozen=True)
class External:
    """What `#nn.external` holds: an array, known by key, and the tensor type it has."""

    weight: Weight
    type: Tensor


@irdl_attr_definition
class ExternalAttr(Data[External]):
    """An array that lives beside the text, in `<stem>.safetensors` or in the named file of the same folder.

    ```mlir
    #nn.external<"conv1.weight", tensor<64x3x7x7xf32>>
    #nn.external<"backbone.safetensors#conv1.weight", tensor<64x3x7x7xf32>>
    #nn.external<"conv1.weight.folded", tensor<2xf32>, "0x0000803F00000040">
    ```
    The last form holds its bytes (little-endian) in the text: how an array without a file prints on stdout.
    """

    name = "nn.external"

    @property
    def type(self) -> Tensor:
        return self.data.type

    @property
    def array(self) -> Array:
        """The values, of the type's shape. Raises WeightError when missing, or when shape or type differ."""
        from ...weights import WeightError

        array = self.data.weight.array
        if array.shape != self.type.get_shape() or array.dtype != numpy_dtype(self.type.element_type):
            raise WeightError(
                f"array '{self.data.weight.key}' is {array.dtype}{list(array.shape)}, the module says {self.type}"
            )
        return array

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> External:
        with parser.in_angle_brackets():
            reference = parse_text(parser, "key")
            parser.parse_punctuation(",")
            type_ = parser.parse_type()
            if not isinstance(type_, TensorType):
                parser.raise_error("tensor type expected")
            if parser.parse_optional_punctuation(",") is not None:
                weight = Weight(reference, array=_parse_hex(parser, type_))
            else:
                weight = _reference(parser, reference)
        return External(weight, type_)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            print_weight(printer, self.data.weight)
            printer.print_string(", ")
            printer.print_attribute(self.data.type)
            if not _is_referenced(printer, self.data.weight):
                printer.print_string(f', "0x{self.array.tobytes().hex().upper()}"')


def _parse_hex(parser: AttrParser, type_: Tensor) -> Array:
    import numpy as np

    text = parser.parse_str_literal(" (bytes as hex)")
    try:
        data = bytes.fromhex(text.removeprefix("0x"))
        return np.frombuffer(data, numpy_dtype(type_.element_type)).reshape(type_.get_shape())
    except ValueError as e:
        parser.raise_error(f"malformed bytes: {e}")


def _reference(parser: AttrParser, reference: str) -> Weight:
    """The weight behind `"key"` or `"file.safetensors#key"`, looked up beside the module only."""
    module = Path(parser.lexer.input.name)
    file, sharp, key = reference.rpartition("#")
    if not sharp or not file.endswith(".safetensors"):
        file, key = "", reference
    if file and Path(file).name != file:
        parser.raise_error(f"'{file}': arrays are read only from the module's own folder")
    if module.name.startswith("<"):
        return Weight(key, path=Path(file) if file else None)
    return Weight(key, path=module.with_name(file) if file else side_file_of(module))


def _is_referenced(printer: Printer, weight: Weight) -> bool:
    return (isinstance(printer, ModulePrinter) and printer.sink is not None) or not weight.in_memory_only


def print_weight(printer: Printer, weight: Weight) -> None:
    """The quoted key: plain when the printer writes the side file, with the file's name when the array stays where it is."""
    if isinstance(printer, ModulePrinter) and printer.sink is not None:
        printer.print_string_literal(printer.sink.key_of(weight))
    elif weight.path is not None:
        printer.print_string_literal(f"{weight.path.name}#{weight.key}")
    else:
        printer.print_string_literal(weight.key)


INLINE_CHANNELS = 16


@dataclass(frozen=True)
class QParams:
    """How integers stand for reals: `real = (q - zero_point) * scale`, float32 scales, per tensor or along `axis`.

    `scale` and `zero_point` hold one number per tensor or one per index of `axis`; longer than 16, an external float32 array
    (zero points are then all equal to the one number given).
    """

    storage: IntegerType
    scale: tuple[float, ...] | Weight
    zero_point: tuple[int, ...] = (0,)
    axis: int | None = None

    def scales(self) -> Array:
        """float32, shape [] per tensor or [channels]."""
        import numpy as np

        if isinstance(self.scale, Weight):
            return self.scale.array
        scales = np.array(self.scale, np.float32)
        return scales[0] if self.axis is None else scales

    def zero_points(self) -> Array:
        """int32, shape [] when all are equal, else [channels]."""
        import numpy as np

        points = np.array(self.zero_point, np.int32)
        return points[0] if len(self.zero_point) == 1 else points


@irdl_attr_definition
class QParamsAttr(Data[QParams]):
    """Quantization parameters; scales print so that they re-parse to the same float32, a zero point of 0 is left out.

    ```mlir
    #nn.qparams<i8, scale = 0.023529412, zero_point = -128>
    #nn.qparams<i8, scale = [0.1, 0.2], axis = 0>
    #nn.qparams<i8, scale = "conv1.weight.scale", axis = 0>
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
    ) -> QParamsAttr:
        """Parameters from numbers; vectors longer than 16 go beside the text under `key`. Scales are rounded to float32."""
        import numpy as np

        scales = np.asarray(scale, np.float32)
        points = (zero_point,) if isinstance(zero_point, int) else tuple(int(z) for z in zero_point)
        points = points[:1] if len(set(points)) == 1 else points
        if scales.size > INLINE_CHANNELS:
            return QParamsAttr(QParams(storage, Weight(key, array=scales), points, axis))
        return QParamsAttr(QParams(storage, tuple(float(s) for s in scales.reshape(-1)), points, axis))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> QParams:
        with parser.in_angle_brackets():
            storage = parser.parse_type()
            if not isinstance(storage, IntegerType):
                parser.raise_error("integer type expected")
            parser.parse_punctuation(",")
            parser.parse_keyword("scale")
            parser.parse_punctuation("=")
            reference = parse_optional_text(parser)  # pyright: ignore[reportArgumentType]
            scale = (
                _parse_list(parser, parse_number) if reference is None else _parse_scale_reference(parser, reference)
            )
            points, axis = (0,), None
            while parser.parse_optional_punctuation(",") is not None:
                match parser.parse_keyword_in(("zero_point", "axis")):
                    case "zero_point":
                        parser.parse_punctuation("=")
                        points = _parse_list(parser, lambda p: p.parse_integer(allow_boolean=False))
                    case _:
                        parser.parse_punctuation("=")
                        axis = parser.parse_integer(allow_boolean=False, allow_negative=False)
        return QParams(storage, scale, points, axis)

    def print_parameter(self, printer: Printer) -> None:
        p = self.data
        with printer.in_angle_brackets():
            printer.print_attribute(p.storage)
            printer.print_string(", scale = ")
            if isinstance(p.scale, Weight):
                print_weight(printer, p.scale)
                if not _is_referenced(printer, p.scale):
                    printer.print_string(f' "0x{p.scale.array.tobytes().hex().upper()}"')
            else:
                _print_list(printer, [f32_text(s) for s in p.scale], p.axis is not None)
            if any(p.zero_point):
                printer.print_string(", zero_point = ")
                _print_list(printer, [str(z) for z in p.zero_point], len(p.zero_point) > 1)
            if p.axis is not None:
                printer.print_string(f", axis = {p.axis}")

    def verify(self) -> None:
        from xdsl.utils.exceptions import VerifyException

        from ...dtypes import integer_range

        p = self.data
        low, high = integer_range(p.storage)
        if p.axis is None and (isinstance(p.scale, Weight) or len(p.scale) != 1 or len(p.zero_point) != 1):
            raise VerifyException("per-tensor parameters have one scale and one zero point")
        if not isinstance(p.scale, Weight):
            if not all(0 < s < float("inf") for s in p.scale):
                raise VerifyException("scales must be positive and finite")
            if len(p.zero_point) not in (1, len(p.scale)):
                raise VerifyException(f"{len(p.zero_point)} zero points for {len(p.scale)} scales")
        if not all(low <= z <= high for z in p.zero_point):
            raise VerifyException(f"zero points must lie in [{low}, {high}]")


def _parse_scale_reference(parser: AttrParser, reference: str) -> Weight:
    import numpy as np

    if (text := parser.parse_optional_str_literal()) is None:
        return _reference(parser, reference)
    try:
        return Weight(reference, array=np.frombuffer(bytes.fromhex(text.removeprefix("0x")), np.float32))
    except ValueError as e:
        parser.raise_error(f"malformed bytes: {e}")


def _parse_list(parser: AttrParser, parse: Any) -> tuple[Any, ...]:
    values = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse(parser))
    return (parse(parser),) if values is None else tuple(values)


def _print_list(printer: Printer, texts: Sequence[str], brackets: bool) -> None:
    printer.print_string(f"[{', '.join(texts)}]" if brackets else texts[0])


@irdl_attr_definition
class RangeAttr(Data[tuple[float, float]]):
    """The smallest and largest value seen, float32, printed exactly: `#nn.range[-2.5, 3.75]`."""

    name = "nn.range"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[float, float]:
        values = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_number(parser))
        if len(values) != 2:
            parser.raise_error("two numbers expected")
        return values[0], values[1]

    def print_parameter(self, printer: Printer) -> None:
        _print_list(printer, [f32_text(v) for v in self.data], True)


@irdl_attr_definition
class RealsAttr(Data[tuple[float, ...]]):
    """A list of float32 numbers, printed exactly: `#nn.reals[1.0, 1.0, 2.0, 2.0]`."""

    name = "nn.reals"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[float, ...]:
        return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_number(parser)))

    def print_parameter(self, printer: Printer) -> None:
        _print_list(printer, [f32_text(v) for v in self.data], True)


NN_ATTRIBUTES: tuple[type[Attribute], ...] = (
    LayoutAttr,
    AutoPadAttr,
    PadModeAttr,
    PredicateAttr,
    DepthModeAttr,
    ResizeModeAttr,
    CoordinatesAttr,
    NearestAttr,
    ParamsSourceAttr,
    OriginAttr,
    ExternalAttr,
    QParamsAttr,
    RangeAttr,
    RealsAttr,
)
