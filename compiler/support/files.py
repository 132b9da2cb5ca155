"""Writes files so that neither a failure nor a crash leaves a partial file, or files of two runs side by side.

Files are written to a temporary folder on the same disk, flushed to it, and renamed. Files of one folder that belong together
change in one step, for any program that reads them: the temporary folder becomes the folder's journal, whose files are then
moved into place (`_settle`). If the process is killed meanwhile, the next command that reads or writes in the folder moves the
rest (`reading`, `replacing`, `filling`).

The locks are those of `flock` on the folders themselves: they leave no file, and end with their process. Where a file system
has none, nothing is locked, and nothing of other processes is removed.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from .diagnostics import CompileError
from .limits import locating

_UNFINISHED = ".amct-unfinished-"
"""Prefix of the names of temporary folders; their process has locked them."""
_RANDOM = "?" * 8
"""The rest of such a name, as `tempfile` makes it."""
_JOURNAL = ".amct-journal"
"""The folder with the files of a complete result that are not in place yet."""
_OLD, _LINKS, _SEEN, _NEXT = (f".amct-{name}" for name in ("old", "links", "seen", "next"))
"""Names of links and folders in the journal: the old files, the links that take the place of all files for a moment,
the link to the journal or to the old files that they lead through, and the one that replaces it.
"""
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
"""Errors of a file system without links."""
_STAGED: set[Path] = set()
"""The temporary folders of this process."""


@contextmanager
def replacing(path: Path) -> Generator[IO[bytes]]:
    """A binary stream to a temporary file that becomes `path` on success, and is removed on failure.

    Links are followed; devices and pipes are written to directly. Raises CompileError if the file cannot be written.
    """
    with replacing_all(path) as (stream,):
        yield stream


@contextmanager
def replacing_all(*paths: Path) -> Generator[tuple[IO[bytes], ...]]:
    """Like `replacing`, for files that belong together: those of one folder change at once, when all are complete."""
    with ExitStack() as cleanup:
        folders: dict[Path, Path] = {}
        streams: list[IO[bytes]] = []
        for path in paths:
            try:
                streams.append(cleanup.enter_context(_open(_followed(path), folders, cleanup)))
            except OSError as e:
                raise CompileError(f"cannot be written: {e.strerror}", where=str(path)) from None
        try:
            with locating(paths[0].name):
                yield tuple(streams)
            for stream in streams:
                stream.close()
            for folder, staging in folders.items():
                _replace(staging, folder)
        except OSError as e:
            why = "a file that was read became shorter meanwhile" if e.errno == errno.EFAULT else e.strerror
            raise CompileError(f"cannot be written: {why}", where=str(e.filename2 or paths[0])) from e


def _open(path: Path, folders: dict[Path, Path], cleanup: ExitStack) -> IO[bytes]:
    """A stream to the future `path`; `folders` maps each folder to its temporary one."""
    if path.exists() and not path.is_file():
        return path.open("wb")  # a device or a pipe; a folder raises
    if path.parent not in folders:
        folders[path.parent] = cleanup.enter_context(_staging(path.parent))
    return (folders[path.parent] / path.name).open("wb")


@contextmanager
def filling(folder: Path) -> Generator[Path]:
    """A temporary folder whose files are in `folder` on success, and removed on failure.

    A folder that does not exist appears with all files. In others, files of the same names are replaced at once; all others
    stay. Raises CompileError if that fails; those about files in it name the files that they were to become.
    """
    final = Path(os.path.realpath(folder))
    try:
        beside = final if final.exists() else final.parent
        with locating(str(folder)), made(beside), _staging(beside) as staging:
            try:
                yield staging
            except CompileError as e:
                texts = (text.replace(str(staging), str(folder)) for text in (e.message, e.where, e.hint))
                e.message, e.where, e.hint = texts
                raise
            _replace(staging, final)
    except OSError as e:
        raise CompileError(f"cannot be written: {e.strerror}", where=str(e.filename2 or folder)) from None


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
def scratch() -> Generator[Path]:
    """A folder for temporary files that nobody else reads. Raises CompileError if it cannot be made."""
    with ExitStack() as cleanup:
        with spooling():
            folder = cleanup.enter_context(_staging(Path(tempfile.gettempdir())))
        yield folder


def scratch_until_the_end() -> Path:
    """Like `scratch`; the folder is removed when the process ends. Raises CompileError if it cannot be made."""
    cleanup = ExitStack()
    atexit.register(cleanup.close)
    return cleanup.enter_context(scratch())


def own_temporary_folder() -> None:
    """Gives this process a temporary folder of its own, for all temporary files of its own, of libraries, and of
    processes that it starts.

    It is removed at the end of the process, or by the next command if the process is killed. Where it cannot be made nothing
    changes: whatever needs temporary files reports that.
    """
    cleanup = ExitStack()
    with suppress(OSError):
        folder = cleanup.enter_context(_staging(Path(tempfile.gettempdir())))
        atexit.register(cleanup.close)
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


@contextmanager
def spooling() -> Generator[None]:
    """Temporary files are made or written. Raises CompileError, located in their folder, if that fails."""
    try:
        yield
    except OSError as e:
        folder, *_ = (tempfile.tempdir or os.environ.get("TMPDIR", "")).partition(f"/{_UNFINISHED}")
        message = f"temporary files cannot be written: {e.strerror}"
        raise CompileError(message, where=folder, hint="the environment variable TMPDIR sets their folder") from None


@contextmanager
def reading(folder: Path) -> Generator[None]:
    """Reads files that belong together as one run wrote them: no process of this tool replaces them meanwhile.

    Raises CompileError if a killed process left files that cannot be moved into place.
    """
    journal = folder / _JOURNAL
    while True:
        if os.path.lexists(journal):
            with _locked(folder, fcntl.LOCK_EX):
                _settle(folder)
        with _locked(folder, fcntl.LOCK_SH):
            if not os.path.lexists(journal):
                yield
                return


@contextmanager
def alone(path: Path) -> Generator[None]:
    """Locks `path`, so that no other process works on it meanwhile. Raises CompileError if one does."""
    with ExitStack() as cleanup:
        while True:
            try:
                handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as e:
                raise CompileError(f"cannot be written: {e.strerror}", where=str(path)) from None
            closing = cleanup.enter_context(ExitStack())
            closing.callback(os.close, handle)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CompileError("another run is writing to this folder", where=str(path.parent)) from None
            except OSError:
                break  # the file system has no locks
            if _is(path, handle):
                break
            closing.close()
        cleanup.callback(path.unlink, missing_ok=True)
        yield


def abandon() -> None:
    """Remove the temporary folders of this process, which is about to end at once."""
    for folder in _STAGED:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _staging(folder: Path) -> Generator[Path]:
    """A temporary folder on the disk of a folder: inside another one, which is locked meanwhile and removed afterwards.

    What killed processes left in `folder` is removed. Raises OSError.
    """
    for path in folder.glob(_UNFINISHED + _RANDOM):
        _remove_dead(path)
    with ExitStack() as cleanup:
        while True:
            path = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=folder))
            _STAGED.add(path)
            cleanup.callback(_STAGED.discard, path)
            cleanup.callback(shutil.rmtree, path, ignore_errors=True)
            with suppress(FileNotFoundError):
                handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                cleanup.callback(os.close, handle)
                with suppress(OSError):
                    fcntl.flock(handle, fcntl.LOCK_EX)
                if _is(path, handle):  # not removed by another process before it was locked
                    break
        inside = path / "files"
        inside.mkdir()
        yield inside


def _remove_dead(path: Path) -> None:
    """Remove a temporary folder if its process has ended."""
    with suppress(OSError), ExitStack() as cleanup:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        cleanup.callback(os.close, handle)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)


def _is(path: Path, handle: int) -> bool:
    """Whether a path still leads to an open file."""
    with suppress(OSError):
        return os.path.samestat(path.stat(), os.fstat(handle))
    return False


def _replace(staging: Path, folder: Path) -> None:
    """Move the files of a temporary folder into a folder, all at once. Raises OSError."""
    for path in staging.iterdir():
        _flush(path)
    beside = staging.parent.parent
    if beside != folder:
        with _locked(beside, fcntl.LOCK_EX):
            if not folder.exists():
                _flush(staging)
                staging.rename(folder)
                _flush(beside)
                return
        with _staging(folder) as inside:  # another process made the folder
            for path in staging.iterdir():
                path.rename(inside / path.name)
            _replace(inside, folder)
        return
    with _locked(folder, fcntl.LOCK_EX):
        _settle(folder)
        paths = sorted(staging.iterdir())
        for path in paths:
            if (final := folder / path.name).is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path), None, str(final))
        if len(paths) == 1:
            paths[0].replace(folder / paths[0].name)
        else:
            _link(staging, paths, folder)
            _flush(staging)
            staging.rename(folder / _JOURNAL)
            _flush(folder)
            try:
                _move(folder)
            except KeyboardInterrupt:
                _move(folder)
                raise
            except OSError:
                if _undone(folder):
                    raise
        _flush(folder)


def _link(staging: Path, paths: Sequence[Path], folder: Path) -> None:
    """Add the steps to a future journal that make `_settle` one step, if the file system has links. Raises OSError."""
    try:
        (staging / _NEXT).symlink_to(".")
    except OSError as e:
        if e.errno not in _NO_LINKS:
            raise
        return
    (staging / _SEEN).symlink_to(_OLD)
    old, links = staging / _OLD, staging / _LINKS
    old.mkdir()
    links.mkdir()
    for path in paths:
        (links / path.name).symlink_to(Path(_JOURNAL, _SEEN, path.name))
        if (final := folder / path.name).is_symlink():
            (old / path.name).symlink_to(os.path.realpath(final))
        elif final.exists():
            _share(final, old / path.name)


def _share(file: Path, other: Path) -> None:
    """Give a file a second name. It is copied where the system allows no hard link. Raises OSError."""
    try:
        other.hardlink_to(file)
    except OSError:
        shutil.copy2(file, other)


def _settle(folder: Path) -> None:
    """Move the files of a journal into place, if there is one. Raises CompileError if they cannot be moved."""
    try:
        _move(folder)
    except OSError as e:
        message = f"a run was interrupted while its files replaced others, and the rest cannot be moved: {e.strerror}"
        raise CompileError(message, where=str(folder / _JOURNAL)) from None


def _move(folder: Path) -> None:
    """Move the files of a journal into place. Raises OSError.

    First a link to the old file takes the place of each file. All of them lead through one link, which then turns to the new
    files. Last, each new file takes the place of the link to it. A program that reads at any instant finds the old files before
    that turn, and the new ones after it. On a file system without links the old files are removed first: they are missing for a
    moment, and never next to new ones.
    """
    journal = folder / _JOURNAL
    if not os.path.lexists(journal):
        return
    new = sorted(path for path in journal.iterdir() if path.name not in (_OLD, _LINKS, _SEEN, _NEXT))
    if os.path.lexists(journal / _NEXT):
        for link in (journal / _LINKS).iterdir():
            link.replace(folder / link.name)
        _flush(folder)
        (journal / _NEXT).replace(journal / _SEEN)
        _flush(journal)
    elif not os.path.lexists(journal / _SEEN):
        for path in new:
            (folder / path.name).unlink(missing_ok=True)
    for path in new:
        path.replace(folder / path.name)
    _flush(folder)
    shutil.rmtree(journal)


def _undone(folder: Path) -> bool:
    """Undo an unfinished `_move`. Returns false if all links lead to the new files: the next command moves the rest.

    Raises OSError.
    """
    journal = folder / _JOURNAL
    if not os.path.lexists(journal / _NEXT):
        return not os.path.lexists(journal / _SEEN)
    for path in (journal / _OLD).iterdir():
        path.replace(folder / path.name)
    for path in journal.iterdir():
        final = folder / path.name
        if final.is_symlink() and final.readlink() == Path(_JOURNAL, _SEEN, path.name):
            final.unlink()
    shutil.rmtree(journal)
    return True


def _followed(path: Path) -> Path:
    """A path after links are followed, but not those of a journal, whose files are moved into place first.

    Raises CompileError if they cannot be moved.
    """
    real = Path(os.path.realpath(path))
    if _JOURNAL not in real.parts:
        return real
    folder = Path(*real.parts[: real.parts.index(_JOURNAL)])
    with _locked(folder, fcntl.LOCK_EX):
        _settle(folder)
    return Path(os.path.realpath(path))


@contextmanager
def _locked(folder: Path, kind: int) -> Generator[None]:
    """Holds the lock of a folder. Where it cannot be had, nothing is locked."""
    with ExitStack() as cleanup:
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            cleanup.callback(os.close, handle)
            fcntl.flock(handle, kind)
        yield


def _flush(path: Path) -> None:
    """Wait until a file or folder is on the disk. Raises OSError; file systems that flush no folders are left alone."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError:
        if not path.is_dir():
            raise
    finally:
        os.close(handle)


