"""Arrays that live beside the text: reading and writing the safetensors side file.

The format is safetensors (8-byte little-endian header length, JSON header, raw bytes). The `safetensors` package copies
what it reads and wants all bytes in memory when it writes; weights here are memory-mapped in and streamed out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .dtypes import dtype_of_safetensors, safetensors_name
from .files import replacing

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

_MAX_HEADER = 100 << 20
_ALIGN = 64


class WeightError(ValueError):
    """A side file, or an array in it, cannot be read. The message names file and key."""


class Weight:
    """An array known by a key: memory-mapped from a side file when first asked for, or computed and held in memory.

    Two weights are equal when they name the same array of the same file, or hold the same array object.
    """

    __slots__ = ("_array", "key", "path")

    def __init__(self, key: str, *, path: Path | None = None, array: Array | None = None):
        self.key = key
        self.path = path
        self._array = array

    @property
    def array(self) -> Array:
        """The values, read-only when mapped. Raises WeightError when file or key is missing."""
        if self._array is None:
            if self.path is None:
                raise WeightError(f"weight '{self.key}' names no file: the module was not read from one")
            self._array = open_side_file(self.path).array(self.key)
        return self._array

    @property
    def in_memory_only(self) -> bool:
        return self.path is None and self._array is not None

    def _identity(self) -> object:
        if self.path is not None:
            return (self.path, self.key)
        return id(self._array) if self._array is not None else (None, self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Weight) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())


class SideFile:
    """A safetensors file whose header is read and checked at once, and whose arrays are mapped on demand."""

    def __init__(self, path: Path):
        self.path = path
        self._map: Array | None = None
        try:
            size = path.stat().st_size
            with path.open("rb") as stream:
                length = int.from_bytes(stream.read(8), "little")
                if size < 8 or length > min(size - 8, _MAX_HEADER):
                    raise WeightError(f"{path}: truncated, or no safetensors file")
                header: Any = json.loads(stream.read(length))
        except OSError as e:
            raise WeightError(f"{path}: {e.strerror}") from None
        except ValueError as e:
            raise WeightError(f"{path}: no safetensors file ({e})") from None
        self._start = 8 + length
        self._entries = _checked_entries(path, header, size - self._start)

    def keys(self) -> list[str]:
        return list(self._entries)

    def array(self, key: str) -> Array:
        """A read-only view into the mapped file. Raises WeightError for an unknown key."""
        import numpy as np

        if (entry := self._entries.get(key)) is None:
            raise WeightError(f"{self.path}: no array '{key}'")
        dtype, shape, begin, end = entry
        if begin == end:
            return np.zeros(shape, dtype)
        if self._map is None:
            self._map = np.memmap(self.path, np.uint8, "r")
        data = self._map[self._start + begin : self._start + end]
        return np.frombuffer(data, dtype).reshape(shape)


_Entry = tuple[Any, tuple[int, ...], int, int]


def _checked_entries(path: Path, header: Any, size: int) -> dict[str, _Entry]:
    if not isinstance(header, dict):
        raise WeightError(f"{path}: the safetensors header is no JSON object")
    entries: dict[str, _Entry] = {}
    for key, entry in header.items():  # pyright: ignore[reportUnknownVariableType]
        if key == "__metadata__":
            continue
        try:
            shape = tuple(int(d) for d in entry["shape"])  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            begin, end = (int(o) for o in entry["data_offsets"])  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            dtype = dtype_of_safetensors(str(entry["dtype"]))  # pyright: ignore[reportUnknownArgumentType]
        except (KeyError, TypeError, ValueError):
            raise WeightError(f"{path}: malformed header entry '{key}'") from None
        if dtype is None:
            raise WeightError(f"{path}: array '{key}' has the unknown type {entry['dtype']}")
        count = 1
        for d in shape:
            count *= d
        if min((0, *shape)) < 0 or not 0 <= begin <= end <= size or end - begin != count * dtype.itemsize:
            raise WeightError(f"{path}: array '{key}' does not fit into the file")
        entries[str(key)] = (dtype, shape, begin, end)  # pyright: ignore[reportUnknownArgumentType]
    return entries


def open_side_file(path: Path) -> SideFile:
    """The side file at `path`, its header parsed once as long as the file does not change."""
    try:
        stat = path.stat()
    except OSError as e:
        raise WeightError(f"{path}: {e.strerror}") from None
    return _open(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=16)
def _open(path: Path, _mtime: int, _size: int) -> SideFile:
    return SideFile(path)


def write_side_file(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write `arrays` to `path`, one at a time, through a temporary file that replaces `path` when complete."""
    import numpy as np

    header: dict[str, object] = {}
    offset = 0
    for key, array in arrays.items():
        header[key] = {
            "dtype": safetensors_name(array.dtype),
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _ALIGN)
    with replacing(path) as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            stream.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def side_file_of(module_path: str | os.PathLike[str]) -> Path:
    """`dir/net.mlir` -> `dir/net.safetensors`, the default side file of a module."""
    return Path(module_path).with_suffix(".safetensors")
