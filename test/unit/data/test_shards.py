"""A folder of shards is one long array by input."""

from __future__ import annotations

import io
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amct_opt
from amct_opt.data.shards import OnError, ShardRows, shard_files, shard_rows
from amct_opt.support.diagnostics import CompileError
from amct_opt.transforms.quantization.data import load
from amct_opt.transforms.quantization.options import DataOptions

X = np.arange(7 * 3, dtype=np.float32).reshape(7, 3)


def rows_of(folder: Path | str, on_error: OnError = "stop") -> Mapping[str, ShardRows]:
    return shard_rows(shard_files(str(folder)), on_error).rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, part in (("a", X[:2]), ("b", X[2:2]), ("c", X[2:3]), ("d", X[3:])):
        np.savez(tmp_path / f"{name}.npz", x=part, n=part[:, 0].astype(np.int64))
    return tmp_path


def test_every_part_of_them(folder: Path) -> None:
    rows = rows_of(folder)
    x, n = rows["x"], rows["n"]
    assert (x.shape, x.dtype, n.shape, n.dtype) == ((7, 3), np.float32, (7,), np.int64)
    for start in range(7):
        for stop in range(start + 1, 8):
            np.testing.assert_array_equal(x.read(start, stop), X[start:stop])
            np.testing.assert_array_equal(n.read(start, stop), X[start:stop, 0])
    assert [Path(x.place(i)).name for i in (0, 1, 2, 3, 6)] == ["a.npz", "a.npz", "c.npz", "d.npz", "d.npz"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X}, "array 'n' of a.npz is missing"),
        ({"x": X[:, :2], "n": X[:, 0]}, "array 'x' is float32 [3] in a.npz, but float32 [2] here"),
        ({"x": X.astype(np.float64), "n": X[:, 0]}, "array 'x' is float32 [3] in a.npz, but float64 [3] here"),
        ({"x": X, "n": X[:2, 0].astype(np.int64)}, "its arrays have different numbers of samples"),
    ],
)
def test_one_that_does_not_fit_is_named(folder: Path, arrays: Any, message: str) -> None:
    np.savez(folder / "e.npz", **arrays)
    with pytest.raises(CompileError) as e:
        rows_of(folder)
    assert str(e.value).startswith(f"{folder / 'e.npz'}: error: {message}")


def test_a_damaged_one_is_named(folder: Path) -> None:
    (folder / "c.npz").write_bytes(b"PK damaged")
    with pytest.raises(CompileError, match=r"c\.npz: error: cannot be read"):
        rows_of(folder)


def test_one_that_is_written_again_is_read_again(folder: Path) -> None:
    rows = rows_of(folder)["x"]
    rows.read(0, 7)
    np.savez(folder / "d.npz", x=X[3:] + 1, n=X[3:, 0])
    np.testing.assert_array_equal(rows.read(3, 7), X[3:] + 1)
    (folder / "d.npz").unlink()
    with pytest.raises(CompileError, match=r"d\.npz: error: there is no such file"):
        rows.read(3, 7)


def test_damaged_ones_are_skipped(folder: Path) -> None:
    """A member that is stored as it is has a checksum that only `skip` looks at."""
    (folder / "a.npz").write_bytes(b"PK damaged")
    content = bytearray((folder / "d.npz").read_bytes())
    content[content.index(X[5].tobytes())] ^= 1
    (folder / "d.npz").write_bytes(content)
    found = shard_rows(shard_files(str(folder)), "skip")
    np.testing.assert_array_equal(found.rows["x"].read(0, 1), X[2:3])
    assert found.rows["x"].shape == (1, 3)
    assert [Path(each.where).name for each in found.skipped] == ["a.npz", "d.npz"]
    assert found.skipped[1].message == "cannot be read: checksum mismatch in 'x'"
    for name in ("b", "c"):
        (folder / f"{name}.npz").write_bytes(b"")
    with pytest.raises(CompileError, match=r"a\.npz: error: none of 4 shards can be read"):
        rows_of(folder, "skip")


def tar(path: Path, samples: np.ndarray, pickled: bool = False) -> None:
    with tarfile.open(path, "w") as archive:
        for i, sample in enumerate(samples):
            members = {"x.npy": npy(sample), "n.npy": npy(sample[0].astype(np.int64)), "json": b"{}"}
            if pickled:
                members["n.npy"] = npy(np.array({}, object))
            for ending, content in members.items():
                info = tarfile.TarInfo(f"train/{i:06}.{ending}")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_shards_of_webdataset(tmp_path: Path) -> None:
    for name, part in (("0", X[:2]), ("1", X[2:])):
        tar(tmp_path / f"{name}.tar", part)
    rows = rows_of(tmp_path)
    np.testing.assert_array_equal(rows["x"].read(1, 6), X[1:6])
    np.testing.assert_array_equal(rows["n"].read(0, 7), X[:, 0])
    tar(tmp_path / "2.tar", X, pickled=True)
    with pytest.raises(
        CompileError, match=r"2\.tar: error: cannot be read: member '\S+\.npy': Object arrays cannot be"
    ):
        rows_of(tmp_path)
    damaged = npy(X[0]).replace(b"'descr'", b"desc=r=")
    with tarfile.open(tmp_path / "2.tar", "w") as archive:
        member = tarfile.TarInfo("7.x.npy")
        member.size = len(damaged)
        archive.addfile(member, io.BytesIO(damaged))
    with pytest.raises(CompileError, match=r"2\.tar: error: cannot be read: member '7\.x\.npy': \D") as e:
        rows_of(tmp_path)
    assert "0x" not in str(e.value)


