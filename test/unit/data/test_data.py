"""Calibration data: what is taken, how it is cut into runs, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from amct_opt.data import load_arrays, load_samples, synthetic_samples
from amct_opt.data.given import samples_from
from amct_opt.ir.functions import main_function
from amct_opt.ir.text import parse_module
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError

from ..values import module_of
from .models import function, save


@pytest.mark.parametrize(
    ("shape", "data", "runs", "per_run"),
    [
        ("?x3", (5, 3), 5, (1, 3)),
        ("1x3", (5, 3), 5, (1, 3)),
        ("2x3", (6, 3), 3, (2, 3)),
        ("2x3", (5, 3), 3, (2, 3)),  # the last run takes a sample twice
        ("1x3", (5, 1, 3), 5, (1, 3)),  # one whole input per sample
        ("4", (6, 4), 6, (4,)),
    ],
)
def test_batches(tmp_path: Path, shape: str, data: tuple[int, ...], runs: int, per_run: tuple[int, ...]) -> None:
    x = np.arange(np.prod(data), dtype=np.float32).reshape(data)
    samples = load_samples(save(tmp_path / "d.npz", x=x), function(f"%x: tensor<{shape}xf32>"))
    batches = [b["x"] for b in samples.batches()]
    assert samples.runs == len(batches) == runs
    assert {b.shape for b in batches} == {per_run}
    assert set(np.concatenate([b.reshape(-1) for b in batches]).tolist()) == set(x.reshape(-1).tolist())


def test_arrays_of_the_inputs_own_shapes(tmp_path: Path) -> None:
    """First axes that differ cannot count samples: these are the inputs of one run, in a file as in a program."""
    arrays = {"x": np.arange(140, dtype=np.float32).reshape(4, 7, 5), "w": np.ones((5, 6), np.float32)}
    f = function("%x: tensor<4x7x5xf32>, %w: tensor<5x6xf32>")
    for samples in (load_samples(save(tmp_path / "d.npz", **arrays), f), samples_from(arrays, module_of(f))):
        ((batch),) = samples.batches()
        assert (samples.count, samples.runs, samples.batch_size) == (1, 1, 1)
        assert all(np.array_equal(batch[n], a) for n, a in arrays.items())
    several = {n: np.stack([a, a + 1, a + 2]) for n, a in arrays.items()}
    assert load_samples(save(tmp_path / "e.npz", **several), f).runs == 3
    other = save(tmp_path / "f.npz", x=arrays["x"], w=np.ones((7, 6), np.float32))
    with pytest.raises(CompileError, match="different numbers of samples"):
        load_samples(other, f)


def test_whole_inputs_of_sizes_that_are_not_known(tmp_path: Path) -> None:
    """Audio, the state of a recurrent network and a rate: the rate has no axis that could count samples, the state's is 2."""
    f = function("%x: tensor<?x?xf32>, %state: tensor<2x?x4xf32>, %rate: tensor<i64>")
    arrays = {"x": np.ones((3, 8), np.float32), "state": np.zeros((2, 3, 4), np.float32), "rate": np.array(16000)}
    for samples in (load_samples(save(tmp_path / "d.npz", **arrays), f), samples_from(arrays, module_of(f))):
        ((batch),) = samples.batches()
        assert {n: a.shape for n, a in batch.items()} == {n: a.shape for n, a in arrays.items()}
        assert int(batch["rate"]) == 16000
        assert samples.digest() == samples.digest()
    by_function = (
        "hint: .*for whole inputs, write a Python function that yields a dict of them for each run: FILE.py:FUNCTION"
    )
    bad = (
        {"state": np.zeros((3, 4), np.float32)},
        {"rate": np.full(2, 16000)},
        {"state": np.zeros((3, 3, 4), np.float32)},
    )
    for i, wrong in enumerate(bad):
        with pytest.raises(CompileError, match=by_function):
            load_samples(save(tmp_path / f"{i}.npz", **{**arrays, **wrong}), f)
    unequal = save(tmp_path / "u.npz", x=np.ones((3, 2), np.float32), y=np.ones((2, 2), np.float32))
    with pytest.raises(CompileError, match="different numbers of samples"):
        load_samples(unequal, function("%x: tensor<?x2xf32>, %y: tensor<?x2xf32>"))


