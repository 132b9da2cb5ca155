"""Exact sums of float64 numbers, independent of the order and grouping of the numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_SMALLEST = 1074
"""Every finite float64 is a multiple of 2^-1074."""


def units(value: float) -> int:
    """A finite number as a multiple of 2^-1074. Raises ValueError for NaN and Inf."""
    try:
        numerator, denominator = value.as_integer_ratio()
    except OverflowError:
        raise ValueError("a sum exceeds the range of numbers") from None
    return numerator << (_SMALLEST + 1 - denominator.bit_length())


def added(sums: Sequence[int], values: Iterable[float]) -> list[int]:
    """Sums in units of 2^-1074, each increased by one number."""
    return [total + units(value) for total, value in zip(sums, values, strict=True)]


def mean(total: int, count: int) -> float:
    """A sum in units of 2^-1074 divided by a count, rounded once."""
    return total / (count << _SMALLEST)
