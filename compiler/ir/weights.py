"""Arrays outside the text: reads and writes the safetensors side file.

The format is safetensors (8-byte little-endian header length, JSON header, raw bytes). The `safetensors` package copies
what it reads and needs all bytes in memory when it writes; here weights are memory-mapped in and streamed out.

The header contains the SHA-256 of every array, and a module text that of the header. The latter is compared when the text is
read; an array is compared when it is first used, so that a text is read as fast as without.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from .dtypes import as_stored, dtype_of_safetensors, from_stored, safetensors_name

if TYPE_CHECKING:
    import numpy as np

    from .array import Array

_MAX_HEADER = 100 << 20
_ALIGN = 64
_WORTH_RELEASING = 1 << 20
_PIECE = 1 << 16
_LARGEST = 1 << 48
_ENDING = ".safetensors"
_HASH = "sha256:"
"""Prefix of the keys of hashes in the metadata of the header."""
_HASHED = 1 << 24
"""Bytes that are hashed at a time, and released."""


class WeightError(ValueError):
    """A side file, or an array in it, cannot be read. The message names file and key."""


class Weight:
    """An array with a key: memory-mapped from a side file at first use, or computed and kept in memory.

    Two weights are equal if they name the same array of the same file, or contain the same array object.
    """

    __slots__ = ("_array", "_file", "_finite", "key", "path")

    def __init__(self, key: str, *, path: Path | None = None, array: Array | None = None):
        self.key: str = key
        self.path: Path | None = path
        self._array = array
        self._file: SideFile | None = None
        self._finite: bool | None = None

    @property
    def array(self) -> Array:
        """The values, read-only if mapped. Raises WeightError if the file or key is missing, or the array is damaged."""
        if self._array is None:
            if self.path is None:
                raise WeightError(f"weight '{self.key}' names no file: the module was not read from one")
            self._array = (self._file or open_side_file(self.path)).array(self.key)
        return self._array

    def read_from(self, file: SideFile) -> None:
        """Reads the array from an open file, even if another file gets its name."""
        self._file = file

    @property
    def in_memory_only(self) -> bool:
        return self.path is None and self._array is not None

    @property
    def file(self) -> Path | None:
        """The file that the array is mapped from; None if it was computed."""
        source: Any = self._array
        while source is not None and self.path is None:
            if (name := getattr(source, "filename", None)) is not None:
                return Path(name)
            source = getattr(source, "base", None)
        return self.path

    @property
    def finite(self) -> bool:
        """Whether no value of a float array is NaN or Inf; computed once. Raises like `array`."""
        if self._finite is None:
            self._finite = is_finite(self.array)
            self.release()
        return self._finite

    def release(self) -> None:
        """Releases the memory of an array that can be read from its file again, see `release`."""
        if self._array is not None:
            release(self._array)

    def set_aside(self, mapped: Array) -> None:
        """Maps the array from the file that it was written to."""
        self._array = mapped

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
        self._compared: set[str] = set()
        size = path.stat().st_size
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if size < 8 or length > min(size - 8, _MAX_HEADER):
                raise WeightError(f"{path}: truncated, or not a safetensors file")
            text = stream.read(length)
            try:
                header: object = json.loads(text)
            except (ValueError, RecursionError) as e:
                raise WeightError(f"{path}: not a safetensors file ({e})") from None
            self._map = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        self.digest: str = hashlib.sha256(text).hexdigest()
        self._start = 8 + length
        self._entries = _checked_entries(path, header, size - self._start)
        self._hashes = _hashes(header)

    def keys(self) -> list[str]:
        return list(self._entries)

    def array(self, key: str) -> Array:
        """A read-only view into the mapped file. Raises WeightError for an unknown key, and at first use for a damaged array."""
        import numpy as np

        if (entry := self._entries.get(key)) is None:
            raise WeightError(f"{self.path}: no array '{key}'")
        if entry.begin == entry.end:
            return np.zeros(entry.shape, entry.dtype)
        mapped = np.frombuffer(self._map, np.uint8).view(np.memmap)
        mapped.filename = str(self.path)
        data = mapped[self._start + entry.begin : self._start + entry.end]
        if key in self._hashes and key not in self._compared:
            if digest_of(data) != self._hashes[key]:
                raise WeightError(f"{self.path}: is corrupted: checksum mismatch of array '{key}'")
            self._compared.add(key)
        return from_stored(data, entry.dtype).reshape(entry.shape)


def _hashes(header: object) -> dict[str, str]:
    """The hashes of arrays by their keys."""
    metadata = cast("dict[str, object]", header).get("__metadata__")
    given = cast("dict[str, object]", metadata) if isinstance(metadata, dict) else {}
    return {key.removeprefix(_HASH): str(value) for key, value in given.items() if key.startswith(_HASH)}


def digest_of(data: Array, algorithm: str = "sha256") -> str:
    """The hash of bytes, which are released if they are mapped."""
    result = hashlib.new(algorithm, usedforsecurity=False)
    for i in range(0, data.size, _HASHED):
        result.update(data[i : i + _HASHED].data)
        release(data[i : i + _HASHED])
    return result.hexdigest()


class _Entry(NamedTuple):
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


def _checked_entries(path: Path, header: object, size: int) -> dict[str, _Entry]:
    if not isinstance(header, dict):
        raise WeightError(f"{path}: the safetensors header is not a JSON object")
    entries: dict[str, _Entry] = {}
    for key, fields in cast("dict[str, object]", header).items():
        if key == "__metadata__":
            continue
        if (entry := _entry(fields)) is None:
            raise WeightError(f"{path}: array '{key}' has a malformed header entry or an unknown type")
        bounded = prod(max(d, 1) for d in entry.shape) < _LARGEST  # if a size is 0, the others are not in the file
        needed = prod(entry.shape) * entry.dtype.itemsize
        if not bounded or not 0 <= entry.begin <= entry.end <= size or entry.end - entry.begin != needed:
            raise WeightError(f"{path}: array '{key}' does not fit into the file")
        entries[key] = entry
    return entries


def _entry(fields: object) -> _Entry | None:
    values = cast("dict[str, object]", fields) if isinstance(fields, dict) else {}
    dtype = dtype_of_safetensors(str(values.get("dtype")))
    shape, offsets = _sizes(values.get("shape")), _sizes(values.get("data_offsets"))
    if dtype is None or shape is None or offsets is None or len(offsets) != 2:
        return None
    return _Entry(dtype, shape, *offsets)


def _sizes(value: object) -> tuple[int, ...] | None:
    numbers = cast("list[object]", value) if isinstance(value, list) else [None]
    sizes = tuple(n for n in numbers if isinstance(n, int) and n >= 0)
    return sizes if len(sizes) == len(numbers) else None


def is_finite(array: Array) -> bool:
    """Whether no value is NaN or Inf, checked in pieces that fit into the cache."""
    import numpy as np

    flat = array.reshape(-1, order="A")
    return all(np.isfinite(flat[i : i + _PIECE]).all() for i in range(0, flat.size, _PIECE))


def release(array: Array) -> None:
    """Releases the memory of a large array that is mapped from a file; the next access reads the file again.

    Otherwise every weight that was ever read would stay resident. Does nothing to an array that owns its memory.
    """
    in_memory = array.transpose(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))
    if array.nbytes < _WORTH_RELEASING or not in_memory.flags.c_contiguous:
        return
    source = _map_of(array)
    if source is None or not memoryview(source).readonly or not hasattr(source, "madvise"):
        return
    begin = _begin(array, source)
    first, last = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE, (begin + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    source.madvise(mmap.MADV_DONTNEED, first, last - first)


def place_of(array: Array) -> tuple[Path, int] | None:
    """The file that an array is mapped from, and the offset of its bytes; None for an array in memory, or in another order."""
    source, path = _map_of(array), Weight("", array=array).file
    if source is None or path is None or not array.flags.c_contiguous:
        return None
    return path, _begin(array, source)


def _map_of(array: Array) -> mmap.mmap | None:
    """The map of a file that an array is a part of."""
    import numpy as np

    source: Any = array
    while isinstance(source, np.ndarray | memoryview):
        source = cast(Any, source.obj if isinstance(source, memoryview) else source.base)
    return source if isinstance(source, mmap.mmap) else None


def _begin(array: Array, source: mmap.mmap) -> int:
    """The offset of an array in the map that it is a part of, in bytes."""
    import numpy as np

    return array.__array_interface__["data"][0] - np.frombuffer(source, np.uint8).__array_interface__["data"][0]


def reclaim() -> None:
    """Frees the weights of erased operations, which refer to each other, and returns freed memory to the system."""
    import gc

    gc.collect()
    return_freed_memory()


def return_freed_memory() -> None:
    """Returns memory to the system that glibc keeps of large arrays, and of those of threads. Does nothing with other C
    libraries.
    """
    import ctypes

    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def open_side_file(path: Path) -> SideFile:
    """The side file at `path`; its header is parsed once while the file does not change. Raises WeightError."""
    try:
        if not path.is_file():
            raise WeightError(f"{path}: no such file")
        stat = path.stat()
        return _open(path, stat.st_ino, stat.st_mtime_ns, stat.st_size)
    except OSError as e:
        raise WeightError(f"{path}: {e.strerror}") from None


@lru_cache(maxsize=16)
def _open(path: Path, _inode: int, _mtime: int, _size: int) -> SideFile:
    return SideFile(path)


def write_arrays(stream: IO[bytes], arrays: Mapping[str, Array]) -> str:
    """Writes a safetensors file to `stream`, which is a new file, one array at a time.

    Returns the hash by which a text refers to it.
    """
    ordered = _ordered(arrays)
    stream.write(_header(ordered, dict.fromkeys(arrays, "0" * 64)))
    hashes: dict[str, str] = {}
    for key, array in ordered:
        data = _bytes(array)
        hashes[key] = digest_of(data)
        stream.write(data.data)
        release(array)
    header = _header(ordered, hashes)
    stream.seek(0)
    stream.write(header)
    stream.seek(0, os.SEEK_END)
    return hashlib.sha256(header[8:]).hexdigest()


def _ordered(arrays: Mapping[str, Array]) -> list[tuple[str, Array]]:
    """Arrays of whole lines first, all aligned to lines: IREE maps these, and copies others. Then the widest elements."""
    return sorted(arrays.items(), key=lambda item: (item[1].nbytes % _ALIGN > 0, -item[1].dtype.itemsize))


def _header(ordered: Iterable[tuple[str, Array]], hashes: Mapping[str, str]) -> bytes:
    """The header with its length."""
    header: dict[str, object] = {}
    if hashes:
        header["__metadata__"] = {f"{_HASH}{key}": value for key, value in hashes.items()}
    offset = 0
    for key, array in ordered:
        offsets = [offset, offset + array.nbytes]
        header[key] = {"dtype": safetensors_name(array.dtype), "shape": list(array.shape), "data_offsets": offsets}
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _ALIGN)
    return len(text).to_bytes(8, "little") + text


def _bytes(array: Array) -> Array:
    """The bytes that are stored."""
    import numpy as np

    return np.ascontiguousarray(as_stored(array)).reshape(-1).view(np.uint8)


def set_aside(weights: Iterable[Weight], path: Path) -> None:
    """Moves large arrays that are only in memory to a new file at `path`, so that `release` works for them, too.

    The file may be deleted afterwards: mapped arrays stay valid. Raises OSError.
    """
    large = [(w, str(id(w.array))) for w in weights if w.file is None and w.array.nbytes >= _WORTH_RELEASING]
    if not large:
        return
    ordered = _ordered({number: weight.array for weight, number in large})
    with path.open("wb") as stream:
        stream.write(_header(ordered, {}))
        for _, array in ordered:
            stream.write(_bytes(array).data)
    file = SideFile(path)
    mapped = {number: file.array(number) for _, number in large}
    for weight, number in large:
        weight.set_aside(mapped[number])


def side_file_of(module_path: str | os.PathLike[str]) -> Path:
    """`dir/net.mlir` -> `dir/net.safetensors`, the default side file of a module; of `dir/net`, `dir/net.safetensors`."""
    path = Path(module_path)
    return path.with_name(f"{path.name.removesuffix('.mlirbc').removesuffix('.mlir')}.safetensors")


def separate_key(reference: str) -> tuple[str, str]:
    """`"net.safetensors#conv1.weight"` -> (`net.safetensors`, `conv1.weight`); the file is empty for a plain key."""
    stem, mark, key = reference.partition(f"{_ENDING}#")
    return (stem + _ENDING, key) if mark else ("", reference)


def stored_key(key: str) -> str:
    """A valid key for an array: not reserved by the format, and not read as a key of another file."""
    return "metadata" if key == "__metadata__" else key.replace(f"{_ENDING}#", f"{_ENDING}.")
