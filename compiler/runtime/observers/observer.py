"""The base of observers: bounded state that takes arrays in, merges, and gives a range."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from .state import Array, State, restore, state_of

Merging = Literal["equal", "rounding", "resolution"]
"""The same to the last bit; but for the rounding of float64; but for the width of bins."""
_LARGEST = float(np.finfo(np.float32).max)


@dataclass
class Observer(ABC):
    """Sees the values that pass a quantization point and decides which range of them to quantize.

    Fields that the constructor takes are the algorithm's options, the others its state. That is bounded whatever the amount of
    data, and two states made from parts of the data merge into one.
    """

    bits: int = field(default=8, init=False)
    symmetric: bool = field(default=False, init=False)

    @property
    def merging(self) -> Merging:
        """How a state merged from parts of the data, in this order, compares to one that saw all of it."""
        return "equal"

    @property
    def extremes_suffice(self) -> bool:
        """Whether an array of the smallest and the largest value is as good as all of them."""
        return False

    @property
    def batches_matter(self) -> bool:
        """Whether the result depends on how samples are put into batches; where none does, small models run several at a time."""
        return True

    @property
    def passes(self) -> int:
        """How often it must see the data; `next_pass` is called between."""
        return 1

    def next_pass(self) -> None:
        """Called when all data has been seen, where it is to be seen again."""
        raise NotImplementedError

    def update(self, array: Array) -> None:
        """Take one array of values in: one batch. Raises ValueError for NaN, Inf, and more than float32 holds."""
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
        """Take in an array whose finite minimum and maximum are `low` and `high`."""

    @abstractmethod
    def merge(self, other: Any) -> None:
        """Take another state of the same algorithm in, as if its data had been seen here, behind one's own."""

    def state(self) -> dict[str, Array]:
        """The state so far, as arrays by name."""
        return state_of(self)

    def restore(self, state: State) -> None:
        """Go on from a state of an observer with the same specification. Raises ValueError for anything else."""
        restore(self, state)
        self.check()

    @abstractmethod
    def check(self) -> None:
        """Raises ValueError for a state that no data leads to. The types in a file are right, but the numbers may be
        arbitrary.
        """

    @abstractmethod
    def finish(self) -> tuple[float, float]:
        """The range (low, high) to quantize. Raises ValueError when nothing was seen."""


def seen(low: float, high: float) -> tuple[float, float]:
    """A range, which must not be empty."""
    if low > high:
        raise ValueError("no values were seen")
    return low, high
