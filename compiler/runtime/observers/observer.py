"""What every observer is: bounded state that takes arrays in, merges, and gives a range."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Observer(ABC):
    """Sees the values that pass a quantization point and says which range of them to quantize.

    Fields that the constructor takes are the algorithm's options. State is bounded whatever the amount of data, and two states
    made from parts of the data merge into one.
    """

    bits: int = field(default=8, init=False)
    symmetric: bool = field(default=False, init=False)

    @property
    def passes(self) -> int:
        """How often it must see the data; `next_pass` is called between."""
        return 1

    def next_pass(self) -> None:
        """Called when all data has been seen, where it is to be seen again."""
        raise NotImplementedError

    def update(self, array: Array) -> None:
        """Take one array of values in: one batch. Raises ValueError for NaN or Inf."""
        if not array.size:
            return
        low, high = float(array.min()), float(array.max())
        if not (np.isfinite(low) and np.isfinite(high)):  # NaN wins in both min and max
            raise ValueError("NaN or Inf among the values")
        self.take(array, low, high)

    @abstractmethod
    def take(self, array: Array, low: float, high: float) -> None:
        """Take in an array whose finite minimum and maximum are `low` and `high`."""

    @abstractmethod
    def merge(self, other: Any) -> None:
        """Take another state of the same algorithm in, as if its data had been seen here, behind one's own."""

    @abstractmethod
    def finish(self) -> tuple[float, float]:
        """The range (low, high) to quantize. Raises ValueError when nothing was seen."""


def seen(low: float, high: float) -> tuple[float, float]:
    """A range, which must not be empty."""
    if low > high:
        raise ValueError("no values were seen")
    return low, high
