"""Element types: one table of MLIR types and their names in numpy and safetensors.

numpy is imported only when an array type is requested, so that dialects and the command line start without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from xdsl.dialects.builtin import (
    BFloat16Type,
    FixedBitwidthType,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
)
from xdsl.ir import Attribute, TypeAttribute

if TYPE_CHECKING:
    import numpy as np

    from .array import Array

Tensor = TensorType[Attribute]
"""A ranked tensor of any element type; the only value type of `nn` and `ascend`."""


class ElementType(NamedTuple):
    """An element type: in MLIR, with its names in numpy and safetensors."""

    mlir: TypeAttribute
    numpy: str
    safetensors: str


def _integer(width: int, signedness: Signedness = Signedness.SIGNLESS) -> IntegerType:
    return IntegerType(width, signedness)


ELEMENT_TYPES: tuple[ElementType, ...] = (
    ElementType(f32, "float32", "F32"),
    ElementType(f64, "float64", "F64"),
    ElementType(f16, "float16", "F16"),
    ElementType(bf16, "bfloat16", "BF16"),
    ElementType(i1, "bool", "BOOL"),
    ElementType(_integer(2), "int2", "I2"),
    ElementType(_integer(4), "int4", "I4"),
    ElementType(_integer(8), "int8", "I8"),
    ElementType(_integer(16), "int16", "I16"),
    ElementType(_integer(32), "int32", "I32"),
    ElementType(_integer(64), "int64", "I64"),
    ElementType(_integer(2, Signedness.UNSIGNED), "uint2", "U2"),
    ElementType(_integer(4, Signedness.UNSIGNED), "uint4", "U4"),
    ElementType(_integer(8, Signedness.UNSIGNED), "uint8", "U8"),
    ElementType(_integer(16, Signedness.UNSIGNED), "uint16", "U16"),
    ElementType(_integer(32, Signedness.UNSIGNED), "uint32", "U32"),
    ElementType(_integer(64, Signedness.UNSIGNED), "uint64", "U64"),
    ElementType(Float8E4M3FNType(), "float8_e4m3fn", "F8_E4M3"),
    ElementType(Float8E5M2Type(), "float8_e5m2", "F8_E5M2"),
    ElementType(Float8E8M0FNUType(), "float8_e8m0fnu", "F8_E8M0"),
    ElementType(Float4E2M1FNType(), "float4_e2m1fn", "F4_E2M1"),
)
"""Integers are signless when signed (as in MLIR) and `uiN` when unsigned; sub-byte types take one byte each in memory."""

_BY_MLIR: dict[Attribute, ElementType] = {row.mlir: row for row in ELEMENT_TYPES}
_BY_NUMPY = {row.numpy: row for row in ELEMENT_TYPES}
_BY_SAFETENSORS = {row.safetensors: row for row in ELEMENT_TYPES}
_NARROW_FLOATS = (Float8E4M3FNType, Float8E5M2Type, Float8E8M0FNUType, Float4E2M1FNType)

_WIDTHS = {row.numpy: cast(FixedBitwidthType, row.mlir).bitwidth for row in ELEMENT_TYPES}
SUB_BYTE: dict[str, int] = {name: bits for name, bits in _WIDTHS.items() if 1 < bits < 8}
"""The widths of sub-byte elements, in bits, by numpy's names. ONNX files pack several of them into a byte."""
AS_BYTES: dict[str, str] = {name: name.replace(str(bits), "8") for name, bits in SUB_BYTE.items() if "int" in name}
"""The type of 8 bits that has the same numbers, by sub-byte integer type."""
_FROM_ML_DTYPES = frozenset(
    {"bfloat16", *AS_BYTES, *(row.numpy for row in ELEMENT_TYPES if isinstance(row.mlir, _NARROW_FLOATS))}
)

_FLOATS = (Float32Type, Float64Type, Float16Type, BFloat16Type)


def numpy_dtype(element: Attribute) -> np.dtype[Any]:
    """The numpy dtype of an MLIR element type. Raises ValueError for a type outside the table."""
    if (row := _BY_MLIR.get(element)) is None:
        raise ValueError(f"no array type for element type {element}")
    return dtype_named(row.numpy)


def has_numpy_dtype(element: Attribute) -> bool:
    """Whether arrays of an MLIR element type exist."""
    return element in _BY_MLIR


def dtype_named(name: str) -> np.dtype[Any]:
    """The numpy dtype called `name`; bfloat16, floats of 8 and 4 bits and integers of 4 and 2 come from ml_dtypes."""
    import numpy as np

    if name not in _FROM_ML_DTYPES:
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))


def finfo(dtype: np.dtype[Any]) -> np.finfo[Any]:
    """The limits of a float dtype, including bfloat16."""
    import numpy as np

    if dtype.name not in _FROM_ML_DTYPES:
        return np.finfo(dtype)
    import ml_dtypes

    return cast("np.finfo[Any]", ml_dtypes.finfo(dtype))


def element_type(dtype: np.dtype[Any]) -> TypeAttribute:
    """The MLIR element type of a numpy dtype. Raises ValueError for a dtype outside the table, or of foreign byte order."""
    return _row(dtype).mlir


def as_stored(array: Array) -> Array:
    """The array in the form of text and files: signed numbers narrower than a byte are sign-extended; a view if they are."""
    import numpy as np

    if array.dtype.kind != "V" or AS_BYTES.get(array.dtype.name) != "int8":
        return array
    stored, half = array.view(np.int8), 1 << (SUB_BYTE[array.dtype.name] - 1)
    return stored if stored.max(initial=0) < half and stored.min(initial=0) >= -half else array.astype(np.int8)


def from_stored(data: bytes | Array, dtype: np.dtype[Any]) -> Array:
    """The elements in bytes of a text or file, flat; only booleans are copied: true is any byte but 0 (xDSL writes 255)."""
    import numpy as np

    return np.frombuffer(data, np.uint8) != 0 if dtype == np.bool_ else np.frombuffer(data, dtype)


def safetensors_name(dtype: np.dtype[Any]) -> str:
    """The safetensors name of a numpy dtype. Raises ValueError for a dtype outside the table."""
    return _row(dtype).safetensors


def _row(dtype: np.dtype[Any]) -> ElementType:
    if (row := _BY_NUMPY.get(dtype.name)) is None or not dtype.isnative:
        raise ValueError(f"no element type for array type {dtype!r}")
    return row


def dtype_of_safetensors(name: str) -> np.dtype[Any] | None:
    """The numpy dtype of a safetensors type name; None if it is not in the table."""
    row = _BY_SAFETENSORS.get(name)
    return None if row is None else dtype_named(row.numpy)


def is_float(element: Attribute) -> bool:
    """Whether an element type is a float that operations compute with."""
    return isinstance(element, _FLOATS)


def is_narrow_float(element: Attribute) -> bool:
    """Whether an element type is a float of 8 or 4 bits, in which numbers are only stored (`number_formats.py`)."""
    return isinstance(element, _NARROW_FLOATS)


def integer_range(element: IntegerType) -> tuple[int, int]:
    """Smallest and largest value: two's complement for signless and signed, 0 based for unsigned."""
    bits = element.width.data
    if element.signedness.data == Signedness.UNSIGNED:
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
