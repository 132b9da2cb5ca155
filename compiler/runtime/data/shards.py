"""Shards: a folder of `.npz` files, each with samples for all inputs of a model. They are read one at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from ...diagnostics import CompileError
from .arrays import load_arrays
from .rows import Array

_OPEN = 2
"""Shards whose arrays stay mapped: a share of samples rarely reads more."""


@dataclass(frozen=True)
class ShardRows:
    """One array of each shard, one behind the other, in the order of the files' names."""

    files: Sequence[Path]
    name: str
    ends: Sequence[int]
    """The number of samples up to the end of each shard."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def read(self, start: int, stop: int) -> Array:
        parts: list[Array] = []
        while start < stop:
            index = bisect_right(self.ends, start)
            begin, end = (0, *self.ends)[index], min(stop, self.ends[index])
            array = _arrays(self.files[index], _changed(self.files[index]))[self.name]
            parts.append(array[start - begin : end - begin])
            start = end
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, *self.shape[1:]), self.dtype), *parts])

    def place(self, index: int) -> str:
        return str(self.files[bisect_right(self.ends, index)])


@lru_cache(maxsize=_OPEN)
def _arrays(file: Path, changed: int) -> dict[str, Array]:
    return load_arrays(file)


def _changed(file: Path) -> int:
    """When a file was written, in nanoseconds; 0 for a file that is gone, which is an error when it is read."""
    return file.stat().st_mtime_ns if file.exists() else 0


def shard_rows(folder: Path) -> dict[str, ShardRows]:
    """The rows of all shards, by input. Raises CompileError, located in a file that cannot be read or does not fit the first."""
    files = sorted(folder.glob("*.npz"))
    first, counts = load_arrays(files[0]), list[int]()
    for file in files:
        arrays = load_arrays(file)
        for name, array in first.items():
            found = arrays.get(name)
            if found is None:
                raise CompileError(f"array '{name}' of {files[0].name} is missing", where=str(file))
            if found.shape[1:] != array.shape[1:] or found.dtype != array.dtype or not found.ndim:
                first_one, here = (f"{each.dtype} {list(each.shape[1:])}" for each in (array, found))
                message = f"array '{name}' is {first_one} in {files[0].name}, but {here} here"
                raise CompileError(message, where=str(file), hint="the samples of all shards have one type and shape")
        if len({array.shape[:1] for array in arrays.values()}) > 1:
            raise CompileError("its arrays have different numbers of samples", where=str(file))
        counts.append(len(next(iter(arrays.values()), ())))
    ends = list(accumulate(counts))
    return {name: ShardRows(files, name, ends, (ends[-1], *a.shape[1:]), a.dtype) for name, a in first.items()}
