"""Batches that programs give."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from amct_opt.data import Form, from_batches, load_samples
from amct_opt.support.diagnostics import CompileError

from .models import function

X = "%x: tensor<?x2xf32>"


def script(folder: Path, text: str) -> Path:
    path = folder / "calib.py"
    path.write_text(f"import numpy as np\n{text}\n")
    return path


def test_a_generator_runs_more_than_once() -> None:
    arrays = [np.full((i + 1, 2), i, np.float64) for i in range(4)]  # batches of different sizes
    samples = from_batches(({"x": a} for a in arrays), function(X))
    for _ in range(2):
        batches = [b["x"] for b in samples.batches()]
        assert [b.dtype for b in batches] == [np.float32] * 4
        for found, expected in zip(batches, arrays, strict=True):
            np.testing.assert_array_equal(found, expected)
    assert samples.digest() == from_batches([{"x": a} for a in arrays], function(X)).digest()
    assert samples.digest() != from_batches([{"x": a} for a in arrays[::-1]], function(X)).digest()


def test_an_endless_generator_is_read_as_far_as_asked() -> None:
    read = 0

    def endless() -> Iterator[np.ndarray]:
        nonlocal read
        while True:
            read += 1
            yield np.zeros((1, 2), np.float32)

    assert from_batches(endless(), function(X), runs=3).runs == read == 3


def test_two_inputs_of_other_ranks() -> None:
    f = function("%x: tensor<2xf32>, %s: tensor<i64>")
    samples = from_batches([{"x": [1.0, 2.0], "s": 7}, {"x": [3.0, 4.0], "s": 8}], f)
    assert [(b["x"].tolist(), int(b["s"])) for b in samples.batches()] == [([1.0, 2.0], 7), ([3.0, 4.0], 8)]


@pytest.mark.parametrize(
    ("arguments", "batch", "message"),
    [
        (X, np.zeros((1, 3), np.float32), r"batches, batch 1: error: input 'x' has shape \[1, 3\]"),
        (X, np.zeros((2,), np.float32), r"input 'x' has shape \[2\]"),
        (X, np.zeros((0, 2), np.float32), "input 'x' is empty"),
        (X, np.zeros((1, 2), np.int64), "input 'x' is of int64, but the model takes float32"),
        (X, {"y": np.zeros((1, 2), np.float32)}, "has arrays for y; the inputs are x"),
        (X, {}, "has arrays for nothing; the inputs are x"),
        ("%x: tensor<?x2xi8>", np.full((1, 2), 300), "batch 1: error: input 'x' is of int64, 300 to 300"),
    ],
)
def test_refused(arguments: str, batch: object, message: str) -> None:
    good = np.zeros((1, 2), np.int8 if "i8" in arguments else np.float32)
    with pytest.raises(CompileError, match=message):
        from_batches([good, batch], function(arguments))  # type: ignore[list-item]


def test_batches_without_elements() -> None:
    f = function("%x: tensor<?x?x2xf32>")
    batches = [np.zeros((1, 0, 2), np.float32), np.ones((1, 3, 2), np.float32)]
    assert [b["x"].shape for b in from_batches(batches, f).batches()] == [(1, 0, 2), (1, 3, 2)]


def test_several_inputs_need_names() -> None:
    with pytest.raises(CompileError, match="is ndarray, not arrays by name"):
        from_batches([np.zeros((1, 2), np.float32)], function(f"{X}, %y: tensor<?x2xf32>"))


def test_no_batch_at_all() -> None:
    with pytest.raises(CompileError, match="batches: error: gave no batch"):
        from_batches([], function(X))


def test_nan_names_the_batch() -> None:
    x = np.array([[[0.0, 1.0]], [[2.0, np.inf]]])
    with pytest.raises(
        CompileError, match=r"batches, batch 1: error: input 'x' holds NaN or Inf in sample 1, at \[0, 1\]"
    ):
        list(from_batches(x, function(X)).batches())


def test_function_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "amct_helper_of_calib.py").write_text("SCALE = 2\n")
    path = script(
        tmp_path,
        """def batches():
            from amct_helper_of_calib import SCALE
            for i in range(3):
                yield {"x": np.full((1, 2), float(SCALE * i))}""",
    )
    samples = load_samples(f"{path}:batches", function(X))
    assert [float(b["x"][0, 0]) for b in samples.batches()] == [0, 2, 4]
    assert load_samples(f"{path}:batches", function(X), runs=2).runs == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def batches():\n    raise KeyError('no images')", "calib.py:3: error: KeyError: 'no images'"),
        ("def batches():\n    yield np.zeros((1, 2))\n    1 / 0", "calib.py:4: error: ZeroDivisionError"),
        ("def batches(:", "calib.py:2: error: SyntaxError"),
        ("raise SystemExit(3)", "calib.py:2: error: SystemExit: 3"),
        ("other = 1", "defines no function 'batches'"),
        ("batches = 1", "defines no function 'batches'"),
        ("def batches():\n    return np.zeros((4, 2))", "'batches' gives ndarray, not batches"),
        ("def batches():\n    return {'x': np.zeros((4, 2))}", "'batches' gives dict, not batches"),
    ],
)
def test_files_that_fail(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        load_samples(f"{script(tmp_path, text)}:batches", function(X))


def test_a_file_is_executed_only_by_its_function(tmp_path: Path) -> None:
    path = script(tmp_path, "def runs():\n    yield 1\nraise SystemExit")
    with pytest.raises(CompileError, match=r"is a Python file\n  hint: name its function: .*\.py:runs"):
        load_samples(path, function(X))
    with pytest.raises(CompileError, match="there is no such file"):
        load_samples(f"{tmp_path / 'none.py'}:batches", function(X))
    with pytest.raises(CompileError, match="batches of a function are taken as they are"):
        load_samples(f"{path}:batches", function(X), Form(("float32",)))
