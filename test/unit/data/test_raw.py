"""Raw binaries: a folder per input, a run per file."""

import os
from pathlib import Path

import numpy as np
import pytest

from amct_opt.data import Form, load_samples
from amct_opt.data.raw import DATA_TYPES
from amct_opt.support.diagnostics import CompileError

from .models import function

TWO = "%x: tensor<2x3xf32>, %i: tensor<?xi64>"


def folder(path: Path, *batches: np.ndarray) -> Path:
    path.mkdir()
    for i, batch in enumerate(batches):
        batch.tofile(path / f"batch_{i}.bin")
    return path


def test_files_are_runs_sorted_by_name(tmp_path: Path) -> None:
    x = [np.full((2, 3), i, np.float32) for i in range(12)]
    data = folder(tmp_path / "x", *x)
    (data / ".hidden").write_bytes(b"?")
    samples = load_samples(data, function("%x: tensor<2x3xf32>"), Form(("float32",)))
    order = sorted(range(12), key=lambda i: f"batch_{i}.bin")  # 0, 1, 10, 11, 2, ...
    assert [int(b["x"][0, 0]) for b in samples.batches()] == order
    assert (samples.runs, samples.batch_size) == (12, 1)


def test_two_inputs_in_the_order_of_the_shapes(tmp_path: Path) -> None:
    x, i = np.arange(6, dtype=np.float64).reshape(2, 3), np.array([3, 1, 2], np.int32)
    folder(tmp_path / "x", x)
    folder(tmp_path / "i", i)
    form = Form(("int32", "float64"), {"i": (3,), "x": (2, 3)})
    (batch,) = load_samples(f"{tmp_path / 'i'};{tmp_path / 'x'}", function(TWO), form).batches()
    np.testing.assert_array_equal(batch["x"], x.astype(np.float32))
    np.testing.assert_array_equal(batch["i"], i)
    assert (batch["x"].dtype, batch["i"].dtype) == (np.float32, np.int64)


@pytest.mark.parametrize("name", DATA_TYPES)
def test_every_type(tmp_path: Path, name: str) -> None:
    element = {"bool": "i1", "float16": "f16", "float32": "f32", "float64": "f64"}.get(
        name, name.replace("uint", "ui").replace("int", "i")
    )
    array = np.array([[0, 1, 1]]).astype(name)
    folder(tmp_path / "x", array)
    (batch,) = load_samples(tmp_path / "x", function(f"%x: tensor<1x3x{element}>"), Form((name,))).batches()
    assert batch["x"].dtype == np.dtype(name)
    np.testing.assert_array_equal(batch["x"], array)


def test_unknown_size_comes_from_the_file(tmp_path: Path) -> None:
    folder(tmp_path / "x", np.zeros((4, 3), np.float32), np.ones((2, 3), np.float32))
    samples = load_samples(tmp_path / "x", function("%x: tensor<?x3xf32>"), Form(("float32",)))
    assert [b["x"].shape for b in samples.batches()] == [(4, 3), (2, 3)]
    fixed = load_samples(tmp_path / "x", function("%x: tensor<?x3xf32>"), Form(("float32",), {"x": (-1, 3)}))
    assert samples.digest() == fixed.digest()


@pytest.mark.parametrize(
    ("arguments", "form", "message"),
    [
        (
            "%x: tensor<2x3xf32>",
            Form(("float64",)),
            r"batch_0.bin: error: holds 24 bytes, \[2, 3\] of float64 needs 48",
        ),
        ("%x: tensor<?x5xf32>", Form(("float32",)), "holds 24 bytes, .* needs a multiple of 20"),
        ("%x: tensor<?x?xf32>", Form(("float32",)), "input 'x' has several unknown sizes"),
        ("%x: tensor<2x3xf32>", Form(("complex64",)), "data type 'complex64' is not one of float16"),
        ("%x: tensor<2x3xf32>", Form(("float32", "int8")), "2 data types for 1 inputs: x"),
        ("%x: tensor<2x3xi8>", Form(("float32",)), "input 'x' is of float32, but the model takes int8"),
        ("%x: tensor<2x3xf32>", Form(("float32",), {"y": (2, 3)}), "the model has no input y"),
        ("%x: tensor<2x3xf32>", Form(("float32",), {"x": (3, 2)}), "the model takes \\[2, 3\\]"),
        (TWO, Form(("float32", "int64")), "1 folder for 2 inputs: x, i"),
        (TWO, Form(("float32", "int64"), {"x": (2, 3)}), "1 folder for 2 inputs"),
    ],
)
def test_refused(tmp_path: Path, arguments: str, form: Form, message: str) -> None:
    folder(tmp_path / "x", np.zeros((2, 3), np.float32))
    with pytest.raises(CompileError, match=message) as error:
        load_samples(tmp_path / "x", function(arguments), form)
    assert str(error.value).startswith(str(tmp_path))


