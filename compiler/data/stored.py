"""Samples of one input of a model, indexed along the first axis, wherever they are stored."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..ir.array import Array


class Rows(Protocol):
    """Samples that are read on request, and not kept."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of samples, then the shape of one; -1 for a size that differs between samples."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def read(self, start: int, stop: int) -> Array:
        """Samples `start` to `stop`, without `stop`. Raises CompileError, located, if they cannot be read."""
        ...

    def place(self, index: int) -> str:
        """The source of a sample, for errors."""
        ...


@dataclass(frozen=True)
class ArrayRows:
    """The entries of an array, which may be mapped from a file. An array of rank 0 is a whole input, for `WholeRows`."""

    array: Array
    source: str

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    def read(self, start: int, stop: int) -> Array:
        forget(self.array)
        return self.array[start:stop] if self.array.ndim else self.array

    def place(self, index: int) -> str:
        return self.source


@dataclass(frozen=True)
class WholeRows:
    """All rows as a single sample."""

    rows: Rows

    @property
    def shape(self) -> tuple[int, ...]:
        return (1, *self.rows.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.rows.dtype

    def read(self, start: int, stop: int) -> Array:
        count = self.rows.shape[0] if self.rows.shape else 1
        return self.rows.read(0, count)[None][start:stop]

    def place(self, index: int) -> str:
        return self.rows.place(0)


def forget(array: Array) -> None:
    """Releases the memory of the parts of a mapped array that were read; they are read again on the next access."""
    mapping = getattr(array, "_mmap", None)
    if isinstance(mapping, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED)
