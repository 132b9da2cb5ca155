"""Tensors and types of a model: sizes are checked before anything is read, and large data is viewed, not copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, TypeProto, numpy_helper
from xdsl.utils.exceptions import VerifyException

from ...dialects.nn.shapes import DYNAMIC, LARGEST, tensor as tensor_of_sizes
from ...ir.dtypes import AS_BYTES, SUB_BYTE, Tensor, dtype_named, element_type
from ...ir.weights import digest_of
from ...support.diagnostics import CompileError
from ...support.files import lies_beside
from . import packing

Array = np.ndarray[Any, np.dtype[Any]]

ELEMENT_NAMES: dict[int, str] = {
    TensorProto.FLOAT: "float32",
    TensorProto.DOUBLE: "float64",
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.BOOL: "bool",
    TensorProto.INT2: "int2",
    TensorProto.INT4: "int4",
    TensorProto.INT8: "int8",
    TensorProto.INT16: "int16",
    TensorProto.INT32: "int32",
    TensorProto.INT64: "int64",
    TensorProto.UINT2: "uint2",
    TensorProto.UINT4: "uint4",
    TensorProto.UINT8: "uint8",
    TensorProto.UINT16: "uint16",
    TensorProto.UINT32: "uint32",
    TensorProto.UINT64: "uint64",
    TensorProto.FLOAT8E4M3FN: "float8_e4m3fn",
    TensorProto.FLOAT8E5M2: "float8_e5m2",
    TensorProto.FLOAT8E8M0: "float8_e8m0fnu",
    TensorProto.FLOAT4E2M1: "float4_e2m1fn",
}
"""numpy's (or ml_dtypes') names of ONNX element types by code; strings, complex numbers, the other kinds of float8 and so on are
left out.
"""

_ELEMENT_CODES = {name: code for code, name in ELEMENT_NAMES.items()}

_FIELDS: dict[int, str] = {
    TensorProto.FLOAT: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.INT64: "int64_data",
    TensorProto.UINT32: "uint64_data",
    TensorProto.UINT64: "uint64_data",
}
"""The lists of numbers for the elements of a type; `int32_data` for all others."""


def dtype_of(code: int, where: str) -> np.dtype[Any]:
    """The dtype of an ONNX element type. Raises CompileError for one without an array type here."""
    if (name := ELEMENT_NAMES.get(code)) is None:
        raise CompileError(f"element type {type_name(code)} is not supported", where=where)
    return dtype_named(name)


def type_name(code: int) -> str:
    """ONNX's name of an element type; its number if it has no name."""
    return TensorProto.DataType.Name(code) if code in TensorProto.DataType.values() else str(code)


def code_of(dtype: np.dtype[Any]) -> int:
    """The ONNX element type of a dtype."""
    return _ELEMENT_CODES[dtype.name]


_MOST_DIGITS = 40
"""Most digits of a number: Python takes quadratic time to read longer ones."""


