"""Arrays of Dask and Zarr, and bags of Dask, are read in parts."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amct_opt
from amct_opt.data import load_samples
from amct_opt.data.given import samples_from
from amct_opt.data.lazy import LazyRows
from amct_opt.ir.functions import main_function
from amct_opt.support.diagnostics import CompileError

NET = """func.func @main(%x: tensor<?x3xf32> {nn.name = "x"}) -> tensor<?x3xf32> {
  func.return %x : tensor<?x3xf32>
}"""
X = np.arange(30, dtype=np.float32).reshape(10, 3)


class Chunked:
    """An array that knows what is read of it."""

    shape, dtype, ndim, chunks = X.shape, X.dtype, 2, (4, 3)

    def __init__(self) -> None:
        self.read: list[slice] = []

    def __getitem__(self, part: slice) -> np.ndarray:
        self.read.append(part)
        return X[part]


def test_parts_are_read() -> None:
    array = Chunked()
    samples = samples_from({"x": array}, amct_opt.parse(NET).module)
    assert not array.read
    np.testing.assert_array_equal(samples.take("x", 2, 3), X[2:5])
    assert array.read == [slice(2, 5)]


@pytest.mark.parametrize("by_name", [True, False])
def test_arrays_of_dask(by_name: bool) -> None:
    dask: Any = pytest.importorskip("dask.array", reason="dask.array is not installed")
    array = dask.from_array(X, chunks=(4, 3))
    samples = samples_from({"x": array} if by_name else array, amct_opt.parse(NET).module)
    samples = pickle.loads(pickle.dumps(samples))
    np.testing.assert_array_equal(samples.take("x", 2, 7), X[2:9])
    assert samples.digest() == samples_from(X, amct_opt.parse(NET).module).digest()


def test_bags_of_dask() -> None:
    bag: Any = pytest.importorskip("dask.bag", reason="dask.bag is not installed")
    batches = bag.from_sequence([{"x": X[:4]}, {"x": X[4:8]}, {"x": X[8:]}], npartitions=2)
    module = amct_opt.parse(NET).module
    samples = samples_from(batches, module)
    assert samples.runs == 3
    assert samples.digest() == samples_from([{"x": X[:4]}, {"x": X[4:8]}, {"x": X[8:]}], module).digest()


def test_groups_of_zarr(tmp_path: Path) -> None:
    zarr: Any = pytest.importorskip("zarr", reason="the extra `zarr` is not installed")
    zarr.open_group(str(tmp_path / "data.zarr"), mode="w").create_array("x", data=X, chunks=(4, 3))
    function = main_function(amct_opt.parse(NET).module)
    samples = pickle.loads(pickle.dumps(load_samples(tmp_path / "data.zarr", function)))
    np.testing.assert_array_equal(samples.take("x", 2, 7), X[2:9])
    with pytest.raises(amct_opt.CompileError, match=r"other\.zarr: error: cannot be read"):
        load_samples(tmp_path / "other.zarr", function)


class Damaged(Chunked):
    """An array whose parts cannot be read, with an error of the store's own."""

    def __getitem__(self, part: slice) -> np.ndarray:
        raise RuntimeError("error during blosc decompression: -1")


def test_parts_that_cannot_be_read_are_located() -> None:
    rows = LazyRows(Damaged(), "x.zarr")
    with pytest.raises(CompileError, match=r"^x.zarr: error: cannot be read: error during blosc decompression: -1$"):
        rows.read(0, 2)


def test_zarr_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(amct_opt.CompileError, match="requires zarr") as e:
        load_samples(tmp_path / "x.zarr", main_function(amct_opt.parse(NET).module))
    assert e.value.hint == "pip install 'amct-opt[zarr]'"
