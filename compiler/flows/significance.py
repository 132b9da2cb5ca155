"""Confidence in a share of right answers, and in the difference of two shares on the same samples."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from ..ir.array import Array

_Z = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""


@dataclass(frozen=True, repr=False)
class Share:
    """`right` of `count` samples."""

    right: int
    count: int

    def __repr__(self) -> str:
        return f"Share({self}: {self.right} of {self.count})"

    def __str__(self) -> str:
        return f"{self.percent:.1f} %"

    @property
    def cells(self) -> tuple[str, str]:
        """The share and its interval, in percent, for a table."""
        low, high = self.interval
        return f"{self.percent:.2f}", f"{low:.2f} to {high:.2f}"

    @staticmethod
    def of(right: Array) -> Share:
        """Makes a share from bool [samples]."""
        return Share(int(np.count_nonzero(right)), len(right))

    @property
    def percent(self) -> float:
        return 100 * self.right / self.count

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval in percent: Wilson's score interval, which suits few samples and 0 or 100 %."""
        n, p = self.count, self.right / self.count
        centre = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
        half = _Z * sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2)) / (1 + _Z**2 / n)
        return 100 * max(0.0, min(p, centre - half)), 100 * min(1.0, max(p, centre + half))

    def data(self) -> dict[str, float]:
        """The share as plain data."""
        low, high = self.interval
        return {"percent": self.percent, "low": low, "high": high, "right": self.right, "count": self.count}


EXPLAINED = (
    "only {first}, only this: samples that one alone gets right; p (McNemar): how likely such counts are by chance"
)
"""The explanation below a table of shares and pairs."""


@dataclass(frozen=True)
class Pair:
    """A pair of models on the same samples: how many only one of them gets right."""

    first_only: int
    second_only: int

    @staticmethod
    def of(first: Array, second: Array) -> Pair:
        """Makes a pair from the samples that each gets right, bool [samples]."""
        return Pair(int(np.count_nonzero(first & ~second)), int(np.count_nonzero(second & ~first)))

    @property
    def cells(self) -> tuple[str, str, str]:
        """Both counts, and their probability if neither model is better, for a table."""
        return str(self.first_only), str(self.second_only), f"{self.p:.3g}"

    @property
    def p(self) -> float:
        """McNemar's exact test, two-sided: how likely counts at least this uneven are if neither model is better.

        Under that hypothesis each sample that only one gets right is a toss of a fair coin.
        """
        tosses = self.first_only + self.second_only
        ways = total = 1
        for i in range(min(self.first_only, self.second_only)):
            ways = ways * (tosses - i) // (i + 1)  # tosses choose i + 1
            total += ways
        return min(1.0, 2 * total / 2**tosses)
