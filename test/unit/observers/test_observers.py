"""Observers against the formulas written out by brute force, the reference's vectors, and each other when merged."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

from amct_opt.observers import OBSERVERS, make_observer
from amct_opt.observers.entropy import best_threshold
from amct_opt.observers.hfmg import HfmgObserver, rebinned, step_losses, trimmed
from amct_opt.observers.histogram import Histogram
from amct_opt.observers.ifmr import IfmrObserver, steps_in_float32
from amct_opt.runtime.affine import affine, rounded
from amct_opt.support.diagnostics import CompileError

from ..values import normal


def observed(text: str, *arrays: np.ndarray, bits: int = 8, symmetric: bool = False) -> tuple[float, float]:
    observer = make_observer(text, bits, symmetric=symmetric)
    for number in range(observer.passes):
        if number:
            observer.next_pass()
        for array in arrays:
            observer.update(array)
    return observer.finish()


def batches(rng: np.random.Generator) -> list[np.ndarray]:
    return [(rng.normal(size=(4, 50, 50)) * s + m).astype(np.float32) for s, m in ((1, 0), (3, 0.5), (0.2, -1))]


# What holds for all


@pytest.mark.parametrize("name", OBSERVERS)
def test_nothing_seen(name: str) -> None:
    observer = make_observer(name, 8, symmetric=False)
    with pytest.raises(ValueError, match="no values"):
        observer.finish()


@pytest.mark.parametrize("name", OBSERVERS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite(name: str, value: float) -> None:
    with pytest.raises(ValueError, match="NaN or Inf"):
        make_observer(name, 8, symmetric=False).update(np.array([0, value], np.float32))


@pytest.mark.parametrize("name", [*OBSERVERS, "ifmr{exact=false}"])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("fill", [0.0, 1.0, -3e30, 1e-40, 5.5])
def test_equal_values(name: str, symmetric: bool, fill: float) -> None:
    """A range that holds the value, or of a scale that is near enough."""
    low, high = observed(name, np.full((3, 5), fill, np.float32), symmetric=symmetric)
    scale, zero_point = affine(low, high, 8, symmetric=symmetric)
    assert abs(float(rounded(np.array(fill), scale, zero_point, 8)) - fill) <= max(abs(fill) / 2, 2.0**-126)


@pytest.mark.parametrize("name", [*OBSERVERS, "ifmr{exact=false}"])
@pytest.mark.parametrize("symmetric", [False, True])
def test_the_size_of_values_does_not_matter(name: str, symmetric: bool) -> None:
    """A power of two scales every number of the algorithms exactly."""
    rng = np.random.default_rng(11)
    arrays = [(rng.normal(size=(4, 50, 50)) * scale + 0.3).astype(np.float32) for scale in (1, 3, 0.2)]
    low, high = observed(name, *arrays, symmetric=symmetric)
    small = observed(name, *(np.ldexp(array, -90) for array in arrays), symmetric=symmetric)
    assert np.ldexp(small, 90).tolist() == [low, high]


@pytest.mark.parametrize("name", [*OBSERVERS, "ifmr{exact=false}"])
@pytest.mark.parametrize("symmetric", [False, True])
def test_merged_states(name: str, symmetric: bool, rng: np.random.Generator) -> None:
    """Two states from parts of the data are one state from all of it."""
    arrays = batches(rng)
    whole, first, second = (make_observer(name, 8, symmetric=symmetric) for _ in range(3))
    for number in range(whole.passes):
        if number:
            first.merge(second)
            second = deepcopy(first)
            for each in (whole, first, second):
                each.next_pass()
            # what the pass before has found is shared; each takes part of the data from here
        for array in arrays:
            whole.update(array)
        first.update(arrays[0])
        second.update(arrays[1])
        second.update(arrays[2])
    first.merge(second)
    # a merged hfmg has split other bins than one that saw every batch
    tolerance = 0.02 if name == "hfmg" else 1e-12
    np.testing.assert_allclose(first.finish(), whole.finish(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", [n for n in OBSERVERS if n not in ("isotone", "percentile", "moving-average")])
def test_state_is_bounded(name: str, rng: np.random.Generator) -> None:
    """What is kept does not grow with the data."""
    observer = make_observer(name, 8, symmetric=False)
    sizes = []
    for _ in range(4):
        for _ in range(10):
            observer.update(rng.normal(size=5000).astype(np.float32))
        sizes.append(sum(v.nbytes for v in vars(observer).values() if isinstance(v, np.ndarray)))
    assert max(sizes) <= 8 * 8192 * 2


def test_unknown_observer() -> None:
    with pytest.raises(CompileError, match="no observer is called 'median'"):
        make_observer("median", 8, symmetric=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ifmr{search-step=2}", "search-step must lie in"),
        ("ifmr{search-range-start=2}", "in order"),
        ("ifmr{max-percentile=0.4}", "max-percentile must lie in"),
        ("percentile{percentile=2}", "percentile must lie in"),
        ("hfmg{num-of-bins=1000}", "not one of 1024, 2048, 4096, 8192"),
        ("moving-average{momentum=1}", "momentum must lie in"),
        ("moving-average{momentum=nan}", "momentum must lie in"),
        ("percentile{percentile=nan}", "percentile must lie in"),
        ("kl{num-of-bins=0}", "num-of-bins must lie in"),
        ("mse{num-of-bins=10000000}", "num-of-bins must lie in"),
        ("ifmr{search-step=nan}", "search-step must lie in"),
        ("ifmr{search-range-end=inf}", "in order"),
        ("ifmr{search-range-start=nan}", "in order"),
        ("ifmr{max-percentile=nan}", "max-percentile must lie in"),
        ("ifmr{bits=4}", "no option 'bits'"),
        ("ifmr{exact=true", "do not end"),
    ],
)
def test_bad_options(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        make_observer(text, 8, symmetric=False)


# One by one


def test_minmax() -> None:
    assert observed("minmax", np.array([1.0, -2.0]), np.array([0.5, 3.0])) == (-2.0, 3.0)


def test_moving_average() -> None:
    arrays = [np.array([-1.0, 1.0]), np.array([-2.0, 3.0]), np.array([0.0, 5.0])]
    low, high = observed("moving-average{momentum=0.5}", *arrays)
    assert (low, high) == (((-1 + -2) / 2 + 0) / 2, ((1 + 3) / 2 + 5) / 2)


def test_percentile(rng: np.random.Generator) -> None:
    """The mean over batches of the order statistics that PPQ takes."""
    arrays = [rng.normal(size=20000).astype(np.float32) for _ in range(3)]
    low, high = observed("percentile{percentile=0.999}", *arrays)
    ordered = [np.sort(a).astype(np.float64) for a in arrays]
    assert high == pytest.approx(np.mean([o[int(20000 * 0.999)] for o in ordered]), rel=1e-12)
    assert low == pytest.approx(np.mean([o[int(20000 * (1 - 0.999))] for o in ordered]), rel=1e-12)


def test_percentile_of_few_values_is_the_mean_of_extremes() -> None:
    assert observed("percentile", np.array([1.0, 2.0]), np.array([-4.0, 8.0])) == (-1.5, 5.0)


def test_histogram_counts(rng: np.random.Generator) -> None:
    """Whatever the order of ranges, counts are those of numpy over the same bins."""
    arrays = [a.reshape(-1) for a in batches(rng)]
    forward, backward = Histogram(256), Histogram(256)
    for array in arrays:
        forward.add(array, float(array.min()), float(array.max()))
    for array in reversed(arrays):
        backward.add(array, float(array.min()), float(array.max()))
    assert (forward.exponent, forward.first) == (backward.exponent, backward.first)
    np.testing.assert_array_equal(forward.counts, backward.counts)
    edges = np.arange(forward.first, forward.first + forward.counts.size + 1) * forward.width
    np.testing.assert_array_equal(forward.counts, np.histogram(np.concatenate(arrays), edges)[0])
    assert 128 < forward.counts.size <= 256


def test_histogram_order_statistics(rng: np.random.Generator) -> None:
    values = rng.normal(size=10001).astype(np.float32)
    histogram = Histogram()
    histogram.add(values, float(values.min()), float(values.max()))
    ordered = np.sort(values)
    assert histogram.kth(1, largest=True) == ordered[-1]
    assert histogram.kth(1, largest=False) == ordered[0]
    for k in (2, 100, 5000):
        assert abs(histogram.kth(k, largest=True) - ordered[-k]) <= histogram.width
        assert abs(histogram.kth(k, largest=False) - ordered[k - 1]) <= histogram.width


def test_histogram_magnitudes() -> None:
    histogram = Histogram(64)
    histogram.add(np.array([-0.75, 0.25, 2.5], np.float32), -0.75, 2.5)
    counts, width = histogram.magnitudes(), histogram.width
    assert [float(i * width) for i in np.flatnonzero(counts)] == [0.25, 0.75 - width, 2.5]


@pytest.fixture
def reference_values() -> np.ndarray:
    return np.append(np.linspace(0, 4, 10000), 9.0).astype(np.float32)


@pytest.mark.parametrize(
    ("text", "symmetric", "scale", "zero_point"),
    [
        ("ifmr", False, 0.0349412, -128),
        ("ifmr", True, 0.0673228, 0),
        ("ifmr{max-percentile=0.999 min-percentile=0.999}", False, 0.0203738, -128),
    ],
)
def test_ifmr_vectors(text: str, symmetric: bool, scale: float, zero_point: int, reference_values: np.ndarray) -> None:
    """AMCT's own numbers for 10000 points from 0 to 4 and one of 9."""
    low, high = observed(text, reference_values, symmetric=symmetric)
    found = affine(low, high, 8, symmetric=symmetric)
    assert found == (pytest.approx(scale, rel=3e-6), zero_point)


