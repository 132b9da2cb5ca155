"""Files by path, or by an address that fsspec reads: `s3://bucket/folder`, `gs://...`, `file:///...`."""

from __future__ import annotations

import re
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.request import url2pathname

from ..support.diagnostics import CompileError
from ..support.files import refuse_pipe, replacing

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://(.*)", re.DOTALL)
_INSTALL = "pip install 'amct-opt[remote]'"


def is_address(text: str) -> bool:
    """Whether a text is the address of something that is not a local file."""
    return _ADDRESS.match(text) is not None and not text.startswith("file://")


def local(text: str) -> Path:
    """The path of a local file, given as a path or by `file://`."""
    return Path(url2pathname(text.removeprefix("file://"))) if text.startswith("file://") else Path(text)


def files_in(folder: str) -> list[str]:
    """The files of a folder, sorted. Raises CompileError if its address cannot be read."""
    if not is_address(folder):
        return sorted(map(str, path.iterdir())) if (path := local(folder)).is_dir() else []
    protocol = folder.partition("://")[0]
    with _located(folder, "read"):
        found: list[str] = _file_system(folder).ls(folder, detail=False)
        return sorted(f"{protocol}://{file.removeprefix(f'{protocol}://')}" for file in found)


@contextmanager
def opened(file: str) -> Generator[IO[bytes]]:
    """A file to read, at any place. Raises CompileError if its address cannot be read."""
    if not is_address(file):
        if not (path := local(file)).exists():
            raise CompileError("there is no such file", where=file)
        refuse_pipe(path)
        with path.open("rb") as stream:
            yield stream
        return
    with _located(file, "read"), _file_system(file).open(file, "rb") as stream:
        yield stream


def put(file: Path, address: str) -> None:
    """Copies a local file to any place, and makes the folder. Raises CompileError if it cannot be written."""
    if is_address(address):
        with _located(address, "written"):
            _file_system(address).put_file(str(file), address)
        return
    path = local(address)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise CompileError(f"cannot be written: {e.strerror}", where=address) from None
    with file.open("rb") as content, replacing(path) as stream:
        shutil.copyfileobj(content, stream)


def size_of(file: str) -> int | None:
    """The size of a file in bytes, None if there is none. Raises CompileError if its address cannot be read."""
    if not is_address(file):
        return path.stat().st_size if (path := local(file)).exists() else None
    with _located(file, "read"):
        system = _file_system(file)
        return int(system.size(file)) if system.exists(file) else None


def modified(file: str) -> int:
    """The time when a local file was written, in nanoseconds; 0 for one that is gone, which is an error when it is
    read, and for addresses, whose files must not change meanwhile.
    """
    return 0 if is_address(file) or not (path := local(file)).exists() else path.stat().st_mtime_ns


def _file_system(address: str) -> Any:
    try:
        from fsspec.core import url_to_fs  # pyright: ignore
    except ImportError:
        raise CompileError("an address requires fsspec", where=address, hint=_INSTALL) from None
    return url_to_fs(address)[0]


@contextmanager
def _located(address: str, verb: str) -> Generator[None]:
    try:
        yield
    except CompileError:
        raise
    except Exception as e:  # each file system has errors of its own
        raise CompileError(f"cannot be {verb}: {e or type(e).__name__}", where=address) from e
