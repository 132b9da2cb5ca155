"""Files are whole or not there."""

import errno
import itertools
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt.data.arrays import load_arrays
from amct_opt.dialects import nn
from amct_opt.ir.text import write_module
from amct_opt.support.diagnostics import CompileError
from amct_opt.support.files import alone, filling, reading, replacing, replacing_all, same_file


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def write(*paths: Path, fail: bool = False) -> None:
    with replacing_all(*paths) as streams:
        for stream in streams:
            stream.write(b"new")
        if fail:
            raise KeyError


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(KeyError):
        write(path, fail=True)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a"]


def test_the_old_file_is_readable_until_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with replacing(path) as stream:
        stream.write(b"new")
        stream.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def killed(events: int, work: Callable[[], None]) -> bool:
    """Do some work in a process that is killed before a call of the system, counted from 0. Returns false if it ended before."""
    if (child := os.fork()) == 0:
        left = itertools.count(events, -1)

        def hook(event: str, _: object) -> None:
            if event in _CALLS and next(left) == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


_CALLS = {f"os.{call}" for call in ("rename", "link", "symlink", "mkdir", "remove", "rmdir")}


def fill(folder: Path) -> None:
    with filling(folder) as temporary:
        for name in "ab":
            (temporary / name).write_text("new")


