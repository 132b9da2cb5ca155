"""A folder of `.npz` files is one long array by input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from amct_opt.diagnostics import CompileError
from amct_opt.runtime.data.shards import shard_rows

X = np.arange(7 * 3, dtype=np.float32).reshape(7, 3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, part in (("a", X[:2]), ("b", X[2:2]), ("c", X[2:3]), ("d", X[3:])):
        np.savez(tmp_path / f"{name}.npz", x=part, n=part[:, 0].astype(np.int64))
    return tmp_path


def test_every_part_of_them(folder: Path) -> None:
    rows = shard_rows(folder)
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
def test_one_that_does_not_fit_is_named(folder: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(folder / "e.npz", **arrays)
    with pytest.raises(CompileError) as e:
        shard_rows(folder)
    assert str(e.value).startswith(f"{folder / 'e.npz'}: error: {message}")


def test_a_damaged_one_is_named(folder: Path) -> None:
    (folder / "c.npz").write_bytes(b"PK damaged")
    with pytest.raises(CompileError, match=r"c\.npz: error: cannot be read"):
        shard_rows(folder)


def test_one_that_is_written_again_is_read_again(folder: Path) -> None:
    rows = shard_rows(folder)["x"]
    rows.read(0, 7)
    np.savez(folder / "d.npz", x=X[3:] + 1, n=X[3:, 0])
    np.testing.assert_array_equal(rows.read(3, 7), X[3:] + 1)
    (folder / "d.npz").unlink()
    with pytest.raises(CompileError, match=r"d\.npz: error: there is no such file"):
        rows.read(3, 7)
