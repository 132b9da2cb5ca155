"""Intervals and tests against their definitions."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest

from amct_opt.flows.significance import Pair, Share


def test_wilson_solves_its_equation() -> None:
    """The bounds are the shares p for which the observed one is 1.96 standard deviations of p away."""
    for count in (1, 2, 7, 397, 50_000):
        for right in {0, 1, count // 3, count - 1, count}:
            low, high = (bound / 100 for bound in Share(right, count).interval)
            assert 0 <= low <= right / count <= high <= 1
            for p in {low, high} - {0.0, 1.0}:
                distance = abs(right / count - p) / np.sqrt(p * (1 - p) / count)
                assert distance == pytest.approx(1.959963984540054, rel=1e-9)
    assert Share(0, 10).interval[0] == 0
    assert Share(10, 10).interval[1] == 100


def test_mcnemar_counts_all_tosses() -> None:
    for first, second in product(range(6), repeat=2):
        tosses, apart = first + second, abs(first - second)
        uneven = [t for t in product((1, -1), repeat=tosses) if abs(sum(t)) >= apart]
        assert Pair(first, second).p == len(uneven) / 2**tosses


def test_mcnemar_of_large_counts() -> None:
    for first, second in ((120, 80), (80, 120), (300, 301), (0, 1000)):
        n = first + second
        tail = sum(comb(n, i) for i in range(min(first, second) + 1))
        assert Pair(first, second).p == float(min(Fraction(1), Fraction(2 * tail, 2**n)))


def test_pairs_count_the_samples_that_one_gets_right() -> None:
    a, b = np.array([1, 1, 0, 0, 1], bool), np.array([1, 0, 1, 0, 0], bool)
    assert Pair.of(a, b) == Pair(2, 1)
