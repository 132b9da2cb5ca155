"""Arrays that are read when they are cut: of Dask, of Zarr, of HDF5; and bags of Dask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..support.diagnostics import CompileError
from ..support.files import refuse_pipe
from .addresses import is_address, local
from .arrays import reading
from .stored import Array

_INSTALL = "pip install 'amct-opt[zarr]'"


@dataclass(frozen=True)
class LazyRows:
    """The entries of an array with a shape and a type, whose parts are read, or computed in this process, on demand."""

    array: Any
    source: str

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(map(int, self.array.shape))

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.array.dtype)

    def read(self, start: int, stop: int) -> Array:
        with reading(self.source):
            part = self.array[start:stop]
            computed = part.compute(scheduler="synchronous") if hasattr(part, "compute") else part
            return np.asarray(computed)

    def place(self, index: int) -> str:
        return self.source


def is_lazy(value: object) -> bool:
    """Whether a value is such an array, and not one in memory."""
    return not isinstance(value, np.ndarray | np.generic) and all(
        hasattr(value, name) for name in ("shape", "dtype", "ndim", "chunks")
    )


def is_bag(value: object) -> bool:
    """Whether a value is a bag of Dask."""
    return type(value).__module__.startswith("dask.bag")


def elements_of(bag: Any) -> Iterator[Any]:
    """The elements of a bag of Dask, partition after partition, computed in this process."""
    for partition in bag.to_delayed():
        yield from partition.compute(scheduler="synchronous")


def zarr_rows(address: str) -> dict[str, LazyRows]:
    """The arrays of a group of Zarr, by name. Raises CompileError, located, if it cannot be read, or Zarr is not installed."""
    if not is_address(address):  # Zarr itself opens the files
        for path in (folder := local(address), *folder.rglob("*")):
            refuse_pipe(path)
    try:
        import zarr  # pyright: ignore
    except ImportError:
        raise CompileError("reading Zarr requires zarr to be installed", where=address, hint=_INSTALL) from None
    opened: Any = zarr
    with reading(address):
        group = opened.open_group(address, mode="r")
        return {name: LazyRows(array, address) for name, array in group.arrays()}
