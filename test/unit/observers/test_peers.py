"""Observers next to those of onnxruntime (installed) and of PPQ (its documented formulas, written out here) on the same data.

docs/observers.md says in words what these tests hold: where the tools agree, and why not elsewhere.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

from amct_opt.observers import make_observer
from amct_opt.observers.entropy import best_threshold
from amct_opt.runtime.affine import affine, rounded

COUNT = 60_000


def values(name: str) -> np.ndarray:
    rng = np.random.default_rng(3)
    draws = {
        "normal": lambda: rng.normal(size=COUNT),
        "laplace": lambda: rng.laplace(size=COUNT) + 0.3,
        "heavy": lambda: rng.standard_t(4, size=COUNT),
        "relu": lambda: np.maximum(rng.normal(size=COUNT), 0),
        "uniform": lambda: rng.uniform(-1, 1, COUNT),
        "outlier": lambda: np.append(rng.normal(size=COUNT - 1), 40),
    }
    return draws[name]().astype(np.float32)


NAMES = ("normal", "laplace", "heavy", "relu", "uniform", "outlier")


def ours(text: str, arrays: Sequence[np.ndarray], symmetric: bool = False) -> tuple[float, float]:
    observer = make_observer(text, 8, symmetric=symmetric)
    for array in arrays:
        observer.update(array)
    return observer.finish()


def error(array: np.ndarray, low: float, high: float, symmetric: bool) -> float:
    """Mean squared error of int8 over a range."""
    scale, zero_point = affine(low, high, 8, symmetric=symmetric)
    return float(np.mean((rounded(array.astype(np.float64), scale, zero_point, 8) - array) ** 2))


# onnxruntime


def onnxruntime_range(
    method: str, arrays: Sequence[np.ndarray], symmetric: bool, bins: int, percentile: float = 99.99, steps: int = 128
) -> tuple[float, float]:
    calibrate = pytest.importorskip("onnxruntime.quantization.calibrate")
    collector = calibrate.HistogramCollector(method, symmetric, bins, steps, percentile, None)
    with redirect_stdout(io.StringIO()):
        for array in arrays:
            collector.collect({"value": array})
        low, high, *_ = collector.compute_collection_result()["value"]
    return float(low), float(high)


@pytest.mark.parametrize("name", NAMES)
def test_percentile_of_one_batch(name: str) -> None:
    """onnxruntime cuts half of 100 - p on each side, and knows values to a bin; the extremes of few values too."""
    array = values(name)
    low, high = ours("percentile{percentile=0.9999}", [array])
    theirs = onnxruntime_range("percentile", [array], False, 2048, percentile=99.98)
    width = 2 * float(np.abs(array).max()) / 2048
    np.testing.assert_allclose((low, high), theirs, atol=width * 1.01)


def test_percentile_of_unlike_batches() -> None:
    """onnxruntime's is that of all values together; PPQ's, and ours, the mean over the batches."""
    arrays = [values("normal"), values("normal") * 4]
    _, high = ours("percentile{percentile=0.999}", arrays)
    _, theirs = onnxruntime_range("percentile", arrays, False, 2048, percentile=99.8)
    ordered = np.sort(np.concatenate(arrays))
    assert theirs == pytest.approx(ordered[int(ordered.size * 0.999)], abs=0.05)
    assert high == pytest.approx(np.mean([np.sort(a)[int(a.size * 0.999)] for a in arrays]), rel=1e-6)
    assert high < 0.7 * theirs


def test_symmetric_percentile() -> None:
    """onnxruntime takes p of the magnitudes, one range for both sides; ours takes p on each side, and the scale the larger."""
    array = values("laplace")
    low, high = onnxruntime_range("percentile", [array], True, 2048, percentile=99.9)
    assert low == -high
    magnitudes = np.sort(np.abs(array))
    assert high == pytest.approx(magnitudes[int(array.size * 0.999)], abs=0.01)
    ours_low, ours_high = ours("percentile{percentile=0.999}", [array], symmetric=True)
    assert -ours_low != ours_high
    assert max(-ours_low, ours_high) < high  # so ours leaves out twice as many


@pytest.mark.parametrize("name", NAMES)
def test_entropy_with_the_defaults_of_onnxruntime_clips_nothing(name: str) -> None:
    """128 bins in 128 steps leave one candidate: all. `quantize_static` with Entropy is min-max where batches are alike."""
    array = values(name)
    theirs = onnxruntime_range("entropy", [array], False, 128)
    np.testing.assert_allclose(theirs, ours("minmax", [array]), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["normal", "laplace", "uniform", "outlier"])
def test_entropy_of_many_bins(name: str) -> None:
    """Of distributions with signs on both sides onnxruntime's 128 steps are for both sides, half of int8's: it clips more."""
    array = values(name)
    low, high = onnxruntime_range("entropy", [array], False, 2048)
    ours_low, ours_high = ours("kl", [array], symmetric=True)
    width = 2 * float(np.abs(array).max()) / 2048
    if name == "outlier":
        assert max(-ours_low, ours_high, -low, high) < 8  # both leave it out
    else:
        assert max(-ours_low, ours_high) >= max(-low, high) - 2 * width
    if name == "uniform":
        assert min(-low, high, -ours_low, ours_high) > 0.99  # none clips what is dense to its end


def test_minmax_and_moving_average(tmp_path: Path) -> None:
    """onnxruntime's moving average is a plain mean over the batches of one call; min-max is min-max."""
    onnx = pytest.importorskip("onnx")
    calibrate = pytest.importorskip("onnxruntime.quantization.calibrate")
    arrays = [values("normal")[i::7][:1000] * (i + 1) for i in range(4)]
    helper = onnx.helper
    info = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [None])
    out = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [info], [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    class Reader(calibrate.CalibrationDataReader):
        def __init__(self) -> None:
            self.rest = iter([{"x": a} for a in arrays])

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.rest, None)

    def theirs(**options: object) -> tuple[float, float]:
        path, augmented = str(tmp_path / "net.onnx"), str(tmp_path / "augmented.onnx")
        onnx.save(model, path)
        calibrator = calibrate.create_calibrator(path, augmented_model_path=augmented, extra_options=options)
        calibrator.collect_data(Reader())
        low, high = map(np.ravel, calibrator.compute_data()["x"].range_value)
        return float(low[0]), float(high[0])

    assert theirs() == ours("minmax", arrays)
    means = np.mean([a.min() for a in arrays]), np.mean([a.max() for a in arrays])
    np.testing.assert_allclose(theirs(moving_average=True), means, rtol=1e-6)
    np.testing.assert_allclose(ours("percentile{percentile=1}", arrays), means, rtol=1e-6)
    assert ours("moving-average", arrays)[1] < means[1]  # the first and smallest batch counts most


