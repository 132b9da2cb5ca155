"""HFMG, IFMR's bound, MSE and values at the edges: by loops over every value, bin and candidate."""

from __future__ import annotations

import math
from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest

from amct_opt.observers import OBSERVERS, make_observer
from amct_opt.observers.histogram import Histogram
from amct_opt.observers.ifmr import IfmrObserver
from amct_opt.observers.mse import Below, squared_errors
from amct_opt.runtime.affine import affine, rounded

NAMES = [*OBSERVERS, "ifmr{exact=false}"]


def observed(text: str, arrays: Sequence[np.ndarray], symmetric: bool = False, bits: int = 8) -> tuple[float, float]:
    observer = make_observer(text, bits, symmetric=symmetric)
    for number in range(observer.passes):
        if number:
            observer.next_pass()
        for array in arrays:
            observer.update(array)
    return observer.finish()


# HFMG, as AMCT's documents have it


def counted(array: np.ndarray, low: float, high: float, bins: int) -> list[int]:
    counts = [0] * bins
    for value in array.astype(np.float64).reshape(-1).tolist():
        counts[min(int((value - low) * (bins / (high - low))), bins - 1)] += 1
    return counts


def regrouped(counts: list[int], low: float, high: float, new_low: float, new_high: float) -> list[int]:
    """Bin by bin: into the new one that holds it, or into two in proportion, the lower part rounded down."""
    bins = len(counts)
    width, new_width = (high - low) / bins, (new_high - new_low) / bins
    result = [0] * bins
    for i, count in enumerate(counts):
        begin = (low + i * width - new_low) / new_width
        end = begin + width / new_width
        lower = min(max(math.floor(begin), 0), bins - 1)
        upper = min(max(math.ceil(end) - 1, lower), bins - 1)
        part = count if upper == lower else math.floor(count * (lower + 1 - begin) / (end - begin))
        result[lower] += part
        result[upper] += count - part
    return result


def candidates(counts: list[int]) -> list[tuple[int, int]]:
    """Each time the side goes whose next samples span more bins, the right one on a tie."""
    bins = len(counts)
    step, most = max(1, math.ceil(sum(counts) / 100000)), math.ceil(bins / 4)
    left, right, found = 0, bins - 1, list[tuple[int, int]]()
    while right - left > most:
        new_left, held = left, 0
        while held < step:
            held += counts[new_left]
            new_left += 1
        new_right, held = right, 0
        while held < step:
            held += counts[new_right]
            new_right -= 1
        if new_left - left > right - new_right:
            left = new_left
        else:
            right = new_right
        if left < right:
            found.append((left, right))
    return found


def loss(counts: list[int], left: int, right: int, levels: int) -> float:
    """Pieces of bins within one step: the integral of density times the squared distance to the step's middle."""
    step = (right + 1 - left) / levels
    edges = np.union1d(np.arange(len(counts) + 1.0), left + step * np.arange(levels + 1))
    begins, ends = edges[:-1], edges[1:]
    middles = (begins + ends) / 2
    centres = left + (np.clip(np.floor((middles - left) / step), 0, levels - 1) + 0.5) * step
    density = np.array(counts, np.float64)[np.minimum(middles.astype(int), len(counts) - 1)]
    return float(np.sum(density * ((ends - centres) ** 3 - (begins - centres) ** 3) / 3))


@pytest.mark.parametrize(("bits", "spread"), [(8, (1.0, 0.5)), (8, (1.0, 3.0)), (4, (1.0, 2.0))])
def test_hfmg(bits: int, spread: tuple[float, float], rng: np.random.Generator) -> None:
    first, second = (rng.standard_t(5, size=3000).astype(np.float32) * np.float32(s) for s in spread)
    low, high, bins = float(first.min()), float(first.max()), 1024
    counts = counted(first, low, high, bins)
    new_low, new_high = min(low, float(second.min())), max(high, float(second.max()))
    if (new_low, new_high) != (low, high):
        counts = regrouped(counts, low, high, new_low, new_high)
    counts = [a + b for a, b in zip(counts, counted(second, new_low, new_high, bins), strict=True)]
    losses = {each: loss(counts, *each, 2**bits) for each in candidates(counts)}
    left, right = min(losses, key=lambda each: losses[each])
    width = (new_high - new_low) / bins
    found = observed("hfmg{num-of-bins=1024}", [first, second], bits=bits)
    expected = affine(new_low + left * width, new_low + (right + 1) * width, bits, symmetric=False)
    assert affine(*found, bits, symmetric=False) == (pytest.approx(expected[0], rel=3e-7), expected[1])
    assert bits == 8 or (left, right) != (0, bins - 1)


