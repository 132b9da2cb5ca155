"""Shards: files of one folder, each with samples for all inputs of a model, read one at a time.

A shard is an `.npz` file, a `.parquet` file, or a `.tar` file as WebDataset has them: a member `KEY.INPUT.npy` for each input of
each sample.
"""

from __future__ import annotations

import io
import tarfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import PurePath
from typing import IO, Any, Literal, NamedTuple

import numpy as np

from ..support.diagnostics import CompileError
from .addresses import files_in, modified, opened
from .arrays import ArrayHead, array_heads, arrays_in, check_archive, read_array, reading
from .parquet import parquet_arrays, parquet_heads
from .stored import Array

OnError = Literal["stop", "skip"]
"""The effect of a shard that cannot be read: it ends the command, or it is left out."""

_OPEN = 2
"""Shards whose arrays stay open: a share of samples rarely reads more."""


class Shards(NamedTuple):
    """The rows of all shards, by input, and why some files were left out."""

    rows: Mapping[str, ShardRows]
    skipped: Sequence[CompileError]


@dataclass(frozen=True)
class ShardRows:
    """One array of each shard, one after the other, in the order of the files' names."""

    files: Sequence[str]
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
            array = _arrays(self.files[index], modified(self.files[index]))[self.name]
            parts.append(array[start - begin : end - begin])
            start = end
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, *self.shape[1:]), self.dtype), *parts])

    def place(self, index: int) -> str:
        return self.files[bisect_right(self.ends, index)]


class _Form(NamedTuple):
    """The readers for files with one ending: of the heads of their arrays alone, or of the arrays."""

    heads: Callable[[IO[bytes]], dict[str, ArrayHead]]
    arrays: Callable[[IO[bytes]], dict[str, Array]]
    check: Callable[[IO[bytes]], object]
    """Reads all of a file, and raises an exception for a damaged one."""


def shard_files(folder: str) -> list[str]:
    """The shards of a folder in the order of their names: of one ending, `.npz` before `.tar` before `.parquet`. A single file of
    the last two is a shard too.
    """
    listed = files_in(folder)
    if not listed and _ending(folder) in (".tar", ".parquet"):
        return [folder]
    endings = {_ending(file) for file in listed}
    chosen = next((ending for ending in _FORMS if ending in endings), None)
    return [file for file in listed if _ending(file) == chosen]


def shard_rows(files: Sequence[str], on_error: OnError = "stop") -> Shards:
    """The rows of all shards. Raises CompileError, located in a file that cannot be read or does not fit the first; with `skip`
    every file is read whole to find the damaged ones, which are left out; it is an error if none is left.
    """
    first: Mapping[str, ArrayHead] | None = None
    read, counts, skipped = list[str](), list[int](), list[CompileError]()
    for file in files:
        try:
            if on_error == "skip":
                _check(file)
            heads = _heads(file)
            count = _fitting(heads, heads if first is None else first, file, read[0] if read else file)
        except CompileError as e:
            if on_error == "stop":
                raise
            skipped.append(e)
            continue
        first = heads if first is None else first
        read.append(file)
        counts.append(count)
    if first is None:
        raise CompileError(f"none of {len(files)} shards can be read", where=skipped[0].where, hint=skipped[0].message)
    ends = list(accumulate(counts))
    rows = {name: ShardRows(read, name, ends, (ends[-1], *head.shape[1:]), head.dtype) for name, head in first.items()}
    return Shards(rows, skipped)


def _fitting(heads: Mapping[str, ArrayHead], first: Mapping[str, ArrayHead], file: str, begun: str) -> int:
    """The number of a shard's samples. Raises CompileError for a shard that does not fit the first."""
    begun = PurePath(begun).name
    for name, head in first.items():
        found = heads.get(name)
        if found is None:
            raise CompileError(f"array '{name}' of {begun} is missing", where=file)
        if found.shape[1:] != head.shape[1:] or found.dtype != head.dtype or not found.shape:
            first_one, here = (f"{each.dtype} {list(each.shape[1:])}" for each in (head, found))
            message = f"array '{name}' is {first_one} in {begun}, but {here} here"
            raise CompileError(message, where=file, hint="the samples of all shards have one type and shape")
    counts = {head.shape[:1] for head in heads.values()}
    if len(counts) > 1:
        raise CompileError("its arrays have different numbers of samples", where=file)
    return counts.pop()[0] if counts else 0


def _heads(file: str) -> dict[str, ArrayHead]:
    with reading(file), opened(file) as stream:
        return _FORMS[_ending(file)].heads(stream)


def _check(file: str) -> None:
    with reading(file), opened(file) as stream:
        _FORMS[_ending(file)].check(stream)


@lru_cache(maxsize=_OPEN)
def _arrays(file: str, changed: int) -> dict[str, Array]:
    with reading(file), opened(file) as stream:
        return _FORMS[_ending(file)].arrays(stream)


def _ending(file: str) -> str:
    return PurePath(file).suffix.lower()


# WebDataset


def _tar_heads(stream: IO[bytes]) -> dict[str, ArrayHead]:
    """The first sample has the shape and type of all, which are checked when they are read."""
    heads, counts = dict[str, ArrayHead](), dict[str, int]()
    with tarfile.open(fileobj=stream) as archive:
        for name, member in _members(archive):
            counts[name] = counts.get(name, 0) + 1
            if name not in heads:
                first = _array(archive, member)
                heads[name] = ArrayHead(first.shape, first.dtype)
    return {name: ArrayHead((counts[name], *head.shape), head.dtype) for name, head in heads.items()}


def _tar_arrays(stream: IO[bytes]) -> dict[str, Array]:
    samples: dict[str, list[Array]] = {}
    with tarfile.open(fileobj=stream) as archive:
        for name, member in _members(archive):
            samples.setdefault(name, []).append(_array(archive, member))
    return {name: np.stack(each) for name, each in samples.items()}


def _members(archive: tarfile.TarFile) -> Iterator[tuple[str, tarfile.TarInfo]]:
    """The arrays of an archive in order, by input: of `KEY.INPUT.npy`, and `npy` of `KEY.npy`. Other members are not read."""
    for member in archive:
        _, _, ending = PurePath(member.name).name.partition(".")
        if member.isfile() and ending.endswith("npy"):
            yield ending.removesuffix(".npy"), member


def _array(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Array:
    """Reads an array. Raises ValueError, with the member's name, if it is not an array."""
    found = archive.extractfile(member)
    try:
        return read_array(io.BytesIO(b"" if found is None else found.read()))
    except Exception as e:  # as in `reading`
        raise ValueError(f"member '{member.name}': {e}") from e


_FORMS: Mapping[str, _Form] = {
    ".npz": _Form(array_heads, arrays_in, check_archive),
    ".tar": _Form(_tar_heads, _tar_arrays, _tar_arrays),
    ".parquet": _Form(parquet_heads, parquet_arrays, parquet_arrays),
}
