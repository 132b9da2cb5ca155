"""Writing files so that a failure never leaves half of one behind."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from .diagnostics import CompileError


@contextmanager
def replacing(path: Path) -> Generator[IO[bytes]]:
    """A binary stream to a temporary file beside `path`; renamed to `path` on success, removed on failure.

    A link is followed, a device or pipe is written to as it is. Raises CompileError when the file cannot be written.
    """
    with replacing_all(path) as (stream,):
        yield stream


@contextmanager
def replacing_all(*paths: Path) -> Generator[tuple[IO[bytes], ...]]:
    """As `replacing`, for files that belong together: none is renamed before all are complete."""
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


def _open_beside(path: Path, pending: list[tuple[Path, Path]], cleanup: ExitStack) -> IO[bytes]:
    """A stream to what will be `path`, closed and, until it takes its place, removed by `cleanup`."""
    if path.exists() and not path.is_file():
        return cleanup.enter_context(path.open("wb"))  # a device or a pipe; a folder raises
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:64]}.", dir=path.parent)
    cleanup.callback(Path(name).unlink, missing_ok=True)
    pending.append((Path(name), path))
    return cleanup.enter_context(os.fdopen(handle, "wb"))


@contextmanager
def made(folder: Path) -> Generator[None]:
    """The folder is there, with those above it. What had to be made of them goes again on failure.

    Raises CompileError when it cannot be made.
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
    with suppress(OSError):  # somebody else's files are in it
        folder.rmdir()


@contextmanager
def filling(folder: Path) -> Generator[Path]:
    """A temporary folder inside `folder`, which is made when missing; its files are moved there on success, gone on failure.

    Raises CompileError when that cannot be done.
    """
    try:
        with made(folder), tempfile.TemporaryDirectory(prefix=".amct-", dir=folder) as temporary:
            yield Path(temporary)
            for path in sorted(Path(temporary).iterdir()):
                path.replace(folder / path.name)
    except OSError as e:
        raise CompileError(f"cannot be written: {e.strerror}", where=str(folder)) from None


def same_file(a: Path, b: Path) -> bool:
    """Whether two paths lead to one file, also through links."""
    try:
        return a.samefile(b)
    except OSError:
        return os.path.realpath(a) == os.path.realpath(b)


def refuse_overwriting(writes: Iterable[Path], reads: Iterable[Path]) -> None:
    """Raises CompileError, located in the file, where one that is to be written is one that was read."""
    read = list(reads)
    for path in writes:
        if any(same_file(path, each) for each in read):
            hint = "choose another name for -o"
            raise CompileError("would overwrite a file that was read", where=str(path), hint=hint)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