@pytest.mark.parametrize(("start", "end", "step", "count"), [(0.7, 1.3, 0.01, 61), (0.8, 1.2, 0.02, 20)])
def test_the_grid_of_ifmr(start: float, end: float, step: float, count: int) -> None:
    """`torch.arange(start, end, step)` in float32."""
    assert steps_in_float32(start, end, step).size == count
    observer = make_observer(
        f"ifmr{{search-range-start={start} search-range-end={end} search-step={step}}}", 8, symmetric=False
    )
    assert isinstance(observer, IfmrObserver)
    observer.update(np.ones(4, np.float32))
    observer.next_pass()
    observer.update(np.ones(4, np.float32))
    observer.next_pass()
    assert len(observer.candidates) == count


def test_the_bits_of_the_grid() -> None:
    """As torch gives them: the third is rounded once more than the nearest float32 to 0.72."""
    found = steps_in_float32(0.7, 1.3, 0.01)
    assert found[[2, 3, 9, 60]].tolist() == [
        0.7199999690055847,
        0.7299999594688416,
        0.7899999618530273,
        1.2999999523162842,
    ]


@pytest.mark.parametrize(("symmetric", "scale", "zero_point"), [(False, 0.04284237, -58), (True, 0.062400036, 0)])
def test_hfmg_vectors(symmetric: bool, scale: float, zero_point: int) -> None:
    """AMCT's own numbers for two batches, of which the second widens the range; to the bit."""
    first, second = (np.linspace(-1, 2, 1000) ** 3).astype(np.float32), np.linspace(-3, 1, 500).astype(np.float32)
    observer = make_observer("hfmg{num-of-bins=1024}", 8, symmetric=symmetric)
    assert isinstance(observer, HfmgObserver)
    observer.update(first)
    observer.update(second)
    assert affine(*observer.finish(), 8, symmetric=symmetric) == (np.float32(scale), zero_point)
    assert observer.counts[:6].tolist() == [2, 1, 2, 1, 1, 2]
    assert observer.counts[300:306].tolist() == [4, 4, 5, 5, 3, 4]