# IFMR from a histogram


def rms(values: np.ndarray, low: float, high: float, symmetric: bool) -> float:
    """Root mean squared error as AMCT simulates it."""
    scale = affine(low, high, 8, symmetric=symmetric)[0]
    if symmetric:
        low, high = -max(-low, high), max(-low, high)
    values = values.astype(np.float64)
    return float(np.sqrt(np.mean((np.rint(np.clip(values, low, high) / scale) * scale - values) ** 2)))


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("percentile", [0.999999, 0.995])
@pytest.mark.parametrize("draw", ["normal", "heavy", "shifted", "one side", "two peaks", "few"])
def test_ifmr_from_a_histogram_is_within_its_bound(
    symmetric: bool, percentile: float, draw: str, rng: np.random.Generator
) -> None:
    """At most four bins worse than in three passes, root mean squared; a bin is at most 1/4096 of the range seen."""
    draws = {
        "normal": lambda: rng.normal(size=20000),
        "heavy": lambda: rng.standard_t(2, size=20000),
        "shifted": lambda: rng.normal(size=20000) - 7,
        "one side": lambda: rng.exponential(size=20000),
        "two peaks": lambda: np.concatenate([rng.normal(size=10000), rng.normal(size=10000) * 0.01 + 9]),
        "few": lambda: rng.choice([-1.0, 0.3, 0.31, 2.7], size=20000),
    }
    values = draws[draw]().astype(np.float32)
    options = f"exact=false max-percentile={percentile} min-percentile={percentile}"
    observer = make_observer(f"ifmr{{{options}}}", 8, symmetric=symmetric)
    observer.update(values)
    assert isinstance(observer, IfmrObserver)
    width = observer.histogram.width
    assert width <= (values.max() - values.min()) / 4096
    exact = observed(f"ifmr{{{options.replace('false', 'true')}}}", [values], symmetric)
    assert rms(values, *observer.finish(), symmetric) <= rms(values, *exact, symmetric) + 4 * width


# MSE


@pytest.mark.parametrize("bits", [4, 8])
def test_symmetric_mse(bits: int, rng: np.random.Generator) -> None:
    """The best of all hundredths of the range, tried on the values themselves; bins are finer than a step."""
    values = (rng.standard_t(4, size=20000) + 0.7).astype(np.float32)
    low, high = float(values.min()), float(values.max())

    def error(part: float) -> float:
        scale, _ = affine(low * part, high * part, bits, symmetric=True)
        return float(np.mean((rounded(values.astype(np.float64), scale, 0, bits) - values) ** 2))

    errors = {p / 100: error(p / 100) for p in range(1, 101)}
    found = observed("mse", [values], symmetric=True, bits=bits)[1] / high
    assert found in [pytest.approx(p) for p in errors]
    assert error(found) <= min(errors.values()) * (1.001 if bits == 4 else 1.01)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("bits", [4, 8, 16])
def test_squared_errors_of_many_ranges(bits: int, symmetric: bool, rng: np.random.Generator) -> None:
    """Running sums give what rounding every value gives, also where ranges clip, and one side of 0 has nothing."""
    values = np.sort(rng.standard_t(3, size=3000))
    weights = rng.integers(0, 50, values.size).astype(np.float64)
    ranges = np.array([[-3.0, 4.0], [-0.01, 0.02], [-100.0, 90.0], [0.0, 2.5], [-2.5, 0.0], [-1e-9, 1e-9]])

    def error(low: float, high: float) -> float:
        scale, point = affine(low, high, bits, symmetric=symmetric)
        return float(np.sum(weights * (rounded(values, scale, point, bits) - values) ** 2))

    found = squared_errors(values, weights, ranges, bits=bits, symmetric=symmetric)
    np.testing.assert_allclose(found, [error(low, high) for low, high in ranges], rtol=1e-9)


