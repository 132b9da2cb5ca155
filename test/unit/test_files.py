"""Files are whole or not there."""

import os
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt.diagnostics import CompileError
from amct_opt.dialects import nn
from amct_opt.files import filling, remove_unfinished, replacing, replacing_all, same_file
from amct_opt.ir.text import write_module


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


def test_what_a_killed_process_leaves_is_removed(tmp_path: Path) -> None:
    """Temporary files for these paths, and temporary folders; nothing else that is hidden."""
    path = tmp_path / "a[1].onnx"
    for kept in (".a[1].onnx.backup", ".other.12345678", ".amct-notes", "a[1].onnx"):
        (tmp_path / kept).write_text("mine")
    with replacing(path):
        (unfinished,) = (p for p in tmp_path.iterdir() if p.name.startswith(".a[1].onnx.") and "backup" not in p.name)
        os.link(unfinished, tmp_path / f"{unfinished.name[:-8]}left_123")
    (tmp_path / ".amct-left_123").mkdir()
    (tmp_path / ".amct-left_123" / "b").write_text("half")
    assert len(names(tmp_path)) == 6
    remove_unfinished(tmp_path, [path])
    assert names(tmp_path) == sorted([".a[1].onnx.backup", ".other.12345678", ".amct-notes", "a[1].onnx"])


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
