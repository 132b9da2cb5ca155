"""The common parts of `ascend` operations: the text form of `nn`, element type sets, data formats and windows.

Names, defaults and type sets are those of the Ascend IR headers (`inc/ops` of CANN). `DEVIATION` states where an operation
departs from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from ..nn.base import TEXT, Bool, Ints, NNOp, Text, ints
from ..nn.properties import number_defaults
from ..nn.shapes import DYNAMIC, Shape, element_of, known, same_pads, shape_of, window_size
from ..nn.window import WindowOp

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

i4: IntegerType = IntegerType(4)
ui8: IntegerType = IntegerType(8, Signedness.UNSIGNED)
ui16: IntegerType = IntegerType(16, Signedness.UNSIGNED)
ui32: IntegerType = IntegerType(32, Signedness.UNSIGNED)
ui64: IntegerType = IntegerType(64, Signedness.UNSIGNED)

ElementTypes = tuple[Attribute, ...]

F: ElementTypes = (f16, f32)
FB: ElementTypes = (*F, bf16)
FBD: ElementTypes = (*FB, f64)
SIGNED: ElementTypes = (i8, i16, i32, i64)
REAL_NUMBER: ElementTypes = (*FBD, *SIGNED, ui8, ui16, ui32, ui64)
"""The headers' RealNumberType, and Number and Basic without the complex and qint types, which have no element type here."""
INDEX: ElementTypes = (i32, i64)
ALL: ElementTypes = (*REAL_NUMBER, i1, i4)

DATA_TYPES: Mapping[int, Attribute] = {
    0: f32,
    1: f16,
    2: i8,
    3: i32,
    4: ui8,
    6: i16,
    7: ui16,
    8: ui32,
    9: i64,
    10: ui64,
    11: f64,
    12: i1,
    27: bf16,
    29: i4,
}
"""Element types by the number in `dtype` and `dst_type` (the DataType enum of CANN)."""

FALSE: Bool = IntegerAttr.from_bool(False)
TRUE: Bool = IntegerAttr.from_bool(True)

FLOAT32_DEVIATION = "float32 operands are accepted, which the device computes in float16"


def int_list(*values: int) -> Ints:
    """The attribute of an `INTS` property."""
    return DenseArrayBase.from_list(i64, list(values))


def data_type_number(element: Attribute) -> int:
    """The number of an element type in `DATA_TYPES`. Raises VerifyException for a type without one."""
    for number, each in DATA_TYPES.items():
        if each == element:
            return number
    raise VerifyException(f"Ascend IR has no number for {element}")


@dataclass(frozen=True)
class Meaning:
    """The meaning of an operation in `nn`: an operation on stand-ins, and how its operands are picked from those of the
    `ascend` operation; by default the first ones.
    """

    op: NNOp
    arrange: Callable[[Sequence[Array]], Sequence[Array]] | None = None


Counterpart = type[NNOp] | None


def stand_ins(types: Sequence[Attribute]) -> list[SSAValue]:
    """Stand-ins of these types: an operation that only carries a meaning must not use values of the module."""
    return list(Block(arg_types=types).args)


_Op = TypeVar("_Op", bound="AscendOp")


class AscendOp(NNOp):
    """Base of the `ascend` operations: pure, with `origin`, checked element types and inferred result types."""

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {}
    """The element types that each operand takes."""
    DEVIATION: ClassVar[str] = ""
    """The difference between the operation and the Ascend IR header; empty if there is none."""
    MEANS: ClassVar[Counterpart] = None
    """The `nn` operation with the same operands, results and numbers; kernel, form in files and lowering rule follow from it."""

    def meaning(self) -> Meaning:
        """The meaning for floats, and for integers that are only moved; the kernel and the form in files follow from it.

        Raises TypeError if `nn` has no counterpart.
        """
        if self.MEANS is None:
            raise TypeError(f"{self.name} has no counterpart in nn")
        numbers: dict[str, Any] = {n: self.properties[n] for n in number_defaults(self.MEANS) if n in self.properties}
        return self.as_nn(self.MEANS, **numbers)

    @classmethod
    def like(cls, op: Any) -> dict[str, Any]:
        """The properties with which it computes an operation of `nn`: the inverse of `meaning`.

        Raises VerifyException for padding that depends on sizes that are not known.
        """
        return {name: op.properties[name] for name in number_defaults(op.__class__)}

    @classmethod
    def has_meaning(cls) -> bool:
        """Whether operations of this class have a counterpart in `nn`."""
        return cls.MEANS is not None or cls.meaning is not AscendOp.meaning

    def as_nn(self, kind: type[NNOp], operands: int | None = None, **properties: Any) -> Meaning:
        """An `nn` operation on the operands, or only on the first ones if the others have become properties."""
        return Meaning(kind.make(*stand_ins(self.operand_types[:operands]), **properties))

    def infer(self) -> Sequence[Tensor]:
        for name, types in self.TYPES.items():
            operand = cast("SSAValue | Sequence[SSAValue] | None", getattr(self, name))
            group = (operand,) if isinstance(operand, SSAValue) else operand or ()
            for value in group:
                self.check_element(name, element_of(value), types)
        return self.derive()

    def derive(self) -> Sequence[Tensor]:
        """The result types, from operands whose element types are legal: by default those of the meaning.

        Raises VerifyException when they do not fit.
        """
        return [cast(Tensor, type_) for type_ in self.meaning().op.result_types]

    def check_element(self, what: str, element: Attribute, types: Iterable[Attribute]) -> None:
        """Raises VerifyException if the element type of `what` is not one of these."""
        if element not in types:
            kind = self.name.partition(".")[2]
            raise VerifyException(f"{what} is of {element}, {kind} takes {', '.join(map(str, types))}")


