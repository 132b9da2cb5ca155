"""Attributes of the `nn` dialect: layouts and modes, provenance, ranges."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import Any, ClassVar, TypeVar

from xdsl.dialects.builtin import ArrayAttr, DenseIntOrFPElementsAttr, DictionaryAttr, StringAttr
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Data, ParametrizedAttribute, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ...ir.exact_text import parse_text
from ...ir.numbers import f32, f32_text, parse_f32
from .arrays import ExternalAttr
from .shapes import DYNAMIC, known, text as shape_text

_Word = TypeVar("_Word", bound=EnumAttribute[Any])


def word(cls: type[_Word]) -> type[_Word]:
    """Defines an attribute that is one of several words; its name follows from the class's."""
    words = re.sub(r"\B(?=[A-Z])", "_", cls.__name__.removesuffix("Attr"))
    cls.name = f"nn.{words.lower()}"
    return irdl_attr_definition(cls)


class Layout(StrEnum):
    """The position of channels: second (`nchw`) or last (`nhwc`), for any number of spatial axes."""

    NCHW = "nchw"
    NHWC = "nhwc"


@word
class LayoutAttr(EnumAttribute[Layout], SpacedOpaqueSyntaxAttribute):
    """`Layout` as an attribute."""


class AutoPad(StrEnum):
    """Padding that depends on sizes: the odd element goes to the end in `same_upper` (TensorFlow's SAME), else to the start."""

    SAME_UPPER = "same_upper"
    SAME_LOWER = "same_lower"


@word
class AutoPadAttr(EnumAttribute[AutoPad], SpacedOpaqueSyntaxAttribute):
    """`AutoPad` as an attribute."""


class PadMode(StrEnum):
    """The values of the border (ONNX Pad, mode): a constant, the mirrored inside, the edge itself, or the other side."""

    CONSTANT = "constant"
    REFLECT = "reflect"
    EDGE = "edge"
    WRAP = "wrap"


@word
class PadModeAttr(EnumAttribute[PadMode], SpacedOpaqueSyntaxAttribute):
    """`PadMode` as an attribute."""


class Predicate(StrEnum):
    """The comparison of two operands: `==`, `!=`, `<`, `<=`, `>`, `>=`."""

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"


@word
class PredicateAttr(EnumAttribute[Predicate], SpacedOpaqueSyntaxAttribute):
    """`Predicate` as an attribute."""


class DepthMode(StrEnum):
    """Order of the channels that depth_to_space takes apart: depth-column-row or column-row-depth (ONNX DepthToSpace)."""

    DCR = "dcr"
    CRD = "crd"


@word
class DepthModeAttr(EnumAttribute[DepthMode], SpacedOpaqueSyntaxAttribute):
    """`DepthMode` as an attribute."""


class ResizeMode(StrEnum):
    """Interpolation between input elements (ONNX Resize, mode)."""

    NEAREST = "nearest"
    LINEAR = "linear"
    CUBIC = "cubic"


@word
class ResizeModeAttr(EnumAttribute[ResizeMode], SpacedOpaqueSyntaxAttribute):
    """`ResizeMode` as an attribute."""


class Coordinates(StrEnum):
    """Mapping of an output index to an input position (ONNX Resize, coordinate_transformation_mode)."""

    HALF_PIXEL = "half_pixel"
    HALF_PIXEL_SYMMETRIC = "half_pixel_symmetric"
    PYTORCH_HALF_PIXEL = "pytorch_half_pixel"
    ALIGN_CORNERS = "align_corners"
    ASYMMETRIC = "asymmetric"


@word
class CoordinatesAttr(EnumAttribute[Coordinates], SpacedOpaqueSyntaxAttribute):
    """`Coordinates` as an attribute."""


class Nearest(StrEnum):
    """The rounding of an input position in `resize nearest` (ONNX Resize, nearest_mode)."""

    ROUND_PREFER_FLOOR = "round_prefer_floor"
    ROUND_PREFER_CEIL = "round_prefer_ceil"
    FLOOR = "floor"
    CEIL = "ceil"


@word
class NearestAttr(EnumAttribute[Nearest], SpacedOpaqueSyntaxAttribute):
    """`Nearest` as an attribute."""


class ParamsSource(StrEnum):
    """The source of quantization parameters."""

    USER = "user"
    RECORD = "record"
    DATA = "data"
    SYNTHETIC = "synthetic"


@word
class ParamsSourceAttr(EnumAttribute[ParamsSource], SpacedOpaqueSyntaxAttribute):
    """`ParamsSource` as an attribute."""


