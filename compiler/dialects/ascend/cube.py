"""The common parts of the operations of the matrix engine: rows of element types, `offset_x`, and what may follow an
int32 result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple, cast

from xdsl.dialects.builtin import IntegerType, bf16, f16, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import prop_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor, integer_range
from ..nn.base import INT, Int, integer
from ..nn.shapes import compatible, element_of, tensor
from .base import AscendOp, ElementTypes, check_range, i8, i16


class Row(NamedTuple):
    """The types of bias, result and weight for one element type of x; the first result type is inferred."""

    bias: ElementTypes
    y: ElementTypes
    weight: Attribute | None = None
    """The type of the weight; None for that of x."""


FLOAT16_ROW = Row(bias=(f16, f32), y=(f16, f32))
BFLOAT16_ROW = Row(bias=(bf16, f32), y=(bf16, f32))
FLOAT32_ROW = Row(bias=(f32,), y=(f32,))
INT8_ROW = Row(bias=(i32,), y=(i32,))
INT16_ROW = Row(bias=(i32,), y=(i32,), weight=i8)

DATA: ElementTypes = (i8, i16)
"""The types of x that give an exact int32 result."""

INT16_DEVIATION = "has an int16 row (int8 weight), as AMCT's files have it, which the header's table lacks"

PACKED = "ascend.packed"
"""Attribute of layers whose weights have four bits each: files contain two of them, neighbours along the input channels, in a
byte (AMCT for PyTorch).
"""

AFTER_INT32: set[str] = {
    "ascend.AscendDequant",
    "ascend.AscendRequant",
    "ascend.AscendDequantS16",
}
"""The operations that may take the int32 result of a cube operation."""


ROWS: Mapping[Attribute, Row] = {i8: INT8_ROW, f16: FLOAT16_ROW, bf16: BFLOAT16_ROW, f32: FLOAT32_ROW}
"""The rows of the headers, by the type of x."""
WIDE_ROWS: Mapping[Attribute, Row] = {i8: INT8_ROW, i16: INT16_ROW, **ROWS}
"""The rows of layers whose activations AMCT quantizes to int16."""


class CubeOp(AscendOp):
    """An operation of the matrix engine: x of int8 or int16 and an int8 weight give an exact int32 result, equal float types a
    float one.
    """

    ROWS: ClassVar[Mapping[Attribute, Row]] = ROWS

    @property
    def zero_point(self) -> int:
        """The offset to subtract from an integer x."""
        return 0

    def row(self, x: SSAValue, weight: SSAValue, bias: SSAValue | None, weight_name: str = "filter") -> Row:
        """The row of these operand types. Raises VerifyException if there is none."""
        element = element_of(x)
        self.check_element("x", element, self.ROWS)
        row = self.ROWS[element]
        if (wanted := row.weight or element) != element_of(weight):
            rule = "they must be equal" if row.weight is None else f"it must be {wanted}"
            raise VerifyException(f"x is of {element}, {weight_name} of {element_of(weight)}: {rule}")
        if bias is not None:
            self.check_element(f"bias next to {element} operands", element_of(bias), row.bias)
        check_offset_x(element, self.zero_point, "operands")
        return row

    def verify_operation(self) -> None:
        (inferred,) = self.infer()
        declared = cast(Tensor, self.results[0].type)
        types = self.ROWS[element_of(self.data_operand)].y
        if declared.element_type in types:
            inferred = tensor(declared.element_type, inferred.get_shape())
        if not compatible(declared, inferred):
            raise VerifyException(f"result is declared {declared}, operands and properties give {inferred}")
        check_int32_uses(self)

    @property
    def data_operand(self) -> SSAValue:
        """The operand that is multiplied with the weight."""
        return self.operands[0]


class OffsetOp(CubeOp):
    """An operation with `offset_x`, the zero point of an integer x: it is subtracted from x; padding contributes 0."""

    offset_x: Int = prop_def(INT, default_value=integer(0))

    @property
    def zero_point(self) -> int:
        return self.offset_x.value.data


def check_offset_x(element: Attribute, offset_x: int, what: str = "x") -> None:
    """Raises VerifyException for an offset that is not a number of the type of x, or is not 0 although x is not an integer."""
    if element in DATA:
        check_range("offset_x", [offset_x], *integer_range(cast(IntegerType, element)))
    elif offset_x:
        raise VerifyException(f"offset_x is for integer {what}")


def check_int32_uses(op: Operation) -> None:
    """An int32 accumulator is only dequantized or requantized (the headers' rule for int8 cube operations)."""
    result = op.results[0]
    if element_of(result) != i32:
        return
    for use in result.uses:
        if use.operation.name not in AFTER_INT32:
            raise VerifyException(f"its int32 result feeds '{use.operation.name}', AscendDequant must follow")


__all__ = ["CubeOp"]