def test_inputs_without_axes(tmp_path: Path) -> None:
    """One value per sample; each run takes an array of no axes, which is what onnxruntime takes."""
    path = save(tmp_path / "d.npz", x=np.zeros((3, 1, 2), np.float32), rate=np.full(3, 16000))
    samples = load_samples(path, function("%x: tensor<1x2xf32>, %rate: tensor<i64>"))
    for batch in samples.batches():
        assert type(batch["rate"]) is np.ndarray
        assert (batch["rate"].shape, batch["rate"].dtype, int(batch["rate"])) == ((), np.int64, 16000)


def test_folder_of_npy(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 2), np.float32))
    np.save(tmp_path / "y.npy", np.zeros((3, 4), np.int32))
    samples = load_samples(tmp_path, function("%x: tensor<?x2xf32>, %y: tensor<?x4xi64>"))
    (first, *_) = samples.batches()
    assert first["y"].dtype == np.int64
    assert samples.count == 3


def test_head_tail_and_digest(tmp_path: Path) -> None:
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    samples = load_samples(save(tmp_path / "d.npz", x=x), function("%x: tensor<?x2xf32>"))
    assert samples.head(3).arrays()["x"].tolist() == x[:3].tolist()
    assert samples.tail(2).arrays()["x"].tolist() == x[3:].tolist()
    assert samples.digest() == load_samples(save(tmp_path / "e.npz", x=x), function("%x: tensor<?x2xf32>")).digest()
    assert samples.digest() != samples.head(4).digest()


def test_samples_without_elements(tmp_path: Path) -> None:
    """A cache that is empty in the first step."""
    path = save(tmp_path / "d.npz", x=np.zeros((3, 0, 2), np.float32), y=np.ones((3, 2), np.float32))
    samples = load_samples(path, function("%x: tensor<?x?x2xf32>, %y: tensor<?x2xf32>"))
    assert [batch["x"].shape[1:] for batch in samples.batches()] == [(0, 2)] * samples.runs


@pytest.mark.parametrize(
    ("arguments", "arrays", "message"),
    [
        ("%x: tensor<?x2xf32>", {"y": (3, 2)}, "no data for input x"),
        ("%x: tensor<?x2xf32>", {"x": (3, 2), "z": (3, 2)}, "the model has no input z"),
        ("%x: tensor<?x2xf32>", {"x": (3, 5)}, "has shape \\[3, 5\\]"),
        ("%x: tensor<?x2xf32>", {"x": (3,)}, "has shape \\[3\\]"),
        ("%x: tensor<?x3x8x8xf32>", {"x": (2, 8, 8, 3)}, "(?s)has shape.*hint: the axes come in another order"),
        ("%x: tensor<?x2xf32>", {"x": (0, 2)}, "is empty"),
        ("%x: tensor<?x2xf32>, %y: tensor<?x2xf32>", {"x": (3, 2), "y": (4, 2)}, "different numbers of samples"),
        ("%x: tensor<4x2xf32>", {"x": (3, 2)}, "3 samples, but the model takes 4 at a time"),
        (
            "%x: tensor<2x2xf32>, %y: tensor<1x2xf32>",
            {"x": (4, 2), "y": (4, 2)},
            "different numbers of samples per run",
        ),
    ],
)
def test_refused(tmp_path: Path, arguments: str, arrays: dict[str, tuple[int, ...]], message: str) -> None:
    data = {k: np.zeros(v, np.float32) for k, v in arrays.items()}
    path = save(tmp_path / "d.npz", **data)
    with pytest.raises(CompileError, match=message) as error:
        load_samples(path, function(arguments))
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("type_", "array"), [("f32", np.zeros((1, 2), np.int32)), ("i64", np.zeros((1, 2), np.float32))]
)
def test_wrong_element_type(tmp_path: Path, type_: str, array: np.ndarray) -> None:
    with pytest.raises(CompileError, match="is of"):
        load_samples(save(tmp_path / "d.npz", x=array), function(f"%x: tensor<?x2x{type_}>"))


