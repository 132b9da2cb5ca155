"""Non-uniform levels, shifts and balance factors, against the reference's vectors and brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from amct_opt.transforms.quantization.convert.shift_accumulators import best_shift, shift_errors
from amct_opt.transforms.quantization.numbers.divergence import divergence_scales
from amct_opt.transforms.quantization.numbers.weights import levels_of, nearest
from amct_opt.transforms.quantization.recover.balance_channels import balance_factors


def test_shift_vector() -> None:
    """AMCT's own numbers."""
    errors = shift_errors(np.array([[100000], [-70000], [1234], [-5]]))[:, 0]
    assert errors[:4].tolist() == [1207832453, 13, 13, 125]
    assert best_shift(errors) == 2


def test_shift_per_channel(rng: np.random.Generator) -> None:
    sums = rng.integers(-(2**20), 2**20, (100, 3)) * np.array([1, 16, 64])
    expected = []
    for channel in sums.T:
        errors = [
            sum((min(max(v >> n, -32768), 32767) * 2**n - v) ** 2 for v in channel.tolist()) for n in range(1, 17)
        ]
        expected.append(errors.index(min(errors)) + 1)
    assert best_shift(shift_errors(sums)).tolist() == expected


def test_balance_vector() -> None:
    """AMCT's own numbers: a channel without activations and one without weights among them."""
    factors = balance_factors(np.array([4.0, 1, 0, 8]), np.array([1.0, 2, 0.5, 0]))
    np.testing.assert_allclose(factors, [2, 0.70711, 4, 4], rtol=1e-5)


def test_balance_of_nothing() -> None:
    np.testing.assert_array_equal(balance_factors(np.zeros(3), np.zeros(3)), np.ones(3))


def test_balance_of_small_peaks() -> None:
    """A power of two that both peaks have is in none of the factors; what is zero is so in comparison."""
    a, w = np.array([4.0, 1, 0, 8]), np.array([1.0, 2, 0.5, 1e-9])
    small = balance_factors(np.ldexp(a, -60), np.ldexp(w, -60))
    np.testing.assert_array_equal(small, balance_factors(a, w))


@pytest.mark.parametrize("strength", [0.2, 0.5, 0.8])
def test_balanced_peaks(strength: float, rng: np.random.Generator) -> None:
    """At strength s the peaks become `(a*w)^(1-s)` and `(a*w)^s`."""
    a, w = rng.uniform(0.1, 10, 8), rng.uniform(0.1, 10, 8)
    factors = balance_factors(a, w, strength)
    np.testing.assert_allclose(a / factors, (a * w) ** (1 - strength), rtol=1e-6)
    np.testing.assert_allclose(w * factors, (a * w) ** strength, rtol=1e-6)


def test_scales_of_least_divergence() -> None:
    """AMCT's own numbers: an outlier, no outlier, one number next to zeros, which are not a histogram, and nothing but zeros."""
    weights = ((np.arange(2048) * 37 % 101 - 50).astype(np.float32) ** 3 / np.float32(125000)).reshape(4, 512)
    weights[0, 7] = 3
    weights[1] *= np.float32(1 / 3)
    weights[2, 1:] = weights[3] = 0
    channels = [0.023345947265625, 0.002593994140625, 0.0031658124644309282, 1.0]
    assert divergence_scales(weights, 0).tolist() == channels
    assert divergence_scales(weights.T, 1).tolist() == channels
    assert float(divergence_scales(weights, None)) == 0.021697998046875


@pytest.mark.parametrize("steps", [16, 32])
def test_levels(steps: int, rng: np.random.Generator) -> None:
    weights = np.clip(np.rint(rng.normal(size=(64, 9, 9)) * 35), -128, 127).astype(np.int8)
    levels = levels_of(weights, steps)
    assert levels.dtype == np.int8
    assert levels.size == steps
    assert np.all(np.diff(levels.astype(int)) > 0)
    restricted = nearest(weights, levels)
    assert set(np.unique(restricted)) <= set(levels.tolist())
    # no level is nearer to any weight than the one it became
    distances = np.abs(weights.reshape(-1, 1).astype(int) - levels.astype(int)).min(1)
    np.testing.assert_array_equal(np.abs(restricted.reshape(-1).astype(int) - weights.reshape(-1)), distances)
    for _ in range(300):  # nothing near is better
        tried = np.unique(np.clip(levels + rng.integers(-2, 3, steps), -128, 127)).astype(np.int8)
        assert squared_error(weights, levels) <= squared_error(weights, tried)


def squared_error(weights: np.ndarray, levels: np.ndarray) -> int:
    return int(np.sum((nearest(weights, levels).astype(np.int64) - weights) ** 2))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_levels_are_the_best(seed: int, steps: int) -> None:
    """Of few values within a small range every choice of levels can be tried."""
    rng = np.random.default_rng(seed)
    weights = np.repeat(rng.choice(np.arange(-12, 13), 9, replace=False), rng.integers(1, 50, 9)).astype(np.int8)
    best = min(squared_error(weights, np.array(c, np.int8)) for c in combinations(range(-12, 13), steps))
    assert squared_error(weights, levels_of(weights, steps)) == best


def test_few_distinct_values_are_kept() -> None:
    weights = np.array([3, 3, -128, 127, 0], np.int8)
    assert levels_of(weights, 16).tolist() == [-128, 0, 3, 127]


@pytest.mark.parametrize("fill", [-128, 127])
def test_levels_at_the_ends(fill: int) -> None:
    weights = np.concatenate([np.full(10000, fill), np.arange(-128, 128)]).astype(np.int8)
    levels = levels_of(weights, 32).astype(int)
    assert len(set(levels.tolist())) == 32
    assert fill in levels