def brute_force_ifmr(values: np.ndarray, bits: int, symmetric: bool, percentile: float) -> float:
    """The scale, after the formulas, one candidate after the other."""
    values = np.sort(values.astype(np.float64).reshape(-1))
    k = max(1, values.size - int(np.floor(percentile * values.size)))
    top, bottom = max(0.0, values[-k]), min(0.0, values[k - 1])
    best = (np.inf, 0.0)
    for i in range(61):
        r = 0.7 + i * 0.01
        if symmetric:
            clip = r * max(top, -bottom)
            low, high, scale = -clip, clip, clip / (128 if top < -bottom else 127)
        else:
            low, high, scale = bottom, r * top, (r * top - bottom) / 255
        scale = float(np.float32(scale))
        error = np.sum((np.rint(np.clip(values, low, high) / scale) * scale - values) ** 2)
        best = min(best, (float(error), scale), key=lambda pair: pair[0])
    return best[1]


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("percentile", [0.999999, 0.999])
@pytest.mark.parametrize("shift", [-2.0, 0.0, 1.0])
def test_ifmr(symmetric: bool, percentile: float, shift: float, rng: np.random.Generator) -> None:
    """In three passes the same as by brute force; from the histogram within two steps of the search."""
    values = (rng.standard_t(4, size=40000) + shift).astype(np.float32)
    expected = brute_force_ifmr(values, 8, symmetric, percentile)
    options = f"max-percentile={percentile} min-percentile={percentile}"
    parts = np.split(values, 4)
    exact = affine(*observed(f"ifmr{{{options}}}", *parts, symmetric=symmetric), 8, symmetric=symmetric)
    assert exact[0] == pytest.approx(expected, rel=1e-6)
    rough = affine(*observed(f"ifmr{{exact=false {options}}}", *parts, symmetric=symmetric), 8, symmetric=symmetric)
    assert rough[0] == pytest.approx(expected, rel=0.03)


