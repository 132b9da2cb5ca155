"""Raw binaries in the form of AMCT's command line: a folder per input, one run of the model per file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX

from ..ir.dtypes import Tensor
from ..support.diagnostics import CompileError
from ..support.files import refuse_pipe
from ..support.tables import listed, numbered
from .arrays import mapped_array, reading
from .stored import Array

DATA_TYPES = (
    *("float16", "float32", "float64", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "bool"),
)
"""The element types, little-endian."""
_FOLDERS = "data-types is for folders of raw binaries, one for each input"


@dataclass(frozen=True)
class RawRows:
    """The files of a folder, sorted by name; each contains one whole input.

    `sample` may have one size of -1, which follows from the file's size.
    """

    files: Sequence[Path]
    dtype: np.dtype[Any]
    sample: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.files), *self.sample)

    def read(self, start: int, stop: int) -> Array:
        return np.stack([self._file(f) for f in self.files[start:stop]])

    def _file(self, path: Path) -> Array:
        try:
            data = np.fromfile(path, np.uint8)
        except OSError as e:
            raise CompileError(f"cannot be read: {e.strerror}", where=str(path)) from None
        check_size(path, data.size, self.dtype, self.sample)
        return (data != 0 if self.dtype == np.bool_ else data.view(self.dtype)).reshape(self.sample)

    def place(self, index: int) -> str:
        return str(self.files[index])


class ArrayFiles(RawRows):
    """The `.npy` files of a folder, sorted by name; each contains one sample, like the first one. They are opened to be read."""

    def _file(self, path: Path) -> Array:
        array = _array(path)
        if (array.dtype, array.shape) != (self.dtype, self.sample):
            found, first = (
                f"{d} {list(shape)}" for d, shape in ((array.dtype, array.shape), (self.dtype, self.sample))
            )
            hint = "a folder holds one file per input, by its name, or one per sample, all of one shape"
            raise CompileError(f"holds {found}, and {self.files[0].name} holds {first}", where=str(path), hint=hint)
        return array


def _array(path: Path) -> Array:
    refuse_pipe(path)
    with reading(str(path)), path.open("rb") as stream:
        return mapped_array(stream, 0)


def array_rows(folder: Path, types: Mapping[str, Tensor]) -> dict[str, ArrayFiles]:
    """The samples in a folder with one `.npy` file per sample, if the model has one input, or with a folder of such files per
    input; empty for any other folder. Raises CompileError, located, for a first file that cannot be read, and if there are files,
    but none for an input.
    """
    found = {name: sorted((folder / name).glob("*.npy")) for name in types if Path(name).name == name}
    files = sorted(folder.glob("*.npy"))
    given = {file.stem for file in files}
    if not all(found.get(name) for name in types):
        found = dict.fromkeys(types, files) if len(types) == 1 and len(files) > 1 and not given & {*types} else {}
    if not found and files and (missing := [name for name in types if name not in given]):
        hint = f"the data is for {listed(file.stem for file in files)}; a file per sample is in a folder per input"
        raise CompileError(f"no data for input {listed(missing)}", where=str(folder), hint=hint)
    first = {name: _array(files[0]) for name, files in found.items()}
    return {name: ArrayFiles(files, first[name].dtype, first[name].shape) for name, files in found.items()}


def raw_rows(
    folders: Sequence[Path],
    data_types: Sequence[str],
    shapes: Mapping[str, tuple[int, ...]],
    types: Mapping[str, Tensor],
) -> dict[str, RawRows]:
    """A folder and a type for each input, in the order of `shapes`, or of the model's inputs if none are given.

    Raises CompileError, located, for missing and empty folders, different numbers of files, and files whose size does not fit.
    """
    where = ";".join(map(str, folders))
    names = list(shapes or types)
    if unknown := [name for name in names if name not in types]:
        hint = f"the inputs are {listed(types)}"
        raise CompileError(f"input-shape: the model has no input {listed(unknown)}", where=where, hint=hint)
    for what, given in (("folder", folders), ("data type", data_types), ("shape", names)):
        if len(given) != len(types):
            message = f"{numbered(len(given), what)} for {len(types)} inputs: {listed(types)}"
            raise CompileError(message, where=where, hint=_FOLDERS)
    rows: dict[str, RawRows] = {}
    for name, folder, data_type in zip(names, folders, data_types, strict=True):
        if data_type not in DATA_TYPES:
            raise CompileError(f"data type '{data_type}' is not one of {', '.join(DATA_TYPES)}", where=str(folder))
        sample = _known(shapes.get(name), types[name].get_shape())
        if sample.count(-1) > 1:
            hint = f"input-shape says them: {name}:1,3,224,224"
            raise CompileError(f"input '{name}' has several unknown sizes", where=str(folder), hint=hint)
        rows[name] = RawRows(files_of(folder), np.dtype(data_type).newbyteorder("<"), sample)
        for file in rows[name].files:
            check_size(file, file.stat().st_size, rows[name].dtype, rows[name].sample)
    return rows


def _known(given: tuple[int, ...] | None, declared: Sequence[int]) -> tuple[int, ...]:
    """A given shape, with unknown sizes from the model's declaration; -1 if still unknown."""
    model = tuple(-1 if n == DYNAMIC_INDEX else n for n in declared)
    if given is None or len(given) != len(model):
        return model if given is None else given
    return tuple(m if g == -1 else g for g, m in zip(given, model, strict=True))


def check_size(path: Path, size: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Raises CompileError, located in the file, if its number of bytes does not fit the shape."""
    needed = math.prod(n for n in shape if n != -1) * dtype.itemsize
    if size == needed or (-1 in shape and size and size % needed == 0):
        return
    multiple = "a multiple of " if -1 in shape else ""
    raise CompileError(f"holds {size} bytes, {list(shape)} of {dtype.name} needs {multiple}{needed}", where=str(path))


def files_of(folder: Path) -> list[Path]:
    """The files of a folder without hidden ones, sorted by name.

    Raises CompileError, located, if there are none, and for a pipe.
    """
    if not folder.is_dir():
        raise CompileError("the folder does not exist", where=str(folder), hint=_FOLDERS)
    entries = sorted(e for e in folder.iterdir() if not e.name.startswith("."))
    for entry in entries:
        refuse_pipe(entry)
    files = [e for e in entries if e.is_file()]
    if not files:
        inner = sum(f.is_dir() for f in folder.iterdir())
        hint = f"it holds {inner} folders, which are not searched" if inner else ""
        raise CompileError("holds no files", where=str(folder), hint=hint)
    return files
