"""Data from a program: arrays, batches, or a function that returns batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ..ir.functions import main_function
from ..support.diagnostics import CompileError
from .lazy import LazyRows, elements_of, is_bag, is_lazy
from .samples import Samples, input_types, samples_of
from .stored import Array, ArrayRows, Rows
from .stream import Batch, from_batches

_ARRAYS = (Mapping, np.ndarray)
Given: TypeAlias = "Samples | Mapping[str, Any] | Array | Iterable[Batch] | Callable[[], Iterable[Batch]]"
"""Arrays by input, or the array for the only input, samples on the first axis (in memory, or of Dask, Zarr or HDF5); batches, one
run each; a function that returns batches or yields them; a bag of Dask with batches.
"""


def samples_from(data: Given, module: ModuleOp, runs: int | None = None) -> Samples:
    """The samples for a module's inputs; for batches the first `runs`, or all.

    Raises CompileError for data that does not fit the inputs, and for objects that are not data.
    """
    if isinstance(data, Samples):
        return data
    if isinstance(data, _ARRAYS) or is_lazy(data):
        return _arrays(data, module)
    batches: Any = elements_of(data) if is_bag(data) else data() if callable(data) else data
    if not isinstance(batches, Iterable) or isinstance(batches, (*_ARRAYS, str, bytes)):
        hint = "give arrays by input, an iterable of batches, or a function that returns one"
        raise CompileError(f"{type(cast(object, batches)).__name__} is not calibration data", where="data", hint=hint)
    return from_batches(cast("Iterable[Batch]", batches), main_function(module), "batches", runs)


def _arrays(data: Any, module: ModuleOp) -> Samples:
    types = input_types(main_function(module))
    single = not isinstance(data, Mapping)
    if single and len(types) > 1:
        raise CompileError("one array, the model has several inputs", where="data", hint="give arrays by input")
    arrays = dict.fromkeys(types, data) if single else cast("Mapping[str, Any]", data)
    return samples_of({name: _rows(array) for name, array in arrays.items()}, types, "data")


def _rows(array: Any) -> Rows:
    return LazyRows(array, "data") if is_lazy(array) else ArrayRows(np.asarray(array), "data")