def brute_force_kl(counts: np.ndarray, levels: int) -> int:
    """PPQ's loop over thresholds, bin by bin."""
    counts = counts.astype(np.float64).copy()
    ignored = int(counts.size * 0.002)
    counts[:ignored] = 0
    counts[ignored] = max(counts[ignored], 1)
    best = (np.inf, 0)
    for kept in range(levels, counts.size + 1, levels):
        p = counts[:kept].copy()
        p[-1] += counts[kept:].sum()
        q = np.zeros(kept)
        size = kept // levels
        for g in range(levels):
            group = counts[g * size : (g + 1) * size]
            filled = group > 0
            if filled.any():
                q[g * size : (g + 1) * size][filled] = group.sum() / filled.sum()
        p, q = p / counts.sum(), q / max(q.sum(), 1e-30)
        best = min(best, (float(np.sum(p * (np.log10(p + 1e-30) - np.log10(q + 1e-30)))), kept))
    return best[1]


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_kl_threshold(scale: float, rng: np.random.Generator) -> None:
    counts = np.histogram(np.abs(rng.standard_t(3, size=30000)) * scale, 4096)[0]
    assert best_threshold(counts, 128) == brute_force_kl(counts, 128)


def test_kl_clips_a_tail(rng: np.random.Generator) -> None:
    values = np.append(rng.normal(size=100000), [40.0]).astype(np.float32)
    low, high = observed("kl", values, symmetric=True)
    assert 2.5 < high < 8
    assert low >= -high


def test_kl_of_values_on_one_side(rng: np.random.Generator) -> None:
    low, high = observed("kl", np.abs(rng.normal(size=50000)).astype(np.float32))
    assert low == 0
    assert 2 < high < 6


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_mse_is_no_worse_than_a_fine_search(symmetric: bool, bits: int, rng: np.random.Generator) -> None:
    """On the values themselves, against a grid of ranges; the observer knows them to within a bin only."""
    values = (rng.standard_t(4, size=20000) + 0.7).astype(np.float32)

    def error(low: float, high: float) -> float:
        scale, zero_point = affine(low, high, bits, symmetric=symmetric)
        return float(np.mean((rounded(values.astype(np.float64), scale, zero_point, bits) - values) ** 2))

    found = error(*observed("mse", values, bits=bits, symmetric=symmetric))
    parts = np.linspace(0.02, 1, 60)
    low, high = float(values.min()), float(values.max())
    grid = [error(low * a, high * b) for a in parts for b in ([a] if symmetric else parts)]
    assert found <= min(grid) * 1.02
    assert found < error(low, high)


SHAPES = (np.random.default_rng(18).laplace(size=20000), np.maximum(normal(20000) - 1, 0), normal(20000, seed=1) + 3)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("values", SHAPES)
def test_octav_is_near_the_least_error(values: np.ndarray, symmetric: bool, bits: int) -> None:
    """Its model of rounding is an approximation: within 5 % of what `mse` finds by measuring."""
    values = values.astype(np.float32)

    def error(low: float, high: float) -> float:
        scale, zero_point = affine(low, high, bits, symmetric=symmetric)
        return float(np.mean((rounded(values.astype(np.float64), scale, zero_point, bits) - values) ** 2))

    found, measured = (error(*observed(name, values, bits=bits, symmetric=symmetric)) for name in ("octav", "mse"))
    assert found <= measured * 1.05