def test_shapes_for_some_inputs_only(tmp_path: Path) -> None:
    for name in "xi":
        folder(tmp_path / name, np.zeros((2, 3), np.float32))
    with pytest.raises(CompileError, match="1 shape for 2 inputs: x, i"):
        load_samples(f"{tmp_path / 'x'};{tmp_path / 'i'}", function(TWO), Form(("float32", "int64"), {"x": (2, 3)}))


def test_folders_that_are_missing_or_empty(tmp_path: Path) -> None:
    f, form = function("%x: tensor<2x3xf32>"), Form(("float32",))
    with pytest.raises(CompileError, match="none: error: the folder does not exist"):
        load_samples(tmp_path / "none", f, form)
    with pytest.raises(CompileError, match="holds no files"):
        load_samples(folder(tmp_path / "empty"), f, form)
    (tmp_path / "empty" / "inner").mkdir()
    with pytest.raises(CompileError, match="it holds 1 folders, which are not searched"):
        load_samples(tmp_path / "empty", f, form)


def test_pipes(tmp_path: Path) -> None:
    """A pipe is not a sample; it is not left out either."""
    for name, held in (("alone", ()), ("beside", (np.zeros((2, 3), np.float32),))):
        pipe = folder(tmp_path / name, *held) / "pipe.bin"
        os.mkfifo(pipe)
        with pytest.raises(CompileError, match=f"{pipe}: error: is a pipe, not a file"):
            load_samples(pipe.parent, function("%x: tensor<2x3xf32>"), Form(("float32",)))


def test_different_numbers_of_files(tmp_path: Path) -> None:
    x, i = np.zeros((2, 3), np.float32), np.zeros(3, np.int64)
    folder(tmp_path / "x", x, x)
    folder(tmp_path / "i", i)
    with pytest.raises(CompileError, match=r"different numbers of samples \(x: 2, i: 1\)"):
        load_samples(f"{tmp_path / 'x'};{tmp_path / 'i'}", function(TWO), Form(("float32", "int64")))


def test_nan_names_the_file(tmp_path: Path) -> None:
    x = np.zeros((2, 3), np.float32)
    x[1, 2] = np.nan
    folder(tmp_path / "x", np.zeros((2, 3), np.float32), x)
    samples = load_samples(tmp_path / "x", function("%x: tensor<2x3xf32>"), Form(("float32",)))
    with pytest.raises(CompileError, match=r"batch_1.bin: error: input 'x' holds NaN or Inf in sample 1, at \[1, 2\]"):
        list(samples.batches())


def test_a_folder_of_binaries_is_not_taken_for_arrays(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="raw binaries are read with data-types"):
        load_samples(folder(tmp_path / "x", np.zeros(3, np.float32)), function("%x: tensor<1x3xf32>"))
    with pytest.raises(CompileError, match="which require data-types"):
        Form(shapes={"x": (1, 3)})


def test_a_numpy_file_per_sample(tmp_path: Path) -> None:
    """For the only input in the folder itself, with or without the axis of the batch; for several in a folder each."""
    for i in range(3):
        np.save(tmp_path / f"s{i}.npy", np.full((2, 3), i, np.float32))
    for declared in ("%x: tensor<2x3xf32>", "%x: tensor<?x2x3xf32>"):
        samples = load_samples(tmp_path, function(declared))
        assert [int(batch["x"].max()) for batch in samples.batches()] == [0, 1, 2]
    for name, shape in (("x", (2, 3)), ("i", (4,))):
        (tmp_path / "two" / name).mkdir(parents=True)
        for i in range(2):
            np.save(tmp_path / "two" / name / f"{i}.npy", np.full(shape, i, np.float32 if name == "x" else np.int64))
    assert [int(batch["i"][0]) for batch in load_samples(tmp_path / "two", function(TWO)).batches()] == [0, 1]


def test_numpy_files_are_opened_when_they_are_read(tmp_path: Path) -> None:
    for i in range(2000):  # more than a process may have open
        np.save(tmp_path / f"{i:04}.npy", np.zeros((2, 3), np.float32))
    np.save(tmp_path / "0001.npy", np.zeros((3, 2), np.float32))
    samples = load_samples(tmp_path, function("%x: tensor<2x3xf32>"))
    assert samples.count == 2000
    with pytest.raises(
        CompileError, match=r"0001.npy: error: holds float32 \[3, 2\], and 0000.npy holds float32 \[2, 3\]"
    ):
        list(samples.batches())
    with pytest.raises(CompileError) as error:
        load_samples(tmp_path, function(TWO))
    assert "and 1990 more" in error.value.hint