def refuse_pipe(path: Path) -> None:
    """Raises CompileError for a named pipe. Reading one waits until somebody writes to it.

    A pipe that the shell opens (`<(command)`, `/dev/stdin`) has no name of its own, and somebody who writes to it.
    """
    if path.is_fifo() and os.path.lexists(os.path.realpath(path)):
        raise CompileError("is a pipe, not a file", where=str(path), hint="write what comes out of it to a file first")


def read_text(path: Path) -> str:
    """The text of a file. Raises CompileError if it cannot be read, or is not UTF-8."""
    refuse_pipe(path)
    try:
        return path.read_text("utf-8")
    except OSError as e:
        raise CompileError(f"cannot be read: {e.strerror}", where=str(path)) from None
    except UnicodeDecodeError:
        raise CompileError("is not UTF-8 text", where=str(path)) from None


def same_file(a: Path, b: Path) -> bool:
    """Whether two paths lead to the same file, also through links."""
    try:
        return a.samefile(b)
    except OSError:
        return os.path.realpath(a) == os.path.realpath(b)


def lies_beside(path: Path, owner: Path) -> bool:
    """Whether a side file of `owner` is in its folder, or in a folder below, after links are followed.

    If `owner` itself is a link, as in a cache that names its files by their content, the folder that it leads to counts as well.
    """
    real = path.resolve()
    return any(real.is_relative_to(folder) for folder in (owner.parent.resolve(), owner.resolve().parent))


def refuse_overwriting(writes: Iterable[Path], reads: Iterable[Path]) -> None:
    """Raises CompileError, located in the file, if a file to be written is one that was read."""
    read = list(reads)
    for path in writes:
        if any(same_file(path, each) for each in read):
            hint = "choose another name for -o"
            raise CompileError("would overwrite a file that was read", where=str(path), hint=hint)
