"""Arrays from numpy's files: `.npz`, `.npy`, and folders of `.npy`. They are mapped, not read."""

from __future__ import annotations

import math
import os
import re
import struct
import tempfile
import zipfile
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from ..support.diagnostics import CompileError, first_line
from ..support.files import refuse_pipe, spooling
from ..support.limits import require
from .stored import Array

_NPY, _ZIP = np.lib.format.MAGIC_PREFIX, b"PK"
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_LONGEST_HEADER = 1 << 14
"""More bytes than numpy reads of a header."""
_PIECE = 1 << 20
_LOCAL_HEADER = 30
"""Bytes of a zip member's header before its name; the last four are the lengths of name and extra field."""


def load_arrays(path: Path, inputs: Iterable[str] = ()) -> dict[str, Array]:
    """Arrays by name from an `.npz` file or a folder with one `.npy` file per name.

    The array of a single `.npy` file is for the only one of `inputs`.
    Raises CompileError, located in the file, for other content; pickled objects are rejected.
    """
    if path.is_dir():
        return _folder(path)
    if not path.exists():
        raise CompileError("there is no such file", where=str(path))
    refuse_pipe(path)
    with reading(str(path)), path.open("rb") as stream:
        start, names = stream.read(len(_NPY)), list(inputs)
        if start.startswith(_ZIP):
            return arrays_in(stream)
        single = start == _NPY
        if single and len(names) == 1:
            return {names[0]: mapped_array(stream, 0)}
    if single:
        hint = "put one per input, by its name, into a folder, or all into an .npz archive"
        raise CompileError("holds one array, the model has several inputs", where=str(path), hint=hint)
    hint = "save with np.savez(path, input_name=array)"
    raise CompileError("is neither an .npz archive nor an .npy file", where=str(path), hint=hint)


def _folder(path: Path) -> dict[str, Array]:
    files = sorted(path.glob("*.npy"))
    if not files:
        hint = (
            "raw binaries are read with data-types, images with preprocess=imagenet (caffe, tf, yolo), or mean and std"
        )
        raise CompileError("holds neither .npy files nor .npz files", where=str(path), hint=hint)
    arrays: dict[str, Array] = {}
    for file in files:
        refuse_pipe(file)
        with reading(str(file)), file.open("rb") as stream:
            arrays[file.stem] = mapped_array(stream, 0)
    return arrays


class ArrayHead(NamedTuple):
    """The shape and type of an array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def array_heads(stream: IO[bytes]) -> dict[str, ArrayHead]:
    """The heads of the arrays in an `.npz` file, by name; the arrays are not read."""
    heads: dict[str, ArrayHead] = {}
    with zipfile.ZipFile(stream) as archive:
        for info in archive.infolist():
            with archive.open(info) as member:
                shape, _, dtype = _header(member)
            heads[info.filename.removesuffix(".npy")] = ArrayHead(shape, dtype)
    return heads


def check_archive(stream: IO[bytes]) -> None:
    """Raises ValueError for an `.npz` file with a member that does not have its checksum."""
    with zipfile.ZipFile(stream) as archive:
        if (broken := archive.testzip()) is not None:
            raise ValueError(f"checksum mismatch in '{broken.removesuffix('.npy')}'")


def read_array(stream: IO[bytes]) -> Array:
    """The array of an `.npy` file from where the stream is, in memory. Raises ValueError for pickled objects."""
    return np.lib.format.read_array(stream, allow_pickle=False)


def arrays_in(stream: IO[bytes]) -> dict[str, Array]:
    """The arrays of an `.npz` file, by name: mapped from a local file, read from any other."""
    with zipfile.ZipFile(stream) as archive:
        return {info.filename.removesuffix(".npy"): _member(archive, info, stream) for info in archive.infolist()}


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, stream: IO[bytes]) -> Array:
    """Maps a stored member in place, a compressed one from an unnamed file that it is unpacked to."""
    if info.compress_type == zipfile.ZIP_STORED:
        stream.seek(info.header_offset + _LOCAL_HEADER - 4)
        name, extra = struct.unpack("<HH", stream.read(4))
        return mapped_array(stream, info.header_offset + _LOCAL_HEADER + name + extra)
    with archive.open(info) as member, ExitStack() as cleanup:
        start = member.read(_LONGEST_HEADER)
        with spooling():
            unpacked = cleanup.enter_context(tempfile.TemporaryFile())
            unpacked.write(start)
            unpacked.seek(0)
        shape, _, dtype = _header(unpacked)
        # what the header declares is unpacked, however much the member contains
        size = unpacked.tell() + math.prod(shape) * dtype.itemsize
        require(size, f"array '{info.filename.removesuffix('.npy')}'", "")
        unpacked.seek(0, os.SEEK_END)
        while (missing := size - unpacked.tell()) > 0 and (part := member.read(min(missing, _PIECE))):
            with spooling():
                unpacked.write(part)
        with spooling():
            unpacked.flush()
        return mapped_array(unpacked, 0)


def mapped_array(stream: IO[bytes], start: int) -> Array:
    """The array of an `.npy` file that begins at `start` of a stream; it outlives the stream."""
    stream.seek(start)
    if not _is_local(stream):
        return read_array(stream)
    shape, fortran, dtype = _header(stream)
    if not math.prod(shape):
        return np.empty(shape, dtype)
    stream.flush()
    return np.memmap(stream, dtype, "r", stream.tell(), shape, "F" if fortran else "C")


def _is_local(stream: IO[bytes]) -> bool:
    try:
        return stream.fileno() >= 0
    except (AttributeError, OSError):
        return False


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """The shape of an `.npy` file's array, whether it is in Fortran's order, and its type. Raises ValueError for objects."""
    shape, fortran, dtype = _HEADERS[np.lib.format.read_magic(stream)](stream)
    if dtype.hasobject:
        raise ValueError("it holds pickled objects")
    return shape, fortran, dtype


_ADDRESS = re.compile(r" object at 0x[0-9a-f]+")
"""The part of the messages of Python's parser that differs from run to run."""


@contextmanager
def reading(place: str) -> Generator[None]:
    """Locates errors in a file."""
    try:
        yield
    except CompileError as e:
        raise CompileError(e.message, where=e.where or place, hint=e.hint) from None
    except MemoryError as e:
        e.add_note(place)
        raise
    except Exception as e:  # numpy, zipfile and stores raise half a dozen types for a corrupted file
        raise CompileError(f"cannot be read: {_ADDRESS.sub('', first_line(e))}", where=place) from None