def test_integers_that_do_not_fit_are_found_when_they_run(tmp_path: Path) -> None:
    x = np.array([[1, 2], [3, 300]])
    samples = load_samples(save(tmp_path / "d.npz", x=x), function("%x: tensor<?x2xi8>"))
    with pytest.raises(CompileError, match="input 'x' of sample 1 is of int64, 3 to 300; but the model takes int8"):
        list(samples.batches())


def test_nan_is_found_when_it_runs(tmp_path: Path) -> None:
    x = np.zeros((3, 2), np.float32)
    x[1, 1] = np.nan
    samples = load_samples(save(tmp_path / "d.npz", x=x), function("%x: tensor<?x2xf32>"))
    with pytest.raises(CompileError, match=r"NaN or Inf in sample 1, at \[1\]"):
        list(samples.batches())


def test_damaged_files(tmp_path: Path) -> None:
    f = function("%x: tensor<?x2xf32>")
    truncated = tmp_path / "cut.npz"
    truncated.write_bytes(save(tmp_path / "whole.npz", x=np.zeros((9, 2), np.float32)).read_bytes()[:100])
    np.savez(tmp_path / "pickled.npz", x=np.array([object()], dtype=object))
    (tmp_path / "empty").mkdir()
    for path, message in [
        (tmp_path / "none.npz", "no such file"),
        (truncated, "cannot be read"),
        (tmp_path / "pickled.npz", "cannot be read"),
        (tmp_path / "empty", "holds neither .npy files nor .npz files"),
    ]:
        with pytest.raises(CompileError, match=message):
            load_samples(path, f)


def test_synthetic_is_seeded() -> None:
    f = function("%x: tensor<?x2x?xf32>, %i: tensor<?x4xi64>")
    one, two, other = synthetic_samples(f, 1), synthetic_samples(f, 1), synthetic_samples(f, 2)
    assert one.digest() == two.digest() != other.digest()
    assert one.synthetic
    (first, *_) = one.batches()
    assert (first["x"].shape, first["i"].shape) == ((1, 2, 8), (1, 4))


@pytest.mark.parametrize(("length", "past"), [("?", 8), ("5", 5)])
def test_synthetic_lengths_of_a_decoder_fit_each_other(length: str, past: int) -> None:
    """The mask covers the cache and the tokens; what belongs to the encoder has a length of its own."""
    f = function(
        "%attention_mask: tensor<?x?xi64>, %ids: tensor<?x?xi64>, %position_ids: tensor<?x?xi32>, "
        f"%past_key_0: tensor<?x2x{length}x3xf32>, %encoder_attention_mask: tensor<?x?xi64>, "
        "%past_key_values.0.encoder.key: tensor<?x2x?x3xf32>"
    )
    first = next(iter(synthetic_samples(f).batches()))
    assert first["attention_mask"].tolist() == [[1] * (past + 8)]
    assert first["position_ids"].tolist() == [list(range(past, past + 8))]
    assert first["position_ids"].dtype == np.int32
    assert [first[name].shape[-1] for name in ("ids", "encoder_attention_mask")] == [8, 8]
    assert first["past_key_values.0.encoder.key"].shape == (1, 2, 8, 3)


def test_synthetic_masks_of_a_size_of_their_own_keep_it() -> None:
    f = function("%mask: tensor<?x9xi64>, %embeds: tensor<?x?x3xf32>, %past.0: tensor<?x2x?x3xf32>, %n: tensor<i64>")
    assert next(iter(synthetic_samples(f).batches()))["mask"].shape == (1, 9)