class TensorReader:
    """Reads the tensors of one model; each file of external data is mapped once, and only from the model's own folder."""

    def __init__(self, model: Path, weights: Mapping[str, Array]):
        self._model = model
        self._folder = model.parent
        self._weights = weights
        self._maps: dict[Path, Array] = {}
        self._sums: dict[Path, str] = {}

    def initializer(self, tensor: TensorProto, where: str) -> Array:
        """Like `read`, for an initializer of the model's graph, whose bytes may still be in the file."""
        data = self._weights.get(tensor.name)
        return self.read(tensor, where) if data is None else self._raw(tensor, data, where)

    def read(self, tensor: TensorProto, where: str) -> Array:
        """The values of a tensor, read-only if they are views of a file. Raises CompileError, located at `where`."""
        if tensor.data_location != TensorProto.EXTERNAL and tensor.HasField("raw_data"):
            return self._raw(tensor, np.frombuffer(tensor.raw_data, np.uint8), where)
        dtype, shape = _checked(tensor, where)
        count = prod(shape)
        if tensor.data_location == TensorProto.EXTERNAL:
            data = self._external(tensor, _size(count, dtype), where)
            return _decode(data, shape, dtype)
        return _typed(tensor, count, where).reshape(shape).astype(dtype, copy=False)

    def take_in(self, tensor: TensorProto, where: str) -> None:
        """Puts the external data of a tensor, if it has any, into the tensor itself. Raises CompileError like `read`."""
        if tensor.data_location == TensorProto.EXTERNAL:
            tensor.raw_data = packed(self.read(tensor, where)).tobytes()
            tensor.ClearField("data_location")
            tensor.ClearField("external_data")

    def _raw(self, tensor: TensorProto, data: Array, where: str) -> Array:
        dtype, shape = _checked(tensor, where)
        if data.size != (size := _size(prod(shape), dtype)):
            raise CompileError(f"holds {data.size} bytes, but its shape {list(shape)} needs {size}", where=where)
        return _decode(data, shape, dtype)

    def _external(self, tensor: TensorProto, size: int, where: str) -> Array:
        entries = {e.key: e.value for e in tensor.external_data}
        path = self._inside(entries.get("location", ""), where)
        offset, length = _natural(entries, "offset", 0, where), _natural(entries, "length", size, where)
        if length != size:
            raise CompileError(
                f"is said to have {length} bytes of external data, but its shape needs {size}", where=where
            )
        if not size:
            return np.empty(0, np.uint8)
        mapped = self._map(path, where)
        self._compare(path, mapped, entries.get("checksum"), where)
        if offset + size > mapped.size:
            message = f"needs bytes {offset} to {offset + size} of {path.name}, which has {mapped.size}"
            raise CompileError(
                message, where=where, hint="the file with the external data is truncated, or another one"
            )
        return mapped[offset : offset + size]

    def _inside(self, location: str, where: str) -> Path:
        """The file at `location`, which must be in the model's folder after links are resolved."""
        relative = Path(location)
        if not location or relative.is_absolute() or ".." in relative.parts or "\\" in location or "\0" in location:
            raise CompileError(
                f"external data at '{location}' is not read",
                where=where,
                hint="it must be given relative to the model, inside the model's own folder",
            )
        path = self._folder / relative
        if not path.is_file():
            raise CompileError(f"external data is missing: there is no file {path}", where=where)
        if not lies_beside(path, self._model):
            raise CompileError(
                f"external data at '{location}' is a link that leaves the model's folder",
                where=where,
                hint="put a copy of the file there",
            )
        return path

    def _compare(self, path: Path, mapped: Array, checksum: str | None, where: str) -> None:
        """Raises CompileError if a file is not the one that the model was written with, as far as the model says."""
        if checksum is None or self._sums.get(path) == checksum.lower():
            return
        if path not in self._sums:
            self._sums[path] = digest_of(mapped, "sha1")
            self._compare(path, mapped, checksum, where)
            return
        message = f"external data {path} does not belong to the model: checksum mismatch"
        raise CompileError(message, where=where, hint="write or copy the model and the file again, together")

    def _map(self, path: Path, where: str) -> Array:
        if path not in self._maps:
            try:
                empty = path.stat().st_size == 0
                self._maps[path] = np.empty(0, np.uint8) if empty else np.memmap(path, np.uint8, "r")
            except OSError as e:
                raise CompileError(f"external data {path} cannot be read: {e.strerror}", where=where) from None
        return self._maps[path]


