"""States of observers: stored and taken up again, merged from parts, in any order, and bounded."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pytest

from amct_opt.observers import OBSERVERS, Observer, isotone, make_observer
from amct_opt.observers.extremes import largest
from amct_opt.observers.sums import added, mean

NAMES = [*OBSERVERS, "ifmr{exact=false}"]
EQUAL = [n for n in NAMES if make_observer(n, 8, symmetric=False).merging == "equal"]


def batches(rng: np.random.Generator, count: int = 6) -> list[np.ndarray]:
    """Of different ranges, so that histograms widen; heavy tails, so that something is clipped."""
    spread = (1, 7, 0.1, 30, 2, 0.01)
    return [(rng.standard_t(3, size=(40, 30)) * spread[i % 6] + i / 4).astype(np.float32) for i in range(count)]


def through_file(observer: Observer, text: str) -> Observer:
    """What another process makes of a state."""
    copy = make_observer(text, observer.bits, symmetric=observer.symmetric)
    copy.restore({name: array.copy() for name, array in observer.state().items()})
    return copy


def in_parts(text: str, parts: Sequence[Sequence[np.ndarray]], symmetric: bool) -> tuple[float, float]:
    """One process for each part and pass; each begins from the merged states of the pass before."""
    merged = make_observer(text, 8, symmetric=symmetric)
    for number in range(merged.passes):
        workers = [through_file(merged, text) for _ in parts]
        for worker, part in zip(workers, parts, strict=True):
            if number:
                worker.next_pass()
            for array in part:
                worker.update(array)
        merged, *others = (through_file(worker, text) for worker in workers)
        for other in others:
            merged.merge(other)
    return merged.finish()


@pytest.mark.parametrize("text", EQUAL)
@pytest.mark.parametrize("symmetric", [False, True])
def test_parts_are_the_whole(text: str, symmetric: bool, rng: np.random.Generator) -> None:
    """To the last bit, whoever saw what in whatever order; a part may be empty."""
    arrays = batches(rng)
    whole = in_parts(text, [arrays], symmetric)
    assert in_parts(text, [arrays[:2], arrays[2:3], arrays[3:]], symmetric) == whole
    assert in_parts(text, [arrays[4:], [], arrays[:4]], symmetric) == whole
    for order in list(permutations(arrays))[::179]:
        assert in_parts(text, [order], symmetric) == whole


@pytest.mark.parametrize("text", [n for n in NAMES if n not in EQUAL])
@pytest.mark.parametrize("symmetric", [False, True])
def test_parts_are_nearly_the_whole(text: str, symmetric: bool, rng: np.random.Generator) -> None:
    """Of these the order counts. A moving average differs by rounding; hfmg by how it splits bins."""
    arrays = batches(rng)
    low, high = in_parts(text, [arrays], symmetric)
    found = in_parts(text, [arrays[:2], arrays[2:3], arrays[3:]], symmetric)
    tolerance = {"rounding": 1e-14, "resolution": 4 / 4096}[make_observer(text, 8, symmetric=symmetric).merging]
    np.testing.assert_allclose(found, (low, high), rtol=0, atol=(high - low) * tolerance)


@pytest.mark.parametrize("text", NAMES)
@pytest.mark.parametrize("symmetric", [False, True])
def test_taken_up_again(text: str, symmetric: bool, rng: np.random.Generator) -> None:
    """A run that was stored in the middle of each pass is the run without that, to the last bit."""
    arrays = batches(rng)
    straight = make_observer(text, 8, symmetric=symmetric)
    resumed = make_observer(text, 8, symmetric=symmetric)
    for number in range(straight.passes):
        if number:
            straight.next_pass()
            resumed = through_file(resumed, text)
            resumed.next_pass()
        for array in arrays:
            straight.update(array)
            resumed = through_file(resumed, text)
            resumed.update(array)
    assert resumed.finish() == straight.finish()


@pytest.mark.parametrize("text", NAMES)
def test_a_state_is_arrays_of_plain_types(text: str, rng: np.random.Generator) -> None:
    observer = make_observer(text, 8, symmetric=False)
    for array in batches(rng):
        observer.update(array)
    assert {array.dtype.name for array in observer.state().values()} <= {"float64", "int64", "uint8"}


@pytest.mark.parametrize("text", NAMES)
def test_states_of_another_kind(text: str) -> None:
    for other in NAMES:
        state = make_observer(other, 8, symmetric=False).state()
        if state.keys() != make_observer(text, 8, symmetric=False).state().keys():
            with pytest.raises(ValueError, match=", not "):
                make_observer(text, 8, symmetric=False).restore(state)


@pytest.mark.parametrize("text", NAMES)
def test_damaged_states(text: str, rng: np.random.Generator) -> None:
    """An array of another type or shape, or numbers that no data leads to."""
    observer = make_observer(text, 8, symmetric=False)
    for number in range(observer.passes):
        if number:
            observer.next_pass()
        for array in batches(rng, 2):
            observer.update(array)
    state = observer.state()
    for name, array in state.items():
        for bad in (array.astype(np.float32), array[None], np.zeros((0,) * max(array.ndim, 2))):
            with pytest.raises(ValueError, match=r"is of|not fit|number"):
                make_observer(text, 8, symmetric=False).restore({**state, name: bad})
        if array.dtype == np.float64 and array.size:
            with pytest.raises(ValueError, match=r"is of|not fit|number"):
                make_observer(text, 8, symmetric=False).restore({**state, name: np.full_like(array, np.nan)})


def test_counts_that_do_not_fit(rng: np.random.Generator) -> None:
    observer = make_observer("kl", 8, symmetric=False)
    observer.update(batches(rng, 1)[0])
    state = observer.state()
    for name, value in (("first", 2**60), ("exponent", -1000), ("high", 1e300), ("counts", -state["histogram.counts"])):
        with pytest.raises(ValueError, match="histogram"):
            observer.restore({**state, f"histogram.{name}": np.array(value)})


def test_passes_that_began_apart() -> None:
    first, second = (make_observer("ifmr{exact=true}", 8, symmetric=False) for _ in range(2))
    first.update(np.ones(10))
    second.update(np.ones(20))
    first.next_pass()
    with pytest.raises(ValueError, match="do not merge"):
        first.merge(second)
    second.next_pass()
    with pytest.raises(ValueError, match="do not merge"):
        first.merge(second)


def test_exact_ifmr_keeps_no_large_part() -> None:
    observer = make_observer("ifmr{exact=true max-percentile=0.6}", 8, symmetric=False)
    observer.update(np.zeros(2**22, np.float32))
    with pytest.raises(ValueError, match="would keep"):
        observer.next_pass()


# Bounded


@pytest.mark.parametrize("text", NAMES)
@pytest.mark.parametrize("symmetric", [False, True])
def test_memory_does_not_grow(text: str, symmetric: bool) -> None:
    """The most that ten batches take is what a hundred take: state, and what is needed for one batch."""
    rng = np.random.default_rng(0)
    observer = make_observer(text, 8, symmetric=symmetric)
    peaks: list[int] = []
    for number in range(observer.passes):
        if number:
            observer.next_pass()
        for count in (10, 100):
            tracemalloc.start()
            for _ in range(count):
                observer.update(rng.normal(size=(20, 100)).astype(np.float32))
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    limit = 2**18 + (0 if text != "isotone" else 100 * 20 * 24)  # its rows are kept up to a number
    assert max(peaks) <= limit * 3
    assert sum(array.nbytes for array in observer.state().values()) <= limit


@pytest.mark.parametrize("symmetric", [False, True])
def test_rows_of_isotone_are_bounded(
    symmetric: bool, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Above the limit too, the rows kept are the same whatever the order, and how often each was seen."""
    monkeypatch.setattr(isotone, "_ROWS", 256)
    arrays = [np.round(rng.normal(size=(500, 4)), 2).astype(np.float32) for _ in range(8)]
    arrays.append(np.tile(arrays[0][:1], (500, 1)))
    forward, backward = (make_observer("isotone", 8, symmetric=symmetric) for _ in range(2))
    for array in arrays:
        forward.update(array)
        assert len(forward.state()["rows"]) <= 2 * 256 + 500
    half = make_observer("isotone", 8, symmetric=symmetric)
    for array in arrays[5:]:
        half.update(array)
    for array in reversed(arrays[:5]):
        backward.update(array)
    backward.merge(half)
    assert forward.finish() == backward.finish()
    for name, array in forward.state().items():
        np.testing.assert_array_equal(array, backward.state()[name])
    assert 64 <= len(forward.state()["rows"]) <= 256