def without_links(folder: Path) -> None:
    """A file system without links."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "")

    os.symlink = os.link = refuse
    fill(folder)


def plain(folder: Path) -> list[str | None]:
    """What any program reads in files that belong together, and in one of the user's."""
    return [(folder / name).read_text() if (folder / name).exists() else None for name in "abc"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("way", [fill, lambda folder: write(folder / "a", folder / "b"), without_links])
@pytest.mark.parametrize("old", [("old", "old"), ("old", None)])
def test_a_killed_process_leaves_all_files_old_or_all_new(
    old: tuple[str | None, ...], way: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For any program, after a kill between any two calls of the system; our next command removes what it leaves."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # takes long, and changes nothing here
    states: list[list[str | None]] = []
    for events in itertools.count():
        for name, text in zip("abc", (*old, "old"), strict=True):
            if text is None:
                (tmp_path / name).unlink(missing_ok=True)
            else:
                (tmp_path / name).write_text(text)
        (tmp_path / ".amct-unfinished").mkdir(exist_ok=True)  # the user's
        ended = not killed(events, partial(way, tmp_path))
        states.append(plain(tmp_path))
        with reading(tmp_path):
            assert plain(tmp_path) in ([*old, "old"], ["new", "new", "old"])
        write(tmp_path / "a" if events % 2 else tmp_path / "d")
        (tmp_path / "d").unlink(missing_ok=True)
        assert [name for name in names(tmp_path) if name not in "abc"] == [".amct-unfinished"]
        if ended:
            break
    found = {tuple(state) for state in states}
    whole = {(*old, "old"), ("new", "new", "old")}
    if way is without_links:  # a file may be missing, and is never of another run than the others
        assert not any({"old", "new"} <= {*state[:2]} for state in found)
        return
    assert found == whole
    turn = next(i for i, state in enumerate(states) if state[0] == "new")
    assert all(state[0] == "new" for state in states[turn:])


@pytest.mark.parametrize("old", [("old", "old"), ("old", None)])
def test_a_call_that_fails_leaves_all_files_old_or_succeeds(
    old: tuple[str | None, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    rename, turned = os.replace, set[bool]()
    for failing in range(9):
        for name, text in zip("abc", (*old, "old"), strict=True):
            (tmp_path / name).unlink(missing_ok=True)
            if text is not None:
                (tmp_path / name).write_text(text)
        calls = itertools.count()

        def call(source: Path, target: Path, calls: Iterator[int] = calls, failing: int = failing) -> None:
            if next(calls) == failing:
                raise OSError(errno.EIO, "Input/output error", str(source), None, str(target))
            rename(source, target)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", call)
            expected: list[str | None] = ["new", "new", "old"]
            try:
                fill(tmp_path)
            except CompileError:
                expected = [*old, "old"]
                assert names(tmp_path) == [name for name, text in zip("abc", expected, strict=True) if text]
        turned.add(expected[0] == "new")
        assert plain(tmp_path) == expected
        with reading(tmp_path):
            assert plain(tmp_path) == expected
    assert turned == {True, False}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_new_folder_appears_with_all_its_files(tmp_path: Path) -> None:
    out = tmp_path / "made" / "out"
    with filling(out) as folder:
        write(folder / "a", folder / "b")
        assert not out.exists()
    assert names(out) == ["a", "b"]
    assert names(out.parent) == ["out"]
    killed(0, partial(fill, tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_unfinished_files_of_a_running_process_stay(tmp_path: Path) -> None:
    with filling(tmp_path) as one, replacing(tmp_path / "b") as stream:
        (one / "a").write_text("1")
        stream.write(b"2")
        with filling(tmp_path) as other:
            (other / "a").write_text("3")
    assert [(tmp_path / name).read_text() for name in "ab"] == ["1", "2"]
    assert names(tmp_path) == ["a", "b"]


def test_two_processes_that_make_a_folder_do_not_mix_their_files(tmp_path: Path) -> None:
    with filling(tmp_path / "out") as one:
        write(one / "a", one / "b")
        with filling(tmp_path / "out") as other:
            (other / "a").write_text("other")
    assert names(tmp_path / "out") == ["a", "b"]
    assert (tmp_path / "out" / "a").read_text() == "new"


def test_only_one_process_works_on_a_lock(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with alone(lock), pytest.raises(CompileError, match="another run is writing to this folder"), alone(lock):
        pass
    assert names(tmp_path) == []
    (tmp_path / "lock").touch()  # left by a killed process
    with alone(tmp_path / "lock"):
        pass
    assert names(tmp_path) == []


def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        with replacing(tmp_path / "a"):
            pass
    finally:
        os.umask(old)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_of_several_files_all_or_none_appear(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    with pytest.raises(CompileError, match="b: error: cannot be written: Is a directory"):
        write(tmp_path / "a", tmp_path / "b")
    assert names(tmp_path) == ["b"]
    with pytest.raises(CompileError, match="No space left"):
        write(tmp_path / "a", Path("/dev/full"))
    assert names(tmp_path) == ["b"]
    with pytest.raises(KeyError):
        write(tmp_path / "a", tmp_path / "c", fail=True)
    assert names(tmp_path) == ["b"]


def test_a_module_is_not_written_without_its_arrays(tmp_path: Path) -> None:
    (tmp_path / "net.safetensors").mkdir()
    module = ModuleOp([nn.ConstantOp.of(np.zeros(100), "w")])
    with pytest.raises(CompileError, match=r"net.safetensors: error: cannot be written: Is a directory"):
        write_module(module, tmp_path / "net.mlir")
    assert names(tmp_path) == ["net.safetensors"]


def test_missing_folders_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="x/a: error: cannot be written: No such file or directory"):
        write(tmp_path / "x/a")


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with replacing(tmp_path / "link") as stream:
        stream.write(b"1")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "1"


def test_one_file_by_many_paths(tmp_path: Path) -> None:
    a = tmp_path / "a"
    a.touch()
    (tmp_path / "soft").symlink_to(a)
    (tmp_path / "hard").hardlink_to(a)
    (tmp_path / "b").touch()
    assert same_file(a, tmp_path / "soft")
    assert same_file(tmp_path / "hard", a)
    assert same_file(a, tmp_path / "x" / ".." / "a")
    assert not same_file(a, tmp_path / "b")
    assert not same_file(a, tmp_path / "none")
    assert same_file(tmp_path / "none", tmp_path / "." / "none")


def test_folders_that_were_made_go_with_a_failure(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(CompileError), filling(tmp_path / "there" / "a" / "b"):
        raise CompileError("no")
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]
    with filling(tmp_path / "there" / "a") as folder:
        (folder / "x").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["there", "a", "x"]


def test_a_full_disk_is_named_not_the_file_that_is_unpacked(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros(1 << 20, np.float32))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    message = r"temporary files cannot be written: File too large"
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
        with pytest.raises(CompileError, match=message) as full:
            load_arrays(tmp_path / "x.npz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "x.npz" not in str(full.value)
    assert load_arrays(tmp_path / "x.npz")["x"].size == 1 << 20
