"""The base of observers: bounded state that sees arrays, merges, and returns a range."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from .state import Array, State, restore, state_of

Merging = Literal["equal", "rounding", "resolution"]
"""The precision of merged states: equal to the last bit, up to the rounding of float64, or up to the width of bins."""
FEW = 16
"""Fewest samples whose extremes and means are about those of all others."""
_LARGEST = float(np.finfo(np.float32).max)


@dataclass
class Observer(ABC):
    """Sees the values that pass a quantization point and decides which range of them to quantize.

    Fields in the constructor are the algorithm's options, the others its state, which is bounded for any amount of
    data. States from parts of the data merge into one.
    """

    bits: int = field(default=8, init=False)
    symmetric: bool = field(default=False, init=False)

    @property
    def merging(self) -> Merging:
        """The precision of merging: how a state merged from parts of the data, in order, compares with one that saw all of it."""
        return "equal"

    @property
    def extremes_suffice(self) -> bool:
        """Whether an array of the smallest and the largest value is as good as all of them."""
        return False

    @property
    def batches_matter(self) -> bool:
        """Whether the result depends on the batches; if it does for no observer, small models run several samples at a time."""
        return True

    @property
    def passes(self) -> int:
        """The number of passes over the data; `next_pass` is called between them."""
        return 1

    def next_pass(self) -> None:
        """Called at the end of a pass if another one follows."""
        raise NotImplementedError

    def update(self, array: Array) -> None:
        """Adds one array of values: one batch. Raises ValueError for NaN, Inf, and values beyond float32."""
        if not array.size:
            return
        low, high = float(array.min()), float(array.max())
        if not (np.isfinite(low) and np.isfinite(high)):  # NaN wins in both min and max
            raise ValueError("NaN or Inf among the values")
        if max(-low, high) > _LARGEST:
            raise ValueError(f"values from {low:g} to {high:g} exceed float32")
        self.take(array, low, high)

    @abstractmethod
    def take(self, array: Array, low: float, high: float) -> None:
        """Adds an array whose finite minimum and maximum are `low` and `high`."""

    @abstractmethod
    def merge(self, other: Any) -> None:
        """Adds another state of the same algorithm, as if its data had been seen here, after the data seen so far."""

    def state(self) -> dict[str, Array]:
        """The state so far, as arrays by name."""
        return state_of(self)

    def restore(self, state: State) -> None:
        """Continues from a state of an observer with the same specification. Raises ValueError for another one."""
        restore(self, state)
        self.check()

    @abstractmethod
    def check(self) -> None:
        """Raises ValueError for a state that no data leads to. The types from a file are right, but the numbers may be
        arbitrary.
        """

    def range_of(self, samples: int | None) -> tuple[float, float]:
        """The range, of this many samples; of synthetic ones None. Raises NoValues if nothing was seen."""
        return self.finish()

    @abstractmethod
    def finish(self) -> tuple[float, float]:
        """The range (low, high) to quantize. Raises NoValues if nothing was seen."""


class NoValues(ValueError):
    """An observer saw no values, at most empty arrays."""

    def __init__(self) -> None:
        super().__init__("no values were seen")


def seen(low: float, high: float) -> tuple[float, float]:
    """A range, which must not be empty."""
    if low > high:
        raise NoValues
    return low, high