@pytest.mark.parametrize("shift", [0.0, 900.0])
@pytest.mark.parametrize("bins", [64, 8192])
def test_ranks_in_a_histogram_are_those_of_a_search(bins: int, shift: float, rng: np.random.Generator) -> None:
    """Also of edges on the borders and the centres of bins, a bit next to them, and outside of all values."""
    data = (rng.standard_t(3, size=3000) + shift).astype(np.float32)
    histogram = Histogram(bins)
    histogram.add(data, float(data.min()), float(data.max()))
    filled = histogram.counts > 0
    values = np.clip(histogram.centres[filled], histogram.low, histogram.high)
    borders = histogram.centres + histogram.width / 2
    edges = np.concatenate([values, borders, data.astype(np.float64), [-1e30, -1.0, 0.0, 1e30]])
    for asked in (edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)):
        np.testing.assert_array_equal(Below(histogram, filled, values)(asked), np.searchsorted(values, asked))


# Values at the edges


@pytest.mark.parametrize("text", NAMES)
def test_empty_arrays_are_no_batches(text: str, rng: np.random.Generator) -> None:
    arrays = [rng.normal(size=(3, 7)).astype(np.float32) for _ in range(3)]
    empty = np.zeros((0, 7), np.float32)
    assert observed(text, [empty, arrays[0], empty, *arrays[1:], empty]) == observed(text, arrays)
    with pytest.raises(ValueError, match="no values"):
        observed(text, [empty, empty])


@pytest.mark.parametrize("text", NAMES)
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_every_float_type(text: str, symmetric: bool, dtype: type, rng: np.random.Generator) -> None:
    """As the same numbers in float64, up to the largest; nothing overflows on the way."""
    largest = float(ml_dtypes.finfo(dtype).max) if dtype is not np.float64 else float(np.finfo(np.float32).max)
    for values in (rng.normal(size=(30, 40)), [[largest, -largest, 0.0, 1.0]], rng.normal(size=(2, 3)) * 1e-42):
        array = np.asarray(values).astype(dtype)
        low, high = observed(text, [array], symmetric)
        assert (low, high) == observed(text, [array.astype(np.float64)], symmetric)
        assert math.isfinite(low)
        assert math.isfinite(high)
        assert math.isfinite(affine(low, high, 8, symmetric=symmetric)[0])


@pytest.mark.parametrize("text", NAMES)
@pytest.mark.parametrize("symmetric", [False, True])
def test_zeros_have_scale_one(text: str, symmetric: bool) -> None:
    low, high = observed(text, [np.zeros((2, 5), np.float32), np.full((2, 5), -0.0, np.float32)], symmetric)
    assert (low, high) == (0, 0)
    assert affine(low, high, 8, symmetric=symmetric)[0] == 1


@pytest.mark.parametrize("text", NAMES)
def test_more_than_float32_holds(text: str) -> None:
    """Scales are float32."""
    with pytest.raises(ValueError, match="exceed float32"):
        make_observer(text, 8, symmetric=False).update(np.array([0.0, 1e39]))


@pytest.mark.parametrize("text", NAMES)
@pytest.mark.parametrize("symmetric", [False, True])
def test_one_outlier_among_zeros(text: str, symmetric: bool) -> None:
    """A range that holds 0 and ends within what was seen, or a step of the search beyond it."""
    array = np.zeros((100, 100), np.float32)
    array[3, 5] = 1000
    low, high = observed(text, [array], symmetric)
    assert -1300 <= low <= 0 <= high <= 1300


def test_an_axis_that_values_do_not_have() -> None:
    with pytest.raises(ValueError, match="values of rank 2 have no axis 2"):
        observed("isotone{axis=2}", [np.zeros((3, 4), np.float32)])


def test_scalars() -> None:
    for text in NAMES:
        low, high = observed(text, [np.array(2.5, np.float32), np.array(-1.0, np.float32)])
        assert -1.3 <= low <= high <= 3.25