# PPQ


def ppq_scale(low: float, high: float, symmetric: bool) -> float:
    low, high = min(low, 0.0), max(high, 0.0)
    return 2 * max(-low, high) / 255 if symmetric else (high - low) / 255


@pytest.mark.parametrize("name", NAMES)
def test_scales_of_ppq(name: str) -> None:
    """From one range: the same asymmetric; symmetric PPQ divides the larger side by 127.5, AMCT by 127 or 128."""
    low, high = ours("minmax", [values(name)])
    assert affine(low, high, 8, symmetric=False)[0] == pytest.approx(ppq_scale(low, high, False), rel=1e-6)
    factor = ppq_scale(low, high, True) / affine(low, high, 8, symmetric=True)[0]
    assert factor == pytest.approx(128 / 127.5 if -low > high else 127 / 127.5, rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("part", [0.9999, 0.99])
def test_percentile_of_ppq(name: str, part: float) -> None:
    """The same: k-th values of each batch, averaged."""
    arrays = np.split(values(name), 4)
    lows, highs = [], []
    for array in arrays:
        ordered, n = np.sort(array).astype(np.float64), array.size
        highs.append(ordered[min(int(n * part) + 1, n) - 1])
        lows.append(ordered[min(int(n * (1 - part)) + 1, n) - 1])
    np.testing.assert_allclose(
        ours(f"percentile{{percentile={part}}}", arrays), (np.mean(lows), np.mean(highs)), rtol=1e-12
    )


def ppq_kl(array: np.ndarray, bins: int = 4096, levels: int = 128) -> tuple[int, np.ndarray]:
    """The number of bins that PPQ keeps, and its histogram of magnitudes as it was counted."""
    counted = np.histogram(np.abs(array), bins, (0, float(np.abs(array).max())))[0]
    counts = counted.astype(np.float64)
    ignored = int(bins * 0.002)
    counts[:ignored], counts[ignored] = 0, 1
    best = (np.inf, 0)
    for kept in range(levels, bins + 1, levels):
        p = counts[:kept].copy()
        p[-1] += counts[kept:].sum()
        q = np.zeros(kept)
        for group in np.split(np.arange(kept), levels):
            filled = group[counts[group] > 0]
            if filled.size:
                q[filled] = counts[group].sum() / filled.size
        p, q = p / p.sum(), q / q.sum()
        best = min(best, (float(np.sum(p * (np.log10(p + 1e-30) - np.log10(q + 1e-30)))), kept))
    return best[1], counted


@pytest.mark.parametrize("name", NAMES)
def test_kl_of_ppq_on_its_bins(name: str) -> None:
    """From one histogram the same threshold. PPQ sets the bin after the ignored ones to 1, here it is so only when empty."""
    kept, counted = ppq_kl(values(name))
    ignored = int(counted.size * 0.002)
    counted[ignored] = 1
    assert best_threshold(counted, 128) == kept


@pytest.mark.parametrize("name", ["normal", "relu", "uniform"])
def test_kl_of_ppq_on_values(name: str) -> None:
    """Where bins are filled to the end, thresholds are those of PPQ but for the places that candidates have: M/32 apart there."""
    array = values(name)
    kept, counted = ppq_kl(array)
    width = float(np.abs(array).max()) / counted.size
    low, high = ours("kl", [array], symmetric=True)
    assert max(-low, high) == pytest.approx(kept * width, abs=2 * 128 * width)


def test_kl_of_ppq_where_the_tail_is_thin() -> None:
    """The mass beyond goes to the last bin kept. Where that is empty the divergence jumps, and any other threshold wins: one
    value more or less in one bin moves it far. So thresholds of heavy tails depend on where bins begin, in any tool.
    """
    rng = np.random.default_rng(0)
    counts = np.histogram(np.abs(rng.standard_t(4, size=COUNT)), 4096)[0]
    kept = best_threshold(counts, 128)
    assert counts[kept - 1] > 0
    emptied = counts.copy()
    emptied[kept - 1] = 0
    assert best_threshold(emptied, 128) != kept


def ppq_mse(array: np.ndarray, symmetric: bool) -> tuple[float, float]:
    """The range that PPQ takes: steps of whole bins of 2048, with 256 levels also of magnitudes."""
    data = np.abs(array) if symmetric else array
    begin, end = (0.0 if symmetric else float(data.min())), float(data.max())
    counts, levels = np.histogram(data, 2048, (begin, end))[0].astype(np.float64), 256
    width = (end - begin) / 2048
    places = np.arange(2048)
    best = (np.inf, 0.0, 0.0)
    most = 2048 // levels + 1
    for start in [0] if symmetric else range(0, 2048, 8):
        if begin + start * width > 0:
            break
        for step in [most, *range(1, most)]:
            last = start + levels * step
            distance = np.minimum((places - start) % step, -(places - start) % step).astype(np.float64)
            distance[(places - start) % step * 2 == step] += 0.25
            distance = np.where(places < start, start - places - 1 + 0.5, distance)
            distance = np.where(places >= last, places - last + 0.5, distance)
            loss = float(np.sum(counts * distance**2))
            best = min(best, (loss, begin + start * width, begin + min(last, 2048) * width))
    return (-best[2], best[2]) if symmetric else (best[1], best[2])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("symmetric", [False, True])
def test_mse_is_no_worse_than_that_of_ppq(name: str, symmetric: bool) -> None:
    """Ours tries parts of 1 % with the levels that there are, PPQ thresholds that are eighths apart with twice the levels."""
    array = values(name)
    found = error(array, *ours("mse", np.split(array, 4), symmetric), symmetric)
    assert found <= error(array, *ppq_mse(array, symmetric), symmetric) * 1.001
    assert found <= error(array, float(array.min()), float(array.max()), symmetric) * 1.001


@pytest.mark.parametrize("symmetric", [False, True])
def test_isotone_of_ppq(symmetric: bool) -> None:
    """The scale lies in as many rows' intervals as any end of an interval does, which are what PPQ tries."""
    rows = np.random.default_rng(5).normal(size=(300, 12)).astype(np.float32) * 3
    low, high = ours("isotone", np.split(rows, 3), symmetric)
    most = 127 if symmetric else 255
    ordered = np.sort(np.abs(rows) if symmetric else rows, axis=1).astype(np.float64)
    second = np.maximum(ordered[:, -2], 0)
    begins, ends = np.maximum(second / (most - 0.51), 0), 2 * (ordered[:, -1] - second)
    covered = [int(np.sum((begins <= s) & (s <= ends))) for s in np.concatenate([begins, ends, [high / most]])]
    assert covered[-1] == max(covered)
    assert low == (-high if symmetric else 0)
