"""Writes files so that a failure never leaves a partial file behind."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import IO

from .diagnostics import CompileError

_FILLING = ".amct-"
"""How the temporary folders of `filling` begin."""
_RANDOM = "?" * 8
"""The rest of a temporary name, as `tempfile` makes it."""


@contextmanager
def replacing(path: Path) -> Generator[IO[bytes]]:
    """A binary stream to a temporary file beside `path`; renamed to `path` on success, removed on failure.

    Links are followed; devices and pipes are written to directly. Raises CompileError if the file cannot be written.
    """
    with replacing_all(path) as (stream,):
        yield stream


@contextmanager
def replacing_all(*paths: Path) -> Generator[tuple[IO[bytes], ...]]:
    """Like `replacing`, for files that belong together: none is renamed before all are complete."""
    with ExitStack() as cleanup:
        pending: list[tuple[Path, Path]] = []
        streams: list[IO[bytes]] = []
        for path in paths:
            try:
                streams.append(_open_beside(Path(os.path.realpath(path)), pending, cleanup))
            except OSError as e:
                raise CompileError(f"cannot be written: {e.strerror}", where=str(path)) from None
        try:
            yield tuple(streams)
            for stream in streams:
                stream.close()
            for temporary, path in pending:
                temporary.chmod(0o666 & ~_umask())
                temporary.replace(path)
        except OSError as e:
            raise CompileError(f"cannot be written: {e.strerror}", where=str(e.filename2 or paths[0])) from e


def _prefix(path: Path) -> str:
    """How the names of temporary files for a path begin."""
    return f".{path.name[:64]}."


def _open_beside(path: Path, pending: list[tuple[Path, Path]], cleanup: ExitStack) -> IO[bytes]:
    """A stream to the future `path`; `cleanup` closes it, and removes its file unless it was renamed to `path`."""
    if path.exists() and not path.is_file():
        return cleanup.enter_context(path.open("wb"))  # a device or a pipe; a folder raises
    handle, name = tempfile.mkstemp(prefix=_prefix(path), dir=path.parent)
    cleanup.callback(Path(name).unlink, missing_ok=True)
    pending.append((Path(name), path))
    return cleanup.enter_context(os.fdopen(handle, "wb"))


def remove_unfinished(folder: Path, files: Iterable[Path]) -> None:
    """Remove what `replacing` of these files and `filling` leave in a folder if the process is killed."""
    for path in files:
        for temporary in folder.glob(escape(_prefix(path)) + _RANDOM):
            temporary.unlink(missing_ok=True)
    for temporary in folder.glob(_FILLING + _RANDOM):
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def made(folder: Path) -> Generator[None]:
    """Create a folder and its missing parents. On failure, the created ones are removed again.

    Raises CompileError if it cannot be created.
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    with ExitStack() as cleanup:
        for each in reversed(missing):
            cleanup.callback(_remove_empty, each)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise CompileError(f"cannot be written: {e.strerror}", where=str(folder)) from None
        yield
        cleanup.pop_all()


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # it contains other files
        folder.rmdir()


@contextmanager
def filling(folder: Path) -> Generator[Path]:
    """A temporary folder inside `folder`, created if missing. Its files are moved to `folder` on success, removed on failure.

    Raises CompileError if that fails.
    """
    try:
        with made(folder), tempfile.TemporaryDirectory(prefix=_FILLING, dir=folder) as temporary:
            yield Path(temporary)
            for path in sorted(Path(temporary).iterdir()):
                path.replace(folder / path.name)
    except OSError as e:
        raise CompileError(f"cannot be written: {e.strerror}", where=str(folder)) from None


def same_file(a: Path, b: Path) -> bool:
    """Whether two paths lead to the same file, also through links."""
    try:
        return a.samefile(b)
    except OSError:
        return os.path.realpath(a) == os.path.realpath(b)


def refuse_overwriting(writes: Iterable[Path], reads: Iterable[Path]) -> None:
    """Raises CompileError, located in the file, if a file to be written is one that was read."""
    read = list(reads)
    for path in writes:
        if any(same_file(path, each) for each in read):
            hint = "choose another name for -o"
            raise CompileError("would overwrite a file that was read", where=str(path), hint=hint)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