def operation(kind: type[_Op]) -> type[_Op]:
    """Defines an operation, which has the name of its class without `Op`."""
    kind.name = f"ascend.{kind.__name__.removesuffix('Op')}"
    return irdl_op_definition(kind)


def declare(means: Counterpart = None, /, **types: ElementTypes) -> Callable[[type[_Op]], type[_Op]]:
    """Defines an operation with its `MEANS` and its `TYPES`; those that are not given are those of its base."""

    def define(kind: type[_Op]) -> type[_Op]:
        operation(kind)  # xDSL takes what a class has before this for a part of the definition
        kind.MEANS, kind.TYPES = means or kind.MEANS, types or kind.TYPES
        return kind

    return define


def check_range(what: str, values: Iterable[int], low: int, high: int) -> None:
    """Raises VerifyException for a known number out of range."""
    for value in values:
        if known(value) and not low <= value <= high:
            raise VerifyException(f"{what} {value} is not in [{low}, {high}]")


def check_choice(what: str, value: StringAttr, choices: Sequence[str]) -> str:
    """The string, which must be one of the choices."""
    if value.data not in choices:
        raise VerifyException(f"{what} '{value.data}' is not one of {', '.join(choices)}")
    return value.data


def check_false(what: str, value: Bool) -> None:
    """Raises VerifyException for a mode of the library that is not described here."""
    if value.value.data:
        raise VerifyException(f"{what} must be false")


class FormatOp(AscendOp):
    """An operation on tensors whose axes `data_format` names: `NCHW`, `NHWC`, `NCDHW`, `NDHWC`."""

    FORMATS: ClassVar[tuple[str, ...]] = ("NCHW", "NHWC")

    data_format: Text = prop_def(TEXT)

    @property
    def format(self) -> str:
        """The data format. Raises VerifyException for one that the operation does not know."""
        return check_choice("data_format", self.data_format, self.FORMATS)

    @property
    def channel_axis(self) -> int:
        return self.format.index("C")

    @property
    def channels_last(self) -> bool:
        return self.format.endswith("C")

    @property
    def nn_layout(self) -> str:
        return "nhwc" if self.channels_last else "nchw"

    @property
    def space(self) -> Shape:
        """The spatial axes."""
        return tuple(i for i, axis in enumerate(self.format) if axis not in "NC")

    def spatial(self, entries: Sequence[int]) -> Shape:
        """The entries of the spatial axes of a list with one entry per axis."""
        return tuple(entries[i] for i in self.space)

    def arrange(self, batch: int, channels: int, spatial: Sequence[int]) -> Shape:
        """A shape in this data format."""
        rest = iter(spatial)
        return tuple({"N": batch, "C": channels}[a] if a in "NC" else next(rest) for a in self.format)

    def check_rank(self, what: str, value: SSAValue) -> Shape:
        shape = shape_of(value)
        if len(shape) != len(self.format):
            raise VerifyException(f"{what} must be of rank {len(self.format)} ({self.format}), not {len(shape)}")
        return shape

    def per_axis(self, what: str, attribute: Ints, neutral: int = 1) -> Shape:
        """The spatial entries of a list that has one entry per axis, `neutral` for N and C."""
        values = ints(attribute)
        if len(values) != len(self.format):
            raise VerifyException(f"{what} has {len(values)} entries, expected {len(self.format)} ({self.format})")
        if any(v != neutral for i, v in enumerate(values) if i not in self.space):
            raise VerifyException(f"{what} {list(values)} must be {neutral} on N and C ({self.format})")
        return self.spatial(values)

    def pad_pairs(self, attribute: Ints) -> tuple[tuple[int, int], ...]:
        """(begin, end) per spatial axis of a list in Ascend's order: top, bottom, left, right."""
        values, n = ints(attribute), len(self.space)
        if len(values) != 2 * n:
            raise VerifyException(
                f"pads has {len(values)} entries, expected {2 * n}: begin and end of each spatial axis"
            )
        return tuple(zip(values[::2], values[1::2], strict=True))


def window_sizes(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[tuple[int, int]],
    ceil: bool = False,
) -> Shape:
    """Output sizes of a sliding window, DYNAMIC if the size of the input or the kernel is."""
    rows = zip(sizes, kernel, strides, dilations, pads, strict=True)
    return tuple(window_size(s, k, st, d, b, e, ceil) if known(k) else DYNAMIC for s, k, st, d, (b, e) in rows)


def same_pad_pairs(sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The padding of TensorFlow's SAME for known sizes; an odd element goes to the end."""
    return tuple(same_pads(s, k, st, 1, upper=True) for s, k, st in zip(sizes, kernel, strides, strict=True))


def full_rank(data_format: str, spatial: Sequence[int], neutral: int = 1) -> Ints:
    """A list with one entry per axis of a data format, `neutral` for N and C, and for an axis of size 1 in front of the only
    one of space.
    """
    rest = iter((neutral, *spatial) if len(spatial) == 1 else spatial)
    return int_list(*(neutral if axis in "NC" else next(rest) for axis in data_format))


def pads_of(op: WindowOp) -> list[int]:
    """The pads of an operation of `nn` in Ascend's order, of two axes at least. Raises VerifyException where sizes that are not
    known decide.
    """
    rows = zip(op.spatial(shape_of(op.operands[0])), op.stride_list, strict=True)
    sizes = [
        1 if stride == 1 and not known(size) else size for size, stride in rows
    ]  # those of SAME are the same for all
    if (pads := op.resolved_pads(sizes)) is None:
        raise VerifyException("auto_pad depends on sizes that are not known")
    n = len(sizes)
    pairs = [(0, 0)] * (n == 1) + [*zip(pads[:n], pads[n:], strict=True)]
    return [p for pair in pairs for p in pair]


__all__ = ["AscendOp"]
