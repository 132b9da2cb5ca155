"""Weights in storage that all workers see: files in folders named by the hash of their content, which each worker reads."""

from __future__ import annotations

import hashlib
import shutil
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from ..data.addresses import is_address, local, opened, put, size_of
from ..support.files import scratch_until_the_end

_KEPT = 32
"""Files that a worker keeps."""
_FETCHING = Lock()


class Stored(NamedTuple):
    """A file in storage, of the same name as where it was written."""

    address: str
    digest: str
    """SHA-256 of its content, as hex."""


def stored(file: Path, folder: str) -> Stored:
    """Copies a file to a folder or an address, unless it is there already. Raises CompileError if it cannot be."""
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    base = folder.rstrip("/") if is_address(folder) else str(local(folder).absolute())
    copy = Stored(f"{base}/{digest}/{file.name}", digest)
    if size_of(copy.address) != file.stat().st_size:
        put(file, copy.address)
    return copy


def fetched(file: Stored) -> Path:
    """Fetches the content to a local file, on a worker; the file itself if it has a path. Raises CompileError if it
    cannot be read.
    """
    with _FETCHING:
        return _fetched(file)


@lru_cache(maxsize=_KEPT)
def _fetched(file: Stored) -> Path:
    with opened(file.address) as content:
        if not is_address(file.address):
            return local(file.address)
        path = scratch_until_the_end() / file.address.rpartition("/")[2]
        with path.open("wb") as stream:
            shutil.copyfileobj(content, stream)
        return path