def test_addresses(folder: Path) -> None:
    assert rows_of(f"file://{folder}")["x"].shape == (7, 3)
    fsspec = pytest.importorskip("fsspec", reason="the extra `remote` is not installed")
    remote = fsspec.filesystem("memory")
    for file in folder.iterdir():
        remote.pipe(f"/shards/{file.name}", file.read_bytes())
    rows = rows_of("memory://shards")
    np.testing.assert_array_equal(rows["x"].read(1, 6), X[1:6])
    assert rows["x"].place(3) == "memory:///shards/d.npz"
    with pytest.raises(CompileError, match=r"memory://nothing: error: cannot be read"):
        rows_of("memory://nothing")
    with pytest.raises(CompileError, match=r"nosuch://a: error: cannot be read: Protocol not known"):
        rows_of("nosuch://a")


def test_skipped_shards_are_warned_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module, session = amct_opt.parse(
        """func.func @main(%x: tensor<?x3xf32> {nn.name = "x"}, %n: tensor<?xi64> {nn.name = "n"}) -> tensor<?x3xf32> {
  func.return %x : tensor<?x3xf32>
}"""
    )
    (folder / "c.npz").write_bytes(b"")
    data = str(folder)
    samples = load(DataOptions(data, on_error="skip"), module, session)
    assert samples.count == 6
    assert session.warnings == [
        f"{data}: shards skipped: 1: {data}/c.npz: error: cannot be read: File is not a zip file"
    ]


# Parquet


@pytest.fixture
def tables(tmp_path: Path) -> Any:
    """Writes columns to files of a folder."""
    arrow: Any = pytest.importorskip("pyarrow", reason="the extra `parquet` is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")

    def write(name: str, **columns: Any) -> Path:
        path = tmp_path / name
        parquet.write_table(arrow.table(columns), path)
        return path

    return write


def test_columns(tables: Any, tmp_path: Path) -> None:
    """Lists of a fixed size or of any, lists in lists, tensors, bytes of .npy files, and numbers."""
    import pyarrow  # pyright: ignore[reportMissingImports]

    arrow: Any = pyarrow
    x = np.arange(7 * 6, dtype=np.float32).reshape(7, 2, 3)
    fixed = arrow.list_(arrow.list_(arrow.float32(), 3), 2)
    for i, part in enumerate(np.array_split(x, [3])):
        tables(
            f"{i}.parquet",
            fixed=arrow.array(part.tolist(), fixed),
            lists=arrow.array(part.tolist(), arrow.list_(arrow.list_(arrow.float32()))),
            tensor=arrow.FixedShapeTensorArray.from_numpy_ndarray(part),
            bytes=[npy(each) for each in part],
            number=arrow.array(part[:, 0, 0].astype(np.int64)),
        )
    rows = rows_of(tmp_path)
    for name in ("fixed", "lists", "tensor", "bytes"):
        np.testing.assert_array_equal(rows[name].read(2, 5), x[2:5], strict=True)
    np.testing.assert_array_equal(rows["number"].read(0, 7), x[:, 0, 0].astype(np.int64), strict=True)
    assert rows_of(tmp_path / "0.parquet")["fixed"].shape == (3, 2, 3)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([[1.0], [1.0, 2.0]], "column 'x' has cells of different lengths"),
        ([[1.0], None], "column 'x' has cells of different lengths, or none"),
        ([1.0, None], "column 'x' has no value in some rows"),
        (["a", "b"], "column 'x' is of string: cells are numbers"),
        ([], "it has no rows"),
    ],
)
def test_columns_that_are_not_data(tables: Any, cells: Any, message: str) -> None:
    path = tables("x.parquet", x=cells)
    with pytest.raises(CompileError) as e:
        rows_of(path)["x"].read(0, 2)
    assert str(e.value).startswith(f"{path}: error: cannot be read: {message}")


def test_a_damaged_table(tables: Any) -> None:
    path = tables("x.parquet", x=[1.0, 2.0])
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CompileError, match="cannot be read"):
        rows_of(path)


def test_without_pyarrow(tables: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tables("x.parquet", x=[1.0, 2.0])
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(CompileError, match="Parquet requires pyarrow") as e:
        rows_of(path)
    assert e.value.hint == "pip install 'amct-opt[parquet]'"