def test_synthetic_axes_of_one_name_have_one_size() -> None:
    text = """
    func.func @main(%x: tensor<?x?xf32> {nn.dims = ["N", "S"]}, %y: tensor<?x?xf32> {nn.dims = ["S", ""]}) {
      func.return
    }"""
    first = next(iter(synthetic_samples(main_function(parse_module(new_session(), text))).batches()))
    assert (first["x"].shape, first["y"].shape) == ((1, 8), (8, 8))


def test_synthetic_caches_have_the_heads_that_onnxruntimes_attention_takes() -> None:
    """onnxruntime-genai names the size of heads, and does not give it: here it is 12 / 4."""
    text = """
    func.func @main(%x: tensor<?x?x20xf16>, %k: tensor<?x2x?x?xf16>, %v: tensor<?x2x?x?xf16>, %n: tensor<?xi32>) {
      %y, %p, %q = nn.opaque %x, %k, %v, %n framework "onnx" op_type "GroupQueryAttention" domain "com.microsoft" version 1
        present [1, 0, 0, 1, 1, 1] attrs {kv_num_heads = 2 : i64, num_heads = 4 : i64} :
        (tensor<?x?x20xf16>, tensor<?x2x?x?xf16>, tensor<?x2x?x?xf16>, tensor<?xi32>)
        -> (tensor<?x?x12xf16>, tensor<?x2x?x?xf16>, tensor<?x2x?x?xf16>)
      func.return
    }"""
    first = next(iter(synthetic_samples(main_function(parse_module(new_session(), text))).batches()))
    assert [first[name].shape for name in "kv"] == [(1, 2, 8, 3)] * 2


def test_npz_is_mapped_whether_compressed_or_not(tmp_path: Path) -> None:
    arrays = {"x": np.arange(12, dtype=np.float32).reshape(6, 2), "y": np.asfortranarray(np.eye(6, 3, dtype=np.int64))}
    np.savez(tmp_path / "stored.npz", **arrays)
    np.savez_compressed(tmp_path / "packed.npz", **arrays)
    for name in ("stored", "packed"):
        loaded = load_arrays(tmp_path / f"{name}.npz")
        for key, array in arrays.items():
            assert isinstance(loaded[key], np.memmap)
            np.testing.assert_array_equal(loaded[key], array)


def test_single_npy_is_the_only_input(tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.save(tmp_path / "any.npy", x)
    samples = load_samples(tmp_path / "any.npy", function("%x: tensor<?x2xf32>"))
    assert [b["x"].tolist() for b in samples.batches()] == [[row] for row in x.tolist()]
    with pytest.raises(CompileError, match="holds one array, the model has several inputs"):
        load_samples(tmp_path / "any.npy", function("%x: tensor<?x2xf32>, %y: tensor<?x2xf32>"))


def test_overflow_is_found_when_it_runs(tmp_path: Path) -> None:
    x = np.array([[1.0], [1e300]])
    samples = load_samples(save(tmp_path / "d.npz", x=x), function("%x: tensor<?x1xf32>"))
    with pytest.raises(CompileError, match="holds NaN, Inf or more than float32 does in sample 1"):
        list(samples.batches())


def test_tail_counts_from_the_end_of_a_head(tmp_path: Path) -> None:
    x = np.arange(10, dtype=np.float32).reshape(10, 1)
    part = load_samples(save(tmp_path / "d.npz", x=x), function("%x: tensor<?x1xf32>")).head(7).tail(4)
    assert [float(b["x"][0, 0]) for b in part.batches()] == [3, 4, 5, 6]
    other = load_samples(save(tmp_path / "e.npz", x=x[3:7]), function("%x: tensor<?x1xf32>"))
    assert part.digest() == other.digest()