# Parts


def test_exact_sums() -> None:
    """As by fractions: what float64 loses is not lost, whatever the order."""
    values = [1e300, 1.0, -1e300, 5e-324, 2.0**-60, -3.5]
    total = [0]
    for value in values:
        total = added(total, [value])
    other = [0]
    for value in reversed(values):
        other = added(other, [value])
    assert total == other
    assert mean(total[0], 1) == -2.5
    assert mean(added([0], [0.1])[0], 3) == 0.1 / 3
    with pytest.raises(ValueError, match="range"):
        added([0], [float("inf")])


@pytest.mark.parametrize("count", [0, 1, 2, 7, 100, 5000, 6000])
def test_largest(count: int, rng: np.random.Generator) -> None:
    """Also where the sample misleads: all large values stand where it looks, or none."""
    for values in (
        rng.normal(size=5000),
        np.zeros(5000),
        np.where(np.arange(5000) % 61, rng.normal(size=5000), 9.0),
        np.where(np.arange(5000) % 61, rng.normal(size=5000), -9.0),
        np.zeros(0),
    ):
        found = largest(values.astype(np.float32), count)
        np.testing.assert_array_equal(np.sort(found), np.sort(values.astype(np.float32))[max(values.size - count, 0) :])
        assert not found.size or found[0] == found.min()