@pytest.mark.parametrize("name", ["mse", "octav"])
def test_outliers_on_both_sides_do_not_hold_the_search(name: str, rng: np.random.Generator) -> None:
    """Moving one side alone gains little here: most values lie in one step of either range."""
    values = np.concatenate([rng.normal(size=20000), [-80.0, 120.0]]).astype(np.float32)
    low, high = observed(name, values, bits=4)
    assert -40 < low < -1 < 1 < high < 40


def test_octav_is_the_fixed_point_of_its_formula() -> None:
    values = SHAPES[0].astype(np.float32)
    high = observed("octav", values, bits=4, symmetric=True)[1]
    magnitudes = np.abs(values.astype(np.float64))
    beyond = magnitudes > high
    moved = magnitudes[beyond].sum() / (4.0**-4 / 3 * np.count_nonzero(~beyond) + np.count_nonzero(beyond))
    assert high == pytest.approx(moved, rel=2e-3)


def test_isotone_keeps_the_winner(rng: np.random.Generator) -> None:
    """Rows whose winner is ahead by a step or more keep it, and the scale clips none of the losers."""
    logits = rng.normal(size=(500, 10)).astype(np.float32) * 4
    low, high = observed("isotone", logits)
    scale, zero_point = affine(low, high, 8, symmetric=False)
    integers = np.clip(np.rint(logits / scale) + zero_point, -128, 127)
    full = affine(float(logits.min()), float(logits.max()), 8, symmetric=False)
    assert np.mean(integers.argmax(1) == logits.argmax(1)) >= 0.98
    assert scale <= full[0]


def test_isotone_by_hand() -> None:
    """Two rows: scales of the first lie in [1/254.49, 4], of the second in [3/254.49, 2]; 4/255 clips nothing and is in both."""
    assert observed("isotone", np.array([[3.0, 1.0, 0.0], [4.0, 3.0, -1.0]], np.float32)) == (0, 4)


def test_isotone_where_most_rows_want_a_finer_scale() -> None:
    """One row in [0, 200], two in [0, 0.02]: of what is in all three, 100/255 is not, so the middle wins."""
    low, high = observed("isotone", np.array([[100.0, 0.0], [0.01, 0.0], [0.01, 0.0]], np.float32))
    assert low == 0
    assert high / 255 == pytest.approx(0.01)


def test_hfmg_rebinning() -> None:
    """A bin inside a new one moves whole, one that straddles two is split in proportion, the lower part rounded down."""
    counts = np.array([4, 6, 0, 5])
    np.testing.assert_array_equal(rebinned(counts, 0.0, 4.0, 0.0, 8.0), [10, 5, 0, 0])
    # bins of 1 over [1, 5] into bins of 1.5 from 0: [1, 2] splits half and half at 1.5
    np.testing.assert_array_equal(rebinned(np.array([5, 0, 0, 0]), 1.0, 5.0, 0.0, 6.0), [2, 3, 0, 0])
    assert rebinned(np.array([7, 0, 0, 0]), 2.0, 2.0, 0.0, 4.0).tolist() == [0, 0, 7, 0]


def test_hfmg_ranges() -> None:
    """The thin side goes first; on a tie the right one."""
    assert trimmed(np.array([0, 0, 0, 1, 50, 50, 1, 1]))[0] == (4, 7)
    assert trimmed(np.full(8, 10))[0] == (0, 6)


def test_hfmg_loss(rng: np.random.Generator) -> None:
    """Against a numeric integral over the bins."""
    counts = rng.integers(0, 9, 32)
    for left, right, levels in ((0, 31, 16), (3, 28, 16), (8, 15, 64)):
        points = (np.arange(32 * 2000) + 0.5) / 2000
        step = (right + 1 - left) / levels
        place = np.clip(np.floor((points - left) / step), 0, levels - 1)
        squares = np.square(points - (left + (place + 0.5) * step)) / 2000
        expected = np.sum(squares * np.repeat(counts, 2000))
        assert step_losses(counts, [(0, 5), (left, right)], levels)[1] == pytest.approx(expected, rel=1e-4)


def test_hfmg_clips_a_tail(rng: np.random.Generator) -> None:
    values = rng.standard_t(3, size=200000).astype(np.float32)
    low, high = observed("hfmg", *np.split(values, 4))
    assert high - low < 0.9 * (values.max() - values.min())
    assert low < -4 < 4 < high