@irdl_attr_definition
class OriginAttr(ParametrizedAttribute):
    """The source layer an operation comes from: framework, operator type, layer name, and the source's attributes.

    AMCT's tables judge the source layer (its transposes, axis, dilations), not what import made of it. `modules` are the paths
    of the PyTorch modules that the layer computes, if its name does not contain them: several if the exporter has
    folded a batch norm into a convolution, the last one empty (`?` in the text) if its name is lost.

    ```mlir
    #nn.origin<onnx, "Gemm", "fc", {transB = 1 : i64}>
    #nn.origin<onnx, "Conv", "node_Conv_18" in "features.0.0" + "features.0.1">
    ```
    """

    name = "nn.origin"

    MODULE: ClassVar[str] = "module"
    """The attribute with the class of a PyTorch module that the layer is a call of."""

    framework: StringAttr
    op_type: StringAttr
    layer: StringAttr
    modules: ArrayAttr[StringAttr]
    attributes: DictionaryAttr

    @staticmethod
    def of(
        framework: str,
        op_type: str,
        layer: str,
        attributes: Mapping[str, Attribute] | None = None,
        modules: Sequence[str] = (),
    ) -> OriginAttr:
        return OriginAttr(
            StringAttr(framework),
            StringAttr(op_type),
            StringAttr(layer),
            ArrayAttr(map(StringAttr, modules)),
            DictionaryAttr(attributes or {}),
        )

    def named(self, layer: str) -> OriginAttr:
        """Returns this origin with another layer name."""
        return OriginAttr(self.framework, self.op_type, StringAttr(layer), self.modules, self.attributes)

    @property
    def module_class(self) -> str:
        """The class in torch.nn that the layer is a call of; empty for other layers."""
        found = self.attributes.data.get(self.MODULE)
        return found.data if isinstance(found, StringAttr) else ""

    @property
    def module_paths(self) -> tuple[str, ...]:
        """`modules` as text."""
        return tuple(module.data for module in self.modules)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            framework = parser.parse_identifier(context_msg=" (the source framework)")
            parser.parse_punctuation(",")
            op_type = parse_text(parser, "operator type")
            parser.parse_punctuation(",")
            layer = parse_text(parser, "layer name")
            modules: list[str] = []
            if parser.parse_optional_keyword("in") is not None:
                modules.append(_parse_module(parser))
                while parser.parse_optional_punctuation("+") is not None:
                    modules.append(_parse_module(parser))
            attributes: dict[str, Attribute] = {}
            if parser.parse_optional_punctuation(",") is not None:
                attributes = parser.parse_optional_dictionary_attr_dict()
        origin = OriginAttr.of(framework, op_type, layer, attributes, modules)
        return origin.framework, origin.op_type, origin.layer, origin.modules, origin.attributes

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.framework.data}, ")
            printer.print_string_literal(self.op_type.data)
            printer.print_string(", ")
            printer.print_string_literal(self.layer.data)
            for word, module in zip(chain([" in "], repeat(" + ")), self.module_paths, strict=False):
                printer.print_string(word)
                if module:
                    printer.print_string_literal(module)
                else:
                    printer.print_string("?")
            if self.attributes.data:
                printer.print_string(", ")
                printer.print_attr_dict(self.attributes.data)


def _parse_module(parser: AttrParser) -> str:
    return "" if parser.parse_optional_punctuation("?") is not None else parse_text(parser, "module path")


@irdl_attr_definition
class RangeAttr(Data[tuple[float, float]]):
    """The smallest and largest value seen, float32, printed exactly: `#nn.range<[-2.5, 3.75]>`."""

    name = "nn.range"

    def __init__(self, data: tuple[float, float]):
        low, high = data
        super().__init__((f32(low), f32(high)))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[float, float]:
        with parser.in_angle_brackets():
            return parse_range(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{reals_text(self.data)}>")

    def verify(self) -> None:
        low, high = self.data
        if not low <= high:
            raise VerifyException(f"[{low}, {high}] is not a valid range")


@irdl_attr_definition
class RealsAttr(Data[tuple[float, ...]]):
    """A list of float32 numbers, printed exactly: `#nn.reals<[1.0, 1.0, 2.0, 2.0]>`."""

    name = "nn.reals"

    def __init__(self, data: Sequence[float]):
        super().__init__(tuple(map(f32, data)))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[float, ...]:
        with parser.in_angle_brackets():
            return parse_reals(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{reals_text(self.data)}>")


@irdl_attr_definition
class ShapeAttr(Data[tuple[int, ...] | None]):
    """A shape as an attribute of a carried operator: sizes, `?` for an unknown one, `*` for any number of them.

    ```mlir
    #nn.shape<[1, ?, 3]>
    #nn.shape<*>
    ```
    """

    name = "nn.shape"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[int, ...] | None:
        with parser.in_angle_brackets():
            if parser.parse_optional_punctuation("*") is not None:
                return None
            return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _parse_size(parser)))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<*>" if self.data is None else f"<{shape_text(self.data)}>")

    def verify(self) -> None:
        if any(known(d) and d < 0 for d in self.data or ()):
            raise VerifyException("sizes must not be negative")


@irdl_attr_definition
class GraphAttr(ParametrizedAttribute):
    """A part of the source graph that is carried whole: a model in the source's format, as bytes, next to the text if long.

    ```mlir
    #nn.graph<#nn.external<"branch.graph", tensor<812xui8>>>
    ```
    """

    name = "nn.graph"

    data: DenseIntOrFPElementsAttr | ExternalAttr


def _parse_size(parser: AttrParser) -> int:
    if parser.parse_optional_punctuation("?") is not None:
        return DYNAMIC
    return parser.parse_integer(allow_boolean=False, allow_negative=False)


def parse_reals(parser: AttrParser) -> tuple[float, ...]:
    """Float32 numbers in square brackets."""
    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_f32(parser)))


def parse_range(parser: AttrParser) -> tuple[float, float]:
    """Two float32 numbers in square brackets: low and high."""
    start = parser.pos
    values = parse_reals(parser)
    if len(values) != 2:
        parser.raise_error("two numbers expected", start, parser.pos)
    return values[0], values[1]


def reals_text(values: Sequence[float]) -> str:
    """The numbers in the form that `parse_reals` reads."""
    return f"[{', '.join(map(f32_text, values))}]"


__all__ = [
    "AutoPad",
    "AutoPadAttr",
    "Coordinates",
    "CoordinatesAttr",
    "DepthMode",
    "DepthModeAttr",
    "GraphAttr",
    "Layout",
    "LayoutAttr",
    "Nearest",
    "NearestAttr",
    "OriginAttr",
    "PadMode",
    "PadModeAttr",
    "ParamsSource",
    "ParamsSourceAttr",
    "Predicate",
    "PredicateAttr",
    "RangeAttr",
    "RealsAttr",
    "ResizeMode",
    "ResizeModeAttr",
    "ShapeAttr",
]
