"""Parquet files: a column per input, and a row per sample.

A cell is a number, a list, lists in lists, a tensor, or the bytes of an `.npy` file.
"""

from __future__ import annotations

import io
import math
from importlib import import_module
from typing import IO, Any, cast

import numpy as np

from ..support.diagnostics import CompileError
from ..support.limits import require
from .arrays import ArrayHead, read_array
from .stored import Array

_INSTALL = "pip install 'amct-opt[parquet]'"


def parquet_heads(stream: IO[bytes]) -> dict[str, ArrayHead]:
    """The shape and type of each column, by the first row; other rows are checked when they are read."""
    file = _opened(stream)
    first: Any = next(file.iter_batches(batch_size=1), None)
    if first is None:
        raise ValueError("it has no rows, so that shapes are not known")
    rows = file.metadata.num_rows
    arrays = {name: _array(first.column(i), name) for i, name in enumerate(first.schema.names)}
    return {name: ArrayHead((rows, *array.shape[1:]), array.dtype) for name, array in arrays.items()}


def parquet_arrays(stream: IO[bytes]) -> dict[str, Array]:
    """The columns, in memory. Raises CompileError if they take more than the limit, and ValueError for cells of other types."""
    for name, head in parquet_heads(stream).items():
        require(math.prod(head.shape) * head.dtype.itemsize, f"column '{name}'", "")
    table = _opened(stream).read()
    return {name: _array(table.column(name).combine_chunks(), name) for name in table.column_names}


def _opened(stream: IO[bytes]) -> Any:
    try:
        parquet = cast(Any, import_module("pyarrow.parquet"))
    except ImportError:
        raise CompileError("Parquet requires pyarrow", hint=_INSTALL) from None
    stream.seek(0)
    return parquet.ParquetFile(stream)


def _array(column: Any, name: str) -> Array:
    """A column as an array, rows on the first axis."""
    compute, of = (cast(Any, import_module(f"pyarrow.{module}")) for module in ("compute", "types"))
    if hasattr(column, "to_numpy_ndarray"):  # tensors of one shape
        return np.asarray(column.to_numpy_ndarray())
    shape = [len(column)]
    while of.is_list(column.type) or of.is_large_list(column.type) or of.is_fixed_size_list(column.type):
        lengths = compute.unique(compute.list_value_length(column)).to_pylist()
        if column.null_count or len(lengths) != 1:
            raise ValueError(f"column '{name}' has cells of different lengths, or none in some rows")
        shape += lengths
        column = column.flatten()
    if column.null_count:
        raise ValueError(f"column '{name}' has no value in some rows")
    if of.is_binary(column.type) or of.is_large_binary(column.type):
        return np.stack([read_array(io.BytesIO(cell.as_py())) for cell in column])
    if not (of.is_integer(column.type) or of.is_floating(column.type) or of.is_boolean(column.type)):
        raise ValueError(
            f"column '{name}' is of {column.type}: cells are numbers, lists of them, or the bytes of .npy files"
        )
    return np.asarray(column.to_numpy(zero_copy_only=False)).reshape(shape)
