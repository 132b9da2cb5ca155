"""Observers: what is kept of the values that pass a quantization point. A file per algorithm.

An observer's state is bounded whatever the amount of data, and states made apart merge into one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self

import numpy as np

from .minmax import MinMaxObserver

Array = np.ndarray[Any, np.dtype[Any]]


class Observer(Protocol):
    def update(self, array: Array) -> None:
        """Take one array of values in. Raises ValueError for NaN or Inf."""
        ...

    def merge(self, other: Self) -> None:
        """Take another state in, as if its data had been seen here."""
        ...

    def finish(self) -> tuple[float, float]:
        """The range (low, high) to quantize. Raises ValueError when nothing was seen."""
        ...


OBSERVERS: Mapping[str, Callable[[], Observer]] = {
    "minmax": MinMaxObserver,
}
"""By the name that `--insert-observers=observer=` takes."""
