"""The smallest and the largest value seen."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class MinMaxObserver:
    def __init__(self) -> None:
        self.low = float("inf")
        self.high = float("-inf")

    def update(self, array: Array) -> None:
        if not array.size:
            return
        low, high = float(array.min()), float(array.max())
        if not (np.isfinite(low) and np.isfinite(high)):  # NaN wins in both min and max
            raise ValueError("NaN or Inf among the values")
        self.low, self.high = min(self.low, low), max(self.high, high)

    def merge(self, other: MinMaxObserver) -> None:
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)

    def finish(self) -> tuple[float, float]:
        if self.low > self.high:
            raise ValueError("no values were seen")
        return self.low, self.high