def _checked(tensor: TensorProto, where: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    dtype, shape = dtype_of(tensor.data_type, where), tuple(tensor.dims)
    if any(d < 0 for d in shape):
        raise CompileError(f"has the negative size {min(shape)}", where=where)
    if prod(max(d, 1) for d in shape) > LARGEST:
        raise CompileError(f"has the shape {list(shape)}, which no array can have", where=where)
    if tensor.HasField("segment"):
        raise CompileError("is a segment of a larger tensor, which is not supported", where=where)
    return dtype, shape


def _natural(entries: dict[str, str], key: str, default: int, where: str) -> int:
    text = entries.get(key)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise CompileError(f"the {key} of its external data is '{text[:40]}', not a number of bytes", where=where)
    return int(text)


def _size(count: int, dtype: np.dtype[Any]) -> int:
    """Bytes that `count` elements take in a file."""
    return -(-count // (8 // SUB_BYTE[dtype.name])) if dtype.name in SUB_BYTE else count * dtype.itemsize


def _decode(data: Array, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """The elements in a run of little-endian bytes."""
    if (bits := SUB_BYTE.get(dtype.name)) is None:
        return np.frombuffer(data, dtype).reshape(shape)
    parts = packing.unpacked(data, bits)[: prod(shape)]
    if AS_BYTES.get(dtype.name) == "int8":
        parts = (parts << 8 - bits).view(np.int8) >> 8 - bits
    return parts.view(dtype).reshape(shape)


def _typed(tensor: TensorProto, count: int, where: str) -> Array:
    """The elements of a tensor that uses the typed lists (float_data, int32_data, ...)."""
    name = ELEMENT_NAMES[code := tensor.data_type]
    field = _FIELDS.get(code, "int32_data")
    given = len(getattr(tensor, field))
    if given != (wanted := _size(count, dtype_named(name)) if name in SUB_BYTE else count):
        raise CompileError(
            f"holds {given} numbers in {field}, but its shape {list(tensor.dims)} needs {wanted}", where=where
        )
    return np.asarray(numpy_helper.to_array(tensor))


def stored_size(array: Array) -> int:
    """Bytes that an array takes in a file."""
    return _size(array.size, array.dtype)


def packed(array: Array) -> Array:
    """The bytes of an array in ONNX's form; a view if the array is contiguous."""
    return packing.packed(np.ascontiguousarray(array).reshape(-1).view(np.uint8), SUB_BYTE.get(array.dtype.name, 8))


def tensor_type(type_: TypeProto, what: str, where: str) -> Tensor:
    """The tensor type of a declaration, in which some exporters write -1 for an unknown size. Raises CompileError if it is not a
    tensor, or a tensor of unknown rank, or of sizes that no tensor has.
    """
    kind = type_.WhichOneof("value")
    if kind is None:
        raise CompileError(f"{what} is declared without a type", where=where)
    if kind != "tensor_type":
        raise CompileError(f"{what} is of a {kind.replace('_', ' ')}, only tensors are read", where=where)
    tensor = type_.tensor_type
    element = element_type(dtype_of(tensor.elem_type, f"{where}: {what}"))
    if not tensor.HasField("shape"):
        raise CompileError(
            f"the rank of {what} is unknown",
            where=where,
            hint="declare its shape, with named dimensions where sizes vary",
        )
    sizes = [d.dim_value if d.HasField("dim_value") else DYNAMIC for d in tensor.shape.dim]
    try:
        return tensor_of_sizes(element, sizes)
    except VerifyException as e:
        raise CompileError(f"{what}: {e}", where=where) from None


def is_tensor(type_: TypeProto) -> bool:
    """Whether a declaration is for a tensor, not a sequence, a map or an optional value."""
    return type_.WhichOneof("value") == "tensor_type"


def is_ranked(type_: TypeProto) -> bool:
    """Whether a declaration is for a tensor of known element type and rank."""
    return type_.tensor_type.elem_type != 0 and type_.tensor_type.HasField("shape")


def dimension_names(type_: TypeProto) -> list[str]:
    """The names of dimensions in a declaration, empty for fixed or unnamed sizes."""
    dims = type_.tensor_type.shape.dim
    return [d.dim_param if not d.HasField("dim_value") else "" for d in dims]
