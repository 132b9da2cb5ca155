"""Samples of one input of a model: what can be indexed along its first axis, wherever the samples are."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class Rows(Protocol):
    """Samples that are read when they are asked for, and not kept."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of samples, then the shape of one; -1 for a size that changes from sample to sample."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def read(self, start: int, stop: int) -> Array:
        """Samples `start` to `stop`, without it. Raises CompileError, located, where they cannot be read."""
        ...

    def place(self, index: int) -> str:
        """Where a sample comes from, for errors."""
        ...


@dataclass(frozen=True)
class ArrayRows:
    """The entries of an array, which may be mapped from a file. One without axes is a whole input, for `WholeRows`."""

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
    """All rows as the one sample that they make together."""

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
    """Give back the memory of the parts of a mapped array that were read; they are read again where they are looked at again."""
    mapping = getattr(array, "_mmap", None)
    if isinstance(mapping, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED)
