"""TensorProto and arrays: sizes are checked before anything is read, and large data is viewed, not copied."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...dialects.nn.shapes import Shape, known
from ...ir.dtypes import as_stored, dtype_named, from_stored
from ...support.diagnostics import CompileError
from .schema import DATA_TYPES, REFERENCE, Message, TensorProto, TensorShapeProto

Array = np.ndarray[Any, np.dtype[Any]]

_NAMES: dict[int, str] = {
    DATA_TYPES["DT_FLOAT"]: "float32",
    DATA_TYPES["DT_DOUBLE"]: "float64",
    DATA_TYPES["DT_HALF"]: "float16",
    DATA_TYPES["DT_BFLOAT16"]: "bfloat16",
    DATA_TYPES["DT_BOOL"]: "bool",
    DATA_TYPES["DT_INT2"]: "int2",
    DATA_TYPES["DT_INT4"]: "int4",
    DATA_TYPES["DT_INT8"]: "int8",
    DATA_TYPES["DT_INT16"]: "int16",
    DATA_TYPES["DT_INT32"]: "int32",
    DATA_TYPES["DT_INT64"]: "int64",
    DATA_TYPES["DT_UINT2"]: "uint2",
    DATA_TYPES["DT_UINT4"]: "uint4",
    DATA_TYPES["DT_UINT8"]: "uint8",
    DATA_TYPES["DT_UINT16"]: "uint16",
    DATA_TYPES["DT_UINT32"]: "uint32",
    DATA_TYPES["DT_UINT64"]: "uint64",
}
"""numpy's (or ml_dtypes') names of element types with arrays; each element takes whole bytes, also those of 4 and 2 bits."""

_CODES = {name: code for code, name in _NAMES.items()}
_TYPE_NAMES = {code: name for name, code in DATA_TYPES.items()}

_LISTS = {
    "float32": "float_val",
    "float64": "double_val",
    "float16": "half_val",
    "bfloat16": "half_val",
    "bool": "bool_val",
    "int64": "int64_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
}
"""The list of numbers in a TensorProto for elements of a type; `int_val` for all others."""
_LARGEST = 1 << 48
"""The maximum number of elements of an array, without its empty axes."""
_LARGEST_FILLED = 1 << 32
"""The maximum number of bytes of an array that is stored in fewer bytes."""
_MAX_RANK = 64
"""The largest rank of numpy."""


def dtype_of(code: int, where: str) -> np.dtype[Any]:
    """The dtype of an element type, or of a reference to one. Raises CompileError for one without arrays here."""
    if (name := _NAMES.get(code % REFERENCE)) is None:
        hint = "only numbers and truth values are: save the model without others, or cut them off by --inputs and --outputs"
        raise CompileError(f"element type {type_name(code)} is not supported", where=where, hint=hint)
    return dtype_named(name)


def code_of(dtype: np.dtype[Any]) -> int:
    """The number of an element type. Raises KeyError for a dtype that TensorFlow lacks."""
    return _CODES[dtype.name]


def type_name(code: int) -> str:
    """`DT_FLOAT`, or the number of a type that is unknown."""
    return _TYPE_NAMES.get(code, str(code))


def array_of(tensor: Any, where: str, data: Array | None = None) -> Array:
    """The values of a TensorProto, read-only; `data` are its bytes if they are still in the file.

    A list with too few numbers repeats its last one, an empty one is zero (as in `Tensor::FromProto`); one number for all
    is a view of that number. Raises CompileError, located at `where`, for types without arrays and data that does not fit.
    """
    dtype, shape = dtype_of(tensor.dtype, where), shape_of(tensor.tensor_shape, where)
    if tensor.tensor_content:
        data = np.frombuffer(tensor.tensor_content, np.uint8)
    if data is not None:
        return decoded(data, dtype, shape, where)
    return _filled(_listed(tensor, dtype), shape, where)


def shape_of(shape: Any, where: str) -> tuple[int, ...]:
    """The sizes in a TensorShapeProto. Raises CompileError, located at `where`, unless all are known."""
    sizes = tuple(d.size for d in shape.dim)
    if shape.unknown_rank or any(size < 0 for size in sizes):
        raise CompileError("has a value, but no known shape", where=where)
    if len(sizes) > _MAX_RANK:
        raise CompileError(f"has {len(sizes)} axes, at most {_MAX_RANK} are supported", where=where)
    if prod(size for size in sizes if size) > _LARGEST:
        raise CompileError(f"is too large: its shape is {list(sizes)}", where=where)
    return sizes


def decoded(data: Array, dtype: np.dtype[Any], shape: Sequence[int], where: str) -> Array:
    """The elements in a run of bytes. Raises CompileError, located at `where`, if their number does not fit `shape`."""
    if data.size != (size := prod(shape) * dtype.itemsize):
        raise CompileError(f"holds {data.size} bytes, but its shape {list(shape)} needs {size}", where=where)
    return from_stored(data, dtype).reshape(shape)


def tensor_proto(array: Array) -> Any:
    """The TensorProto of an array. Raises KeyError for a dtype that TensorFlow lacks."""
    tensor = TensorProto(dtype=code_of(array.dtype), tensor_content=as_stored(array).tobytes())
    for size in array.shape:
        tensor.tensor_shape.dim.add(size=size)
    return tensor


def shape_proto(shape: Shape | None) -> Message:
    """The TensorShapeProto of sizes that may be unknown, or of an unknown number of them."""
    message = TensorShapeProto(unknown_rank=shape is None)
    for size in shape or ():
        message.dim.add(size=size if known(size) else -1)
    return message


def _listed(tensor: Any, dtype: np.dtype[Any]) -> Array:
    """The numbers in a TensorProto's list; 16-bit floats are listed as their bits."""
    field = _LISTS.get(dtype.name, "int_val")
    numbers = np.array(getattr(tensor, field), np.int32 if field in {"int_val", "half_val"} else dtype)
    return numbers.astype(np.uint16).view(dtype) if field == "half_val" else numbers.astype(dtype)


def _filled(values: Array, shape: Sequence[int], where: str) -> Array:
    count, size = prod(shape), prod(shape) * values.itemsize
    if values.size > count > 0:
        raise CompileError(f"lists {values.size} numbers, but its shape {list(shape)} has {count}", where=where)
    if size > _LARGEST_FILLED and values.size < count:
        raise CompileError(f"would take {size} bytes, but lists {values.size} numbers only", where=where)
    if not values.size:
        return np.broadcast_to(np.zeros((), values.dtype), shape)
    if values.size == 1:
        return np.broadcast_to(values[0], shape)
    return np.append(values, np.full(max(0, count - values.size), values[-1]))[:count].reshape(shape)
